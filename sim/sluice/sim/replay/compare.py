"""Policies next to each other: the same jobs, the same seeds, the same storage.

Repetition 0 is the question as asked. Each further one asks it of another draw: other seeds, and
storage whose every number is off by a random factor. All policies see the same draw, so they differ
by nothing but what they do.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sluice.sim.policies.policies import POLICIES
from sluice.sim.replay.bound import bound
from sluice.sim.replay.fan_out import in_order
from sluice.sim.replay.figures import figures
from sluice.sim.replay.intervals import interval
from sluice.sim.replay.io_replay import replay_with_io
from sluice.sim.storage.contention import station_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from sluice.sim.policies.policies import Options, Policy
    from sluice.sim.replay.bound import Bound
    from sluice.sim.replay.fan_out import Watch
    from sluice.sim.replay.figures import Figures
    from sluice.sim.replay.intervals import Interval
    from sluice.sim.replay.io_outcomes import IoOutcomes
    from sluice.sim.storage.storage import Storage
    from sluice.sim.trace.machine import Site
    from sluice.sim.trace.profiles import Profiles
    from sluice.sim.trace.repairs import Replayable

PLAIN = "none"
"""The policy that the others are held against."""


@dataclass(frozen=True, slots=True)
class Draw:
    """All that a replay is made of but the policy."""

    replayable: Replayable
    site: Site
    profiles: Profiles
    storage: Storage
    options: Options


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of one draw under several policies, and of further draws as figures."""

    draw: Draw
    """Repetition 0."""
    outcomes: Mapping[str, IoOutcomes]
    """By policy; of repetition 0."""
    figures: Mapping[str, Sequence[Figures]]
    """By policy: FIGURES of every repetition."""
    bounds: Sequence[Bound]
    """Of every repetition."""

    @property
    def policies(self) -> tuple[str, ...]:
        return tuple(self.outcomes)

    @property
    def repetitions(self) -> int:
        """Of draws other than the one that was asked about."""
        return len(self.bounds) - 1

    def interval(self, policy: str, figure: str) -> Interval | None:
        """Return where a figure of one more draw lies; the figure itself is in it."""
        first, *others = (one[figure] for one in self.figures[policy])
        return _around(first, interval(others))

    def difference(self, policy: str, figure: str) -> float | None:
        """Return by how much a policy's figure is above that without one."""
        return _difference(self.figures[policy][0][figure], self.figures[PLAIN][0][figure])

    def difference_interval(self, policy: str, figure: str) -> Interval | None:
        """Return where that difference lies in one more draw, the same for both."""
        first, *others = (
            _difference(one[figure], other[figure])
            for one, other in zip(self.figures[policy], self.figures[PLAIN], strict=True)
        )
        return _around(first, interval(others))


def _around(value: float | None, found: Interval | None) -> Interval | None:
    """Widen an interval so that it holds the value; its coverage is then at least as stated."""
    if value is None or found is None:
        return None
    return replace(found, low=min(found.low, value), high=max(found.high, value))


def _difference(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def compare(
    draw: Callable[[int], Draw],
    policies: Sequence[str],
    *,
    repeats: int = 0,
    workers: int = 1,
    known: Mapping[str, Policy] = POLICIES,
    advance: Callable[[int], object] = lambda _: None,
) -> Comparison:
    """Replay each draw(repetition), of 0 to repeats, under the policies and without one.

    policies: keys of known.

    advance is told of replays that are done, (1 + repeats) * (policies and PLAIN) in all. The
    answer does not depend on the number of workers.
    """
    (found,) = compare_each(
        [draw], policies, repeats=repeats, workers=workers, known=known, advance=advance
    )
    return found


def compare_each(
    questions: Sequence[Callable[[int], Draw]],
    policies: Sequence[str],
    *,
    repeats: int = 0,
    workers: int = 1,
    known: Mapping[str, Policy] = POLICIES,
    advance: Callable[[int], object] = lambda _: None,
) -> Generator[Comparison, None, None]:
    """Yield `compare` of each question, in their order; the cores work on several at a time."""
    names = (PLAIN, *(name for name in dict.fromkeys(policies) if name != PLAIN))

    def tasks() -> Iterator[tuple[Draw, str]]:
        for question in questions:
            for repetition in range(1 + repeats):
                draw = question(repetition)
                yield from ((draw, name) for name in names)

    with closing(in_order(tasks(), partial(_replay, known), workers=workers)) as replays:

        def next_draw() -> tuple[Draw, dict[str, IoOutcomes]]:
            replayed = {name: next(replays) for name in names}
            advance(len(names))
            return replayed[PLAIN][0], {name: outcomes for name, (_, outcomes) in replayed.items()}

        for _ in questions:
            asked, outcomes = next_draw()
            answers = [_answer(asked, outcomes), *(_answer(*next_draw()) for _ in range(repeats))]
            found = {name: [figures[name] for _, figures in answers] for name in names}
            yield Comparison(asked, outcomes, found, [bound for bound, _ in answers])


def _replay(
    known: Mapping[str, Policy], task: tuple[Draw, str], watch: Watch
) -> tuple[Draw, IoOutcomes]:
    draw, policy = task
    return draw, replay_with_io(
        draw.replayable,
        draw.site,
        profiles=draw.profiles,
        storage=draw.storage,
        policy=policy,
        options=draw.options,
        known=known,
        progress=watch,
    )


def _answer(draw: Draw, outcomes: Mapping[str, IoOutcomes]) -> tuple[Bound, Mapping[str, Figures]]:
    plain = outcomes[PLAIN]
    bound = bound_of(draw, plain)
    return bound, {name: figures(one, plain, bound) for name, one in outcomes.items()}


def bound_of(draw: Draw, plain: IoOutcomes) -> Bound:
    """Bound what a policy could gain over this replay without one."""
    config = draw.storage.configuration()
    loads = draw.profiles.loads(plain.replayable.workload, config)
    shares = station_shares(loads, config)
    return bound(plain, shares, max_delay=draw.options.max_delay)
