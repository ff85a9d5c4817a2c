"""How long jobs have waited for their tokens, and how they are released.

The time counts in which Slurm gives licences as the reason. It is an upper bound of the delay
that Sluice causes: Slurm looks at licences before anything else, so the reason stands also while
no node is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.policies.tokens import LICENSES_SIZE
from sluice.slurm.holdings import Key, parse_licenses

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sluice.slurm.holdings import Holding

LICENSES = "Licenses"
NOT_YET = frozenset(
    {"BeginTime", "Dependency", "DependencyNeverSatisfied", "JobHeldAdmin", "JobHeldUser"}
)
"""Reasons of jobs that do not start before something happens to them; then they are looked at."""


@dataclass(slots=True)
class Clock:
    waited: float
    """Seconds."""
    seen: float


class Waits:
    """The clocks of the jobs that wait with tokens."""

    def __init__(self) -> None:
        self._clocks: dict[Key, Clock] = {}

    def follow(self, waiting: Iterable[Holding], now: float) -> None:
        """Let the clocks of those go on who wait for licences at time now.

        The clock of a job that is new to us starts when it became eligible: after a restart of
        sluiced it may have waited all the time.
        """
        before = self._clocks
        self._clocks = {}
        for holding in waiting:
            is_stopped = holding.job.reason != LICENSES
            clock = before.get(holding.key)
            if clock is None:
                since = now if is_stopped else min(holding.job.eligible or now, now)
                clock = Clock(waited=0.0, seen=since)
            if not is_stopped:
                clock.waited += max(0.0, now - clock.seen)
            clock.seen = now
            self._clocks[holding.key] = clock

    def waited(self, holding: Holding) -> float:
        """Seconds that a job has waited for its tokens, at most."""
        clock = self._clocks.get(holding.key)
        return clock.waited if clock else 0.0


def release_command(holding: Holding, licenses: Mapping[str, object]) -> str:
    """Return scontrol's command that leaves a waiting job all licences but our tokens.

    The text is put together from names that the controller has, never copied: users may write
    behind a number whatever they like. An array is changed as a whole, because a change of some
    of its tasks would split its record; so its tasks that run give up their tokens as well.
    """
    return f"update jobid={holding.job.submission_id} licenses={','.join(_own(holding, licenses))}"


def exchange_command(
    holding: Holding, licenses: Mapping[str, object], tokens: Iterable[str]
) -> str | None:
    """Return the command that gives a waiting job these tokens for its own; None: no room."""
    text = ",".join([*_own(holding, licenses), *tokens])
    if len(text) >= LICENSES_SIZE:
        return None
    return f"update jobid={holding.job.submission_id} licenses={text}"


def _own(holding: Holding, licenses: Mapping[str, object]) -> list[str]:
    """Return the licences that are not ours."""
    tokens = dict(holding.counts)
    return [
        f"{name}:{count}"
        for name, count in parse_licenses(holding.job.licenses).items()
        if name in licenses and name not in tokens
    ]
