"""An account of who waits for a token though Slurm could start the job, from Slurm's data alone.

It knows nothing of Sluice's own clocks. A job is charged while it is eligible and wants tokens,
while there are idle nodes for it and for every job that goes before it, and while its own
licences are free. What Slurm needs for a pass over the queue is nobody's delay, so each time
that a job could start, the first `pass_seconds` of that are free.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NOT_YET = frozenset(
    {
        "BeginTime",
        "Dependency",
        "DependencyNeverSatisfied",
        "JobHeldAdmin",
        "JobHeldUser",
        "Cleaning",
        "launch_failed_requeued_held",
        "job_requeued_in_held_state",
    }
)
GAP = 4.0  # seconds between two polls; of a longer gap nothing is known


@dataclass(frozen=True, slots=True)
class Seen:
    """One pending record of squeue."""

    key: tuple[int, int]
    """Job id, and restarts: a requeued job waits anew."""
    leader: int
    """Job id of a heterogeneous job's first component; 0 for others."""
    reason: str
    eligible: float
    """By Slurm's clock."""
    rank: tuple[int, int]
    """Tier of the partition, then priority: a higher one goes before."""
    nodes: int
    """That the first task needs."""
    tasks: int
    tokens: tuple[str, ...]
    licenses: Mapping[str, int] = field(default_factory=dict)
    """Of its own."""


@dataclass(frozen=True, slots=True)
class Poll:
    """What Slurm told at one time."""

    at: float
    """Monotonic seconds."""
    now: float
    """Slurm's clock."""
    idle: int
    """Nodes."""
    free: Mapping[str, int]
    """Of each licence that is not a token."""
    pending: Sequence[Seen]
    alive_since: float | None
    """Monotonic: since when sluiced has been running; None while it does not, or is stopped."""
    dead_since: float | None


@dataclass(frozen=True, slots=True)
class Limits:
    max_delay: float
    lease: float
    poll: float
    """Seconds that sluiced takes for a poll and rests after it."""
    pass_seconds: float
    """Between two scheduling passes of Slurm."""
    slack: float
    """For a machine that is busy."""

    @property
    def alive(self) -> float:
        return self.max_delay + 2 * self.poll + self.slack

    @property
    def dead(self) -> float:
        return self.lease + self.slack


@dataclass(slots=True)
class _Clock:
    since: float
    """Since when the job could start without a break."""
    charged: float = 0.0
    """While sluiced was alive."""
    dead: float = 0.0
    """In this stretch, while sluiced was not."""
    last: float | None = None
    """The poll before, where the job could start then."""


class Account:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.longest = 0.0
        """The most that any job was charged."""
        self._clocks: dict[tuple[int, int], _Clock] = {}

    def take(self, poll: Poll) -> list[str]:
        """Charge those who could have started since the poll before; say who is over the limit."""
        able = could_start(poll)
        waiting = {seen.key for seen in poll.pending}
        self._clocks = {key: clock for key, clock in self._clocks.items() if key in waiting}
        for key, clock in self._clocks.items():
            if key not in able:
                clock.last = None
        return [text for seen in able.values() if (text := self._charge(seen, poll))]

    def charged(self, key: tuple[int, int]) -> float:
        clock = self._clocks.get(key)
        return clock.charged if clock else 0.0

    def _charge(self, seen: Seen, poll: Poll) -> str | None:
        clock = self._clocks.setdefault(seen.key, _Clock(since=poll.at))
        last, clock.last = clock.last, poll.at
        if last is None or poll.at - last > GAP:
            clock.since, clock.dead = poll.at, 0.0
            return None
        new = poll.at - max(last, clock.since + self.limits.pass_seconds)
        if new <= 0:
            return None
        if poll.dead_since is not None:
            clock.dead += min(new, max(0.0, poll.at - poll.dead_since))
            return self._over(seen, "sluiced dead", clock.dead, self.limits.dead)
        clock.dead = 0.0
        if poll.alive_since is not None and last - poll.alive_since >= self.limits.lease:
            clock.charged += new
            self.longest = max(self.longest, clock.charged)
            return self._over(seen, "sluiced alive", clock.charged, self.limits.alive)
        return None

    @staticmethod
    def _over(seen: Seen, when: str, charged: float, limit: float) -> str | None:
        if charged <= limit:
            return None
        return (
            f"job {seen.key[0]} with {','.join(seen.tokens)} could have "
            f"started for {charged:.1f} s ({when}; allowed {limit:g} s), reason {seen.reason}"
        )


def could_start(poll: Poll) -> dict[tuple[int, int], Seen]:
    """Those with tokens for whom, and for all who go before them, there are idle nodes."""
    eligible = [seen for seen in poll.pending if is_eligible(seen, poll.now)]
    eligible.sort(key=lambda seen: (seen.rank, -seen.key[0]), reverse=True)
    able: dict[tuple[int, int], Seen] = {}
    before = 0
    for seen in eligible:
        if before + seen.nodes > poll.idle:
            break
        if seen.tokens and all(poll.free.get(name, 0) >= n for name, n in seen.licenses.items()):
            able[seen.key] = seen
        before += seen.nodes * seen.tasks
    return able


def is_eligible(seen: Seen, now: float) -> bool:
    return seen.reason not in NOT_YET and 0 < seen.eligible <= now and seen.rank[1] > 0


def merge_components(seen: Iterable[Seen]) -> list[Seen]:
    """Components of a heterogeneous job start together: as one that needs the nodes of all."""
    merged: dict[tuple[int, int], Seen] = {}
    for row in seen:
        key = (row.leader or row.key[0], row.key[1])
        first = merged.get(key)
        merged[key] = row if first is None else _together(first, row)
    return list(merged.values())


def _together(first: Seen, second: Seen) -> Seen:
    return replace(
        first,
        eligible=max(first.eligible, second.eligible),
        rank=min(first.rank, second.rank),
        nodes=first.nodes + second.nodes,
        tokens=tuple({*first.tokens, *second.tokens}),
        licenses={**first.licenses, **second.licenses},
    )
