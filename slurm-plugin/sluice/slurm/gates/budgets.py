"""Budgets of users and accounts: what their jobs have waited for tokens, across restarts.

The core charges and judges (policies/core/control.h). Here is who pays for which job, and what the
history keeps of it: seconds by hour, user and account, from which a new sluiced goes on. Without a
history it begins at 0, and MaxDelay bounds each wait as always.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.history_db.records import IoWait
from sluice.policies.control import HOURS, Payers, new_facts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.history_db.store import Store
    from sluice.policies.core import Config
    from sluice.slurm.records import QueuedJob

HOUR = 3600
STORED_SECONDS = 10
"""How often the history hears of waits: what a killed sluiced forgets of them, at most."""
NEAR = 0.8
"""Share of a budget from which on `near` names who has used it."""


class Budgets:
    """Keeps the payers of the control loop, and what the history has not heard of."""

    def __init__(self, facts: Any) -> None:
        """Facts are those of the control loop."""
        self._payers = Payers(facts)
        self._seen: dict[int, float] = {}
        """Seconds that had been paid for a job, by its id."""
        self._unstored: dict[tuple[int, int, str], float] = {}
        """Seconds by hour, uid and account."""
        self._due = 0
        self._is_restored = False

    def describe(self, row: Any, job: QueuedJob) -> None:
        """Name the user and account charged for a job, in its row of the loop."""
        row.user = self._payers.index("user", job.uid)
        row.account = self._payers.index("account", job.account) if job.account else 0

    def restore(self, store: Store, cluster: str, now: int) -> None:
        """Go on where an earlier sluiced ended; once. Raises HistoryError."""
        if self._is_restored:
            return
        _pay(self._payers, store, cluster, now)
        self._is_restored = True

    def take(self, rows: Iterable[tuple[int, QueuedJob, float]], now: int) -> None:
        """Take up what was paid for each job with tokens, until now."""
        before, self._seen = self._seen, {}
        for job_id, job, paid in rows:
            self._seen[job_id] = paid
            if seconds := paid - before.get(job_id, 0.0):
                who = (now // HOUR * HOUR, job.uid, job.account or "")
                self._unstored[who] = self._unstored.get(who, 0.0) + seconds

    def forget(self, job_id: int) -> None:
        """Take up that a job is gone: another may get its number."""
        self._seen.pop(job_id, None)

    def due(self, cluster: str, now: int) -> list[IoWait]:
        """Return what the history is to be told now."""
        if now < self._due or not self._unstored:
            return []
        self._due = now + STORED_SECONDS
        return self.rest(cluster)

    def rest(self, cluster: str) -> list[IoWait]:
        """Return all that the history has not been told."""
        rows = [
            IoWait(cluster, hour, uid, account, seconds)
            for (hour, uid, account), seconds in self._unstored.items()
        ]
        self._unstored = {}
        return rows


def near(store: Store, config: Config, cluster: str | None, now: int) -> list[dict[str, Any]]:
    """Return which users and accounts have used NEAR of their budget in the last day, or more.

    cluster: None: all that the history knows.
    """
    payers = Payers(new_facts())
    users, accounts = _pay(payers, store, cluster, now)
    return [
        {"kind": kind, "who": who, "seconds": seconds, "budget": budget}
        for kind, budget, known in (
            ("user", config.user_budget, users),
            ("account", config.account_budget, accounts),
        )
        for who in known
        if budget and (seconds := payers.paid(kind, who, now)) >= NEAR * budget
    ]


def _pay(
    payers: Payers, store: Store, cluster: str | None, now: int
) -> tuple[list[int], list[str]]:
    """Let users and accounts have paid what the history knows; return who they are."""
    rows = store.gates.io_waits(since=(now // HOUR - HOURS) * HOUR, cluster=cluster)
    for row in rows:
        payers.pay("user", row.uid, row.hour, row.seconds)
        if row.account:
            payers.pay("account", row.account, row.hour, row.seconds)
    return sorted({row.uid for row in rows}), sorted({row.account for row in rows} - {""})
