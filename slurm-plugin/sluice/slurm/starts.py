"""Decides again at the start of a job, where nothing is enforced.

In enforce jobs of one second meet at the gates: the first gets its token, the next is decided again
alongside it, so each is judged alongside those in front. Where nobody waits they start together,
and the decision at submission saw none of them, nor anybody that came or went while the job waited.
So that observe says what enforce would, each job that matters is decided again when it has started:
alongside those that started before it, or with it and come first. The records are second decisions,
as those of the control loop are.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.policies.record import Situation, decide
from sluice.policies.snapshot import Snapshot
from sluice.slurm.drainer import decision_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sluice.history_db.records import Decision
    from sluice.history_db.records import Snapshot as StoredSnapshot
    from sluice.history_db.store import Store
    from sluice.policies.bundle import Bundle
    from sluice.policies.core import Config
    from sluice.slurm.gatekeeper import Seen
    from sluice.slurm.ledger import Ledger
    from sluice.slurm.records import QueuedJob
    from sluice.slurm.snapshot import Publisher

AT_ONCE = 16
"""Jobs decided again in one poll: a submission storm must not hold up the snapshot."""
WINDOW = 30
"""Seconds after its start in which a job is decided again: its record may come late."""
UNSEEN = 3
"""Seconds by which a snapshot was older than the decision made with it, at most."""
STALE = 60
"""Seconds of waiting after which who runs may be others than at submission."""


class Starts:
    """Remembers which jobs it has decided on."""

    def __init__(self) -> None:
        self._boot = secrets.randbits(64) or 1
        self._number = 0
        self._done: dict[int, int] = {}
        """Starts of jobs, by job id."""

    def poll(
        self,
        seen: Seen,
        ledger: Ledger,
        *,
        bundle: Bundle,
        publisher: Publisher,
        config: Config,
    ) -> Callable[[Store], None] | None:
        """Decide on jobs that have just started; return what tells the history, if anything.

        publisher has published the snapshot of these jobs.
        """
        now = seen.now
        self._done = {job: start for job, start in self._done.items() if start > now - 2 * WINDOW}
        running = {job.job_id: job for job in seen.jobs if job.job_id in publisher.corunners}
        rows: list[tuple[StoredSnapshot, Decision]] = []
        for job in sorted(running.values(), key=_order):
            if len(rows) == AT_ONCE or not self._is_due(job, now):
                continue
            known = ledger.known(job)
            if known is None or known.prediction is None or known.prediction.klass == "none":
                continue
            self._done[job.job_id] = job.start or now
            before = [other for other in running.values() if _order(other) < _order(job)]
            if not _is_news(job, before):
                continue
            snapshot = publisher.alongside({other.job_id for other in before})
            self._number += 1
            record = decide(
                Situation(bundle, Snapshot.parse(snapshot.content)),
                config,
                known.submission,
                now,
                boot=self._boot,
                number=self._number,
                cluster=ledger.cluster,
            )
            decision = replace(decision_of(record), job_id=job.submission_id, is_second=True)
            rows.append((snapshot, decision))
        return _writer(rows) if rows else None

    def _is_due(self, job: QueuedJob, now: int) -> bool:
        is_new = self._done.get(job.job_id) != job.start
        return job.start is not None and job.start >= now - WINDOW and is_new


def _order(job: QueuedJob) -> tuple[int, int, int]:
    """Return by what jobs come one after the other, as through a gate."""
    return job.start or 0, -job.priority, job.job_id


def _is_news(job: QueuedJob, before: Sequence[QueuedJob]) -> bool:
    """Whether the decision at submission may have been made alongside others."""
    waited = (job.start or job.submit) - job.submit
    return waited > STALE or any((other.start or 0) >= job.submit - UNSEEN for other in before)


def _writer(rows: Sequence[tuple[StoredSnapshot, Decision]]) -> Callable[[Store], None]:
    def write(store: Store) -> None:
        for snapshot, _ in rows:
            store.add_snapshot(snapshot)
        store.insert_decisions(decision for _, decision in rows)

    return write
