"""The timeline of a job: what was decided and what happened, next to what was predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.darshan.bursts import unpacked
from sluice.patterns.job_profile import heatmap_of
from sluice.policies.control import release_text
from sluice.policies.core import sentence
from sluice.serve.drawings import Mark, Row, Span, rows_over_time
from sluice.serve.tables import SECONDS, Column, Table, moment
from sluice.slurm.views.formatting import duration_text, intervals, rate_text, time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluice.history_db.store import Store

Facts = dict[str, Any]

SLURM, SLUICE, IO, PREDICTED = "Slurm", "Sluice", "I/O", "predicted"
MOST_BURSTS = 200
"""Predicted ones that are drawn."""
MOST_EVENTS = 300


class Event(NamedTuple):
    """A line of the timeline; kind is how it is drawn: a kind of Span, or mark."""

    row: str
    kind: str
    start: float
    end: float | None
    what: str
    text: str = ""
    """What is written at a mark."""

    @property
    def lasted(self) -> float | None:
        return None if self.end is None else self.end - self.start


COLUMNS = (
    Column("time", "Time", moment, lambda one: one.start),
    Column("lasted", "Lasted", SECONDS, lambda one: one.lasted),
    Column("row", "Of", of=lambda one: one.row),
    Column("what", "What", of=lambda one: one.what),
)


def timeline(store: Store, facts: Facts, now: int) -> list[Table]:
    """Return a table of events with its drawing, from the facts of `why`; none: nothing is known.

    now: until when a job lasts that has not ended.
    """
    events = sorted(_events(facts, now), key=lambda one: one.start)[:MOST_EVENTS]
    if not events:
        return []
    since = events[0].start
    until = max(one.end or one.start for one in events)
    points, highest = _moved(store, facts)
    rows = [
        Row(
            name,
            [
                Span(one.start, one.end, one.kind, f"{time_text(int(one.start))}: {one.what}")
                for one in events
                if one.row == name and one.end is not None
            ],
            [Mark(one.start, one.text) for one in events if one.row == name and one.end is None],
            points if name == IO else (),
            highest if name == IO else 0.0,
            f"at most {rate_text(highest)}" if name == IO else "",
        )
        for name in (SLURM, SLUICE, IO, PREDICTED)
    ]
    alt = "; ".join(f"{one.row}, {time_text(int(one.start))}: {one.what}" for one in events[:12])
    drawing = rows_over_time(alt, [row for row in rows if row[1:4] != ([], [], ())], since, until)
    return [
        Table.of(
            "timeline",
            "Timeline",
            COLUMNS,
            events,
            note="Predicted: from the decision and the earlier runs behind it; the thin line is "
            "the interval of nine runs in ten.",
            drawing=drawing,
        )
    ]


def _events(facts: Facts, now: int) -> Iterator[Event]:
    slurm, record = facts["slurm"], facts["record"]
    start = slurm["started"] if slurm else None
    if slurm and slurm["submitted"]:
        yield Event(
            SLURM, "wait", slurm["submitted"], start or slurm["ended"] or now, "waits in the queue"
        )
    if slurm and start:
        end, state = slurm["ended"], str(slurm["state"] or "ended").lower()
        what = f"runs; {state}" if end else "runs"
        yield Event(SLURM, "job", start, end or now, what)
    if record:
        yield from _decided(record, "decided")
        for again in facts["decided_again"]:
            yield from _decided(again, "decided again")
        yield from _predicted(record, start)
    for one in facts["releases"]:
        what = f"released from {one['tokens']}: {release_text(one['reason'])}"
        yield Event(SLUICE, "mark", one["released"], None, what, "released")
    for burst in facts["turns"]:
        yield _burst(burst)


def _decided(record: Facts, what: str) -> Iterator[Event]:
    decision = record["decision"]
    reason = sentence("reason", decision["reason"])
    text = f"{what}: {decision['action']}"
    yield Event(SLUICE, "mark", record["now"], None, f"{text}, {reason}", text)


def _predicted(record: Facts, start: int | None) -> Iterator[Event]:
    """Yield what was predicted: the wait, the run with its interval, and its bursts."""
    decision = record["decision"]
    wait, profile = decision["wait"], decision["prediction"]["profile"]
    if wait:
        what = f"waits {duration_text(wait)} for its turn"
        yield Event(PREDICTED, "wait", record["now"], record["now"] + wait, what)
    runtime = profile["runtime_seconds"]
    if not runtime:
        return
    begin = start or record["now"] + (wait or 0)
    yield Event(PREDICTED, "predicted", begin, begin + runtime, f"runs {duration_text(runtime)}")
    ends = intervals(profile).get("runtime_seconds")
    if ends:
        what = f"ends after {duration_text(ends[0])} to {duration_text(ends[1])}"
        yield Event(PREDICTED, "range", begin + ends[0], begin + ends[1], what)
    length, period = profile["burst_seconds"], profile["period_seconds"]
    if length and period and runtime / period <= MOST_BURSTS:
        for number in range(int(runtime / period)):
            burst = begin + (number + 1) * period - length
            yield Event(PREDICTED, "burst", burst, burst + length, "has a burst")


def _burst(burst: Facts) -> Event:
    held, times = duration_text(burst["held"]), burst["holds"]
    verb = "held" if burst["is_held"] else "would have been held"
    what = f"a burst, {verb} {held} in {times} holds"
    return Event(IO, "held", burst["began"], burst["began"] + burst["lasted"], what)


def _moved(store: Store, facts: Facts) -> tuple[Sequence[tuple[float, float]], float]:
    """Return the rate of the job's logs over time, B/s, and the highest."""
    job, slurm = facts["job"], facts["slurm"]
    runs = [
        run
        for run in store.runs.runs_of_job(job["job_id"], job["cluster"] or "")
        if slurm and run.job and run.job.submit == slurm["submitted"]
    ]
    moved = unpacked(heatmap_of(runs)) if runs else None
    if moved is None:
        return (), 0.0
    rates = moved.moved / moved.bin_seconds
    points = []
    for i, rate in enumerate(rates):
        begin = moved.start + i * moved.bin_seconds
        points += [(begin, float(rate)), (begin + moved.bin_seconds, float(rate))]
    return points, float(rates.max())
