"""Decides again on jobs that come near their start, by the core that decided at submission.

At submission nobody knows the co-runners of hours later, so tokens are provisional. What runs now
may say that a job had better share after all, take another lane, or that it needs no token. Its
gate may say no all the same: that is for Tolerance; whether it is worth the wait, cost decides.
"""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sluice.policies.record import Record, Situation, decide
from sluice.policies.snapshot import Snapshot
from sluice.policies.tokens import Tokens, should_exchange, token_names, tokens_of
from sluice.slurm.drainer import decision_of
from sluice.slurm.waits import NOT_YET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sluice.history_db.records import Snapshot as StoredSnapshot
    from sluice.history_db.store import Store
    from sluice.policies.bundle import Bundle
    from sluice.policies.core import Config, View
    from sluice.slurm.holdings import Holding, Key
    from sluice.slurm.ledger import Ledger
    from sluice.slurm.records import License, QueuedJob

NEAR = frozenset({"None", "Licenses", "Resources"})
"""Slurm's reasons of jobs that may start next; others wait behind them."""
MOST = 64
"""Jobs decided on in one look; those first that were looked at longest ago."""
MOVES = 3
"""Times that the tokens of a job are exchanged, so that it does not go to and fro."""
LET_GO = 10
"""Seconds in which a job that was let go should start; until it has, no other one is."""
SHARE = frozenset({"harmless", "sharing_cheapest", "margin"})
"""Reasons by which waiting costs more than it saves."""
NO_VERDICT = frozenset({"no_bundle", "no_snapshot", "stale_snapshot", "switched_off"})
"""Reasons to abstain that say nothing of the job."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided again on a waiting job."""

    record: Record
    tokens: Tokens
    """That it should have."""
    pays: bool
    """Whether those save more than the margin over the tokens that it has."""


class SecondDecisions:
    """What was decided again, in the latest look and on whom."""

    def __init__(self) -> None:
        self._boot = secrets.randbits(64) or 1
        self._number = 0
        self._decided: dict[Key, int] = {}
        self._moves: Counter[Key] = Counter()
        self._waiting: set[Key] = set()
        """Those of which the latest verdict is that they wait."""
        self._let_go: dict[Key, int] = {}
        self._verdicts: dict[Key, Verdict] = {}
        self._snapshot: StoredSnapshot | None = None

    def look(
        self,
        waiting: Sequence[Holding],
        ledger: Ledger,
        bundle: Bundle,
        snapshot: StoredSnapshot,
        *,
        config: Config,
        licenses: Mapping[str, License],
        now: int,
    ) -> None:
        """Decide again on those near their start."""
        self._forget_all_but({holding.key for holding in waiting})
        self._verdicts, self._snapshot = {}, snapshot
        near = [holding for holding in waiting if holding.job.reason in NEAR]
        if not near:
            return
        near.sort(key=lambda holding: self._decided.get(holding.key, 0))
        situation = Situation(bundle, Snapshot.parse(snapshot.content))
        for holding in near[:MOST]:
            self._decided[holding.key] = now
            submission = ledger.submission(holding.job)
            if submission is None:
                continue
            self._number += 1

            def made(klass: str, submission: View = submission) -> Record:
                return decide(
                    situation,
                    config,
                    submission,
                    now,
                    boot=self._boot,
                    number=self._number,
                    cluster=ledger.cluster,
                    totals=_totals(bundle.policy, klass, licenses),
                )

            self._take_up(holding, made(holding.klass), made, bundle.policy)

    def should_wait(self, holding: Holding) -> bool:
        """Whether the latest verdict on a job is that it waits until the conflict is over."""
        return holding.key in self._waiting

    def releases(
        self,
        found: Sequence[Holding],
        jobs: Iterable[QueuedJob],
        gates: Mapping[str, int],
        now: int,
    ) -> dict[Key, str]:
        """Say who needs his tokens no longer, and why.

        Whoever had better share is let go where his gate is shut: one after the other, so that
        the next verdict knows of him. An array is not, for all of its tasks would go at once.
        """
        reasons = {
            key: "left" for key, verdict in self._verdicts.items() if _needs_no_token(verdict)
        }
        pending = {(job.job_id, job.submit, job.restarts) for job in jobs if job.is_pending}
        self._let_go = {
            key: at for key, at in self._let_go.items() if key in pending and at > now - LET_GO
        }
        if self._let_go:
            return reasons
        for holding in _blocked(found, gates):
            verdict = self._verdicts.get(holding.key)
            if verdict and verdict.record.decision.reason in SHARE and not holding.job.is_array:
                self._let_go[holding.key] = now
                reasons[holding.key] = "sharing"
                break
        return reasons

    def exchanges(self, found: Sequence[Holding]) -> Iterator[tuple[Holding, Tokens]]:
        """Yield who should have other tokens, and which.

        An array of which some tasks run keeps its tokens: they write where these say.
        """
        running = {holding.job.submission_id for holding in found if not holding.job.is_pending}
        for holding in found:
            verdict = self._verdicts.get(holding.key)
            if (
                verdict is not None
                and verdict.pays
                and self._moves[holding.key] < MOVES
                and holding.job.submission_id not in running
            ):
                self._moves[holding.key] += 1
                yield holding, verdict.tokens

    def keep(self, store: Store, acted: Iterable[Holding]) -> None:
        """Keep in the history the decisions that are acted on, with what they were made from."""
        decisions = [
            replace(
                decision_of(self._verdicts[holding.key].record),
                job_id=holding.job.submission_id,
                is_second=True,
            )
            for holding in acted
        ]
        if self._snapshot is not None:
            store.add_snapshot(self._snapshot)
        store.insert_decisions(decisions)

    def _forget_all_but(self, present: set[Key]) -> None:
        self._decided = {key: at for key, at in self._decided.items() if key in present}
        self._moves = Counter({key: n for key, n in self._moves.items() if key in present})
        self._waiting &= present

    def _take_up(
        self, holding: Holding, record: Record, made: Callable[[str], Record], policy: View
    ) -> None:
        tokens = tokens_of(policy, record.decision)
        if tokens.klass not in {"none", holding.klass}:
            record = made(tokens.klass)
        held = Tokens(holding.klass, holding.lane_mask)
        pays = record.grant.outcome == "taken" and should_exchange(policy, held, record.decision)
        self._verdicts[holding.key] = Verdict(record, tokens, pays)
        if record.decision.action == "delay":
            self._waiting.add(holding.key)
        else:
            self._waiting.discard(holding.key)


def _needs_no_token(verdict: Verdict) -> bool:
    return not verdict.tokens.lane_mask and verdict.record.decision.reason not in NO_VERDICT


def _totals(policy: View, klass: str, licenses: Mapping[str, License]) -> list[int]:
    return [
        licenses[token].total if token in licenses else 0
        for token, (_, of_class) in token_names(policy).items()
        if of_class == klass
    ]


def _blocked(found: Sequence[Holding], gates: Mapping[str, int]) -> list[Holding]:
    """Return the jobs that wait and may find a gate shut, the oldest submission first."""
    held: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    for holding in found:
        for token, count in holding.counts:
            if not holding.job.is_pending:
                held[token] += count
            elif holding.job.reason not in NOT_YET:
                wanted[token] += count * holding.job.tasks_waiting
    blocked = [
        holding
        for holding in found
        if holding.job.is_pending
        and any(gates.get(token, 0) < held[token] + wanted[token] for token, _ in holding.counts)
    ]
    return sorted(blocked, key=lambda holding: (holding.job.submit, holding.job.job_id))
