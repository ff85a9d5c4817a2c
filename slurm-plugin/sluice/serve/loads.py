"""Load of lanes and targets over the last hour and day, with the bursts of jobs that were held.

Of a lane what running jobs were expected to do, by the decisions on them; of a target what its
servers counted, where a site has that counted. Made at most once a minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sluice.history_db.records import Selection
from sluice.policies.core import CoreError
from sluice.policies.record import Record
from sluice.serve.drawings import Row, Span, rows_over_time
from sluice.serve.tables import RATE, SECONDS, SHARE, Column, Table, number
from sluice.slurm.gates.snapshot import mean_of
from sluice.slurm.views.formatting import duration_text, rate_text, share_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from sluice.history_db.records import HeldBurst
    from sluice.history_db.store import Store
    from sluice.policies.core import View

    Array = NDArray[np.float64]

Facts = dict[str, Any]

SPANS = {"hour": 3600, "day": 86400}
"""Tables, and the seconds that each goes back."""
BINS = 120
MOST_DECISIONS, MOST_COUNTS, MOST_BURSTS = 5000, 200_000, 1000
"""That are read for a page, the latest."""
LONGEST = 7 * 86400
"""Seconds: of jobs that were submitted earlier nothing is drawn."""
MOST_TARGETS = 16
"""That are drawn, the busiest of the day."""


class _Flow(NamedTuple):
    """Bytes a second from a time to another, UTC seconds; to lanes (0: all), or of a target."""

    start: float
    end: float
    rate: float
    where: int | str


def _jobs(store: Store, cluster: str | None, now: int) -> Iterator[_Flow]:
    """Yield what each job of the last day was expected to do while it ran."""
    recent = Selection(since=now - LONGEST)
    for decision in store.decisions.latest_decisions(MOST_DECISIONS, recent):
        if decision.job_id is None:
            continue
        try:
            decided = Record.parse(decision.record).decision
        except CoreError:
            continue  # of another version
        rate = mean_of(decided.prediction.profile, "rate")
        job = store.jobs.job(decision.job_id, cluster) if rate else None
        if rate and job and job.start is not None:
            yield _Flow(job.start, job.end or now, rate, _lanes_of(decided))


def _lanes_of(decided: View) -> int:
    """Return the lanes that a decision leaves to a job; 0: all."""
    raw = decided.struct
    return int(raw.alternatives[raw.chosen].lane_mask) if raw.alternative_count else 0


COLUMNS = (
    Column("target", "Target"),
    Column("source", "By"),
    Column("mean", "Mean", RATE),
    Column("highest", "Highest", RATE),
    Column("share", "Of its bandwidth", SHARE),
    Column("bursts", "Bursts held", number),
    Column("held", "Held for", SECONDS),
)


@dataclass(frozen=True, slots=True)
class _Day:
    """What is drawn of the last day."""

    now: int
    lanes: Sequence[View | None]
    jobs: Sequence[_Flow]
    counted: Sequence[_Flow]
    bursts: Sequence[HeldBurst]
    waits: Sequence[Span]

    def table(self, name: str) -> Table:
        edges = np.linspace(self.now - SPANS[name], self.now, BINS + 1)
        lines = [*self._of_lanes(edges), *self._of_targets(edges)]
        facts, rows = [line[0] for line in lines], [line[1] for line in lines]
        if self.waits:
            rows.append(Row("held for I/O", self.waits))
        alt = "; ".join(map(_words, facts))
        return Table.of(
            name,
            f"The last {name}",
            COLUMNS,
            facts,
            is_headed=True,
            note="A dotted line is the lane's bandwidth, or what was highest. Hatched bars are "
            "bursts that were held, dashed ones jobs that wait for their tokens.",
            drawing=rows_over_time(alt, rows, float(edges[0]), float(edges[-1])),
        )

    def _of_lanes(self, edges: Array) -> Iterator[tuple[Facts, Row]]:
        by_mask = _rates(self.jobs, edges)
        bursts = [one for one in self.bursts if one.began + one.lasted >= edges[0]]
        for bit, lane in enumerate(self.lanes):
            rates = np.zeros(BINS)
            for mask, moved in by_mask.items():
                if not mask or int(mask) >> bit & 1:
                    rates += moved / (int(mask).bit_count() or len(self.lanes))
            here = [one for one in bursts if not one.lane_mask or one.lane_mask >> bit & 1]
            name, bandwidth = (lane.name, lane.bandwidth or None) if lane else ("all", None)
            yield _line(name, "jobs, expected", rates, edges, bandwidth=bandwidth, bursts=here)

    def _of_targets(self, edges: Array) -> Iterator[tuple[Facts, Row]]:
        found = _rates(self.counted, edges)
        for one in sorted(found, key=lambda one: -found[one].sum())[:MOST_TARGETS]:
            yield _line(str(one), "servers, counted", found[one], edges)


def tables(
    store: Store, policy: View, cluster: str | None, now: int, waiting: Sequence[Facts]
) -> list[Table]:
    """Draw the last hour and the last day; waiting: jobs that wait for their tokens now."""
    since = now - SPANS["day"]
    counted = [
        _Flow(one.start, one.start + one.seconds, one.bytes / one.seconds, one.target)
        for one in store.interference.server_counts_during(since, now)[-MOST_COUNTS:]
    ]
    day = _Day(
        now,
        policy.lanes or (None,),
        list(_jobs(store, cluster, now)),
        counted,
        store.gates.latest_held_bursts(cluster or "", since=since, most=MOST_BURSTS),
        [_wait(one, now) for one in waiting],
    )
    return [day.table(name) for name in SPANS]


def _rates(flows: Iterable[_Flow], edges: Array) -> dict[int | str, Array]:
    """Return the B/s in each bin, by lanes or target."""
    found: dict[int | str, Array] = {}
    for one in flows:
        shared = np.minimum(edges[1:], one.end) - np.maximum(edges[:-1], one.start)
        rates = one.rate * np.maximum(0.0, shared) / (edges[1] - edges[0])
        found[one.where] = found.get(one.where, 0.0) + rates
    return found


def _line(
    title: str,
    source: str,
    rates: Array,
    edges: Array,
    *,
    bandwidth: float | None = None,
    bursts: Sequence[HeldBurst] = (),
) -> tuple[Facts, Row]:
    """Return the facts of a lane or target, and how it is drawn."""
    highest = float(rates.max())
    top = bandwidth or highest
    points = [
        (float(edge), float(rate))
        for rate, ends in zip(rates, pairwise(edges), strict=True)
        for edge in ends
    ]
    facts = {
        "target": title,
        "source": source,
        "mean": float(rates.mean()),
        "highest": highest,
        "share": highest / bandwidth if bandwidth else None,
        "bursts": len(bursts),
        "held": sum(one.held for one in bursts),
    }
    return facts, Row(
        title, [_burst(one) for one in bursts], (), points, top or 1.0, rate_text(top)
    )


def _burst(one: HeldBurst) -> Span:
    verb = "held" if one.is_held else "would have been held"
    title = f"job {one.job_id}: a burst of {duration_text(one.lasted)}, {verb} "
    return Span(one.began, one.began + one.lasted, "held", f"{title}{duration_text(one.held)}")


def _wait(one: Facts, now: int) -> Span:
    waited = duration_text(one["waited"])
    return Span(now - one["waited"], now, "wait", f"job {one['job_id']} waits for {waited}")


def _words(one: Facts) -> str:
    share = "" if one["share"] is None else f", {share_text(one['share'])} of its bandwidth"
    return (
        f"{one['target']} ({one['source']}): {rate_text(one['mean'])} in the mean, at most "
        f"{rate_text(one['highest'])}{share}, {one['bursts']} bursts held"
    )
