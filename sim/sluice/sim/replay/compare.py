"""Policies side by side: the same jobs, the same seeds, the same storage.

Runs independent replays on all cores and hands their results over in the order of the tasks.
Threads suffice: the engine gives up Python's lock while it runs. What comes out does not depend on
their number.

Repetition 0 is the question as asked. Each further one asks it of another draw: other seeds, and
storage whose every number is off by a random factor. All policies see the same draw, so they differ
by nothing but what they do. What is said first is the median of all of them.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

from sluice.sim.policies.policies import POLICIES, streams
from sluice.sim.replay.figures import bound, figures
from sluice.sim.replay.io_replay import replay_with_io
from sluice.sim.storage.mean_field import station_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from sluice.sim.policies.policies import Options, Policy
    from sluice.sim.replay.figures import Bound, Figures
    from sluice.sim.replay.io_replay import IoOutcomes
    from sluice.sim.storage.mean_field import Storage
    from sluice.sim.trace.machine import Site
    from sluice.sim.trace.profiles import Profiles
    from sluice.sim.trace.repairs import Replayable

    Watch = Callable[[int], object]


WANTED = 0.9
"""Coverage that an interval has where there are enough draws: 19 of them."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Where the answer of one more draw lies."""

    low: float
    high: float
    coverage: float
    """Probability that it does."""


def interval(values: Iterable[float | None]) -> Interval | None:
    """Return the interval of one more draw from where these came from; None: fewer than two.

    Of n exchangeable draws and one more, that one lies between the k-th smallest and the k-th
    largest with probability (n + 1 - 2k) / (n + 1). The largest k that has WANTED is taken; with
    fewer than 19 draws it is 1, and the coverage smaller.
    """
    known = sorted(value for value in values if value is not None)
    count = len(known)
    if count < 2:
        return None
    k = max(1, int((1 - WANTED) * (count + 1) / 2 + 1e-9))
    return Interval(known[k - 1], known[-k], (count + 1 - 2 * k) / (count + 1))


Task = TypeVar("Task")
Result = TypeVar("Result")


class StoppedError(Exception):
    """Raised inside a replay that was cancelled."""


def in_order(
    tasks: Iterable[Task], work: Callable[[Task, Watch], Result], *, workers: int
) -> Generator[Result, None, None]:
    """Yield work(task, watch) of every task, so many at a time.

    watch is to be called now and then, as `progress` of `engine.run`: it ends the work when the
    caller has given up, for Ctrl-C or an error. At most one result more than there are workers
    waits to be taken.
    """
    given_up = threading.Event()

    def watch(_ended: int) -> None:
        if given_up.is_set():
            raise StoppedError

    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for task in tasks:
                pending.append(pool.submit(work, task, watch))
                if len(pending) > workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            given_up.set()
            for future in pending:
                future.cancel()


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

    @property
    def bound(self) -> Bound:
        """The medians of all repetitions."""
        numbers = ("lost", "forced", "ran")
        return replace(
            self.bounds[0],
            **{name: median(getattr(one, name) for one in self.bounds) for name in numbers},
        )

    def values(self, policy: str, figure: str) -> list[float | None]:
        """Return a figure of every repetition."""
        return [one[figure] for one in self.figures[policy]]

    def value(self, policy: str, figure: str) -> float | None:
        """Return the median of a figure over all repetitions."""
        return _middle(self.values(policy, figure))

    def interval(self, policy: str, figure: str) -> Interval | None:
        """Return where a figure of one more draw lies; the median is in it."""
        return _around(self.value(policy, figure), interval(self.values(policy, figure)[1:]))

    def differences(self, policy: str, figure: str) -> list[float | None]:
        """Return by how much a policy's figure is above that without one in each repetition."""
        pairs = zip(self.values(policy, figure), self.values(PLAIN, figure), strict=True)
        return [_difference(one, other) for one, other in pairs]

    def difference(self, policy: str, figure: str) -> float | None:
        """Return the median of these differences."""
        return _middle(self.differences(policy, figure))

    def difference_interval(self, policy: str, figure: str) -> Interval | None:
        """Return where that difference lies in one more draw, the same for both."""
        others = self.differences(policy, figure)[1:]
        return _around(self.difference(policy, figure), interval(others))

    def answer(self, policy: str, figure: str) -> dict[str, Any]:
        """Return all that a file says of a figure."""
        found, above = (
            None if one is None else asdict(one)
            for one in (self.interval(policy, figure), self.difference_interval(policy, figure))
        )
        return {
            "value": self.value(policy, figure),
            "interval": found,
            "draws": self.values(policy, figure),
            "above_none": self.difference(policy, figure),
            "above_none_interval": above,
        }


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


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
    bound, is_stream = bound_of(draw, plain), streams(draw.profiles)
    return bound, {name: figures(one, plain, bound, is_stream) for name, one in outcomes.items()}


def bound_of(draw: Draw, plain: IoOutcomes) -> Bound:
    """Bound what a policy could gain over this replay without one."""
    config = draw.storage.configuration()
    loads = draw.profiles.loads(plain.replayable.workload, config)
    shares = station_shares(loads, config)
    return bound(plain, shares, max_delay=draw.options.max_delay)
