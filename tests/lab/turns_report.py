"""Figures of draws in which bursts took turns, as docs/evidence/turns-measured.md has them."""

import statistics
from collections.abc import Iterator, Mapping, Sequence

from turns_cases import LANES, MODES, Alone, Outcome, Run, Workload, load_of, recovered, slowdowns
from turns_predicted import Predicted

Draws = Sequence[Mapping[str, Run]]
"""The runs of each draw, by mode."""

COLUMNS = (
    *("mode", "node-seconds lost", "recovered", "slowest job, times off", "of all"),
    *("held, s", "writes covered"),
)


def recoveries(draws: Draws, mode: str) -> list[float]:
    return [recovered(runs["off"], runs[mode]) for runs in draws]


def slowest(draws: Draws, mode: str) -> list[float]:
    """Of each draw: the largest of its jobs' times over that without turns."""
    return [max(slowdowns(runs["off"], runs[mode])) for runs in draws]


def table(draws: Draws) -> str:
    """A row for each mode: medians over the draws, and ranges."""
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(_row(draws, mode) for mode in modes_of(draws))]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def raw(draws: Draws) -> str:
    """A row for each draw: node-seconds lost in each mode, the slowest job, the machine's load."""
    modes = modes_of(draws)
    head = ("draw", *modes, "slowest job, times off", "load average")
    rows = [head, ("---",) * len(head)]
    for runs, most in zip(draws, slowest(draws, "on"), strict=True):
        lost = (f"{runs[mode].lost:.0f}" for mode in modes)
        load = max(run.load for run in runs.values())
        rows.append((str(runs["off"].draw.number), *lost, f"{most:.2f}", f"{load:.0f}"))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def by_program(draws: Draws) -> str:
    """A row for each program: what became of it in each mode, over all draws."""
    modes = modes_of(draws)
    head = ("program", "alone, s", *(f"{mode}, times alone" for mode in modes), "held, s a run")
    rows = [head, ("---",) * len(head)]
    for name in sorted(_programs(draws[0]["off"])):
        found = {mode: [_programs(runs[mode])[name] for runs in draws] for mode in modes}
        slower = (with_range([one.slowdown for one in found[mode]], "{:.2f}") for mode in modes)
        held = statistics.mean(one.held for one in found["on"])
        rows.append((name, f"{found['off'][0].alone:.0f}", *slower, f"{held:.1f}"))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _programs(run: Run) -> dict[str, Outcome]:
    return {job.job.program.name: job for job in run.jobs}


def pooled(draws: Draws, mode: str) -> float:
    """Share of the node-seconds lost in all draws together that are not lost in a mode."""
    lost = {name: sum(runs[name].lost for runs in draws) for name in ("off", mode)}
    return 1.0 - lost[mode] / lost["off"]


def modes_of(draws: Draws) -> list[str]:
    return [mode for mode in MODES if mode in draws[0]]


def _row(draws: Draws, mode: str) -> tuple[str, ...]:
    runs = [draw[mode] for draw in draws]
    lost = with_range([run.lost for run in runs], "{:.0f}")
    if mode == "off":
        return (mode, lost, "", "", "", "", "")
    most = slowest(draws, mode)
    return (
        mode,
        lost,
        with_range(recoveries(draws, mode), "{:.0%}"),
        f"{statistics.median(most):.2f}",
        f"{max(most):.2f}",
        with_range([run.held for run in runs], "{:.0f}"),
        f"{statistics.median(run.covered for run in runs):.1%}",
    )


def conditions(workload: Workload, draws: Draws, alone: Mapping[str, Alone]) -> Iterator[str]:
    loads = [load_of(workload, alone, lane) for lane in LANES]
    averages = [run.load for runs in draws for run in runs.values()]
    yield f"{len(draws)} draws; lanes busy {loads[0]:.0%} and {loads[1]:.0%} of the time alone"
    yield f"load average of the machine: {with_range(averages, '{:.1f}')}"


def prediction(predicted: Sequence[Predicted]) -> str:
    low, high = interval(predicted)
    lost = statistics.median(one.lost for one in predicted)
    expected = statistics.median(one.recovered for one in predicted)
    return f"predicted: {lost:.0f} lost, {expected:.0%} recovered ({low:.0%} to {high:.0%})"


def interval(predicted: Sequence[Predicted]) -> tuple[float, float]:
    """Within which four of five predicted draws lie."""
    tenths = statistics.quantiles([one.recovered for one in predicted], n=10)
    return tenths[0], tenths[-1]


def with_range(values: Sequence[float], form: str) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{form.format(middle)} ({form.format(low)} to {form.format(high)})"
