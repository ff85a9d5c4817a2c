"""`sluice site attribute`."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import click

from sluice.cli.common import (
    CommandError,
    Files,
    coverage_text,
    files_options,
    grounds_line,
    json_option,
    show_json,
    show_table,
)
from sluice.cli.listing import progress, working
from sluice.slurm.formatting import NOTHING, amount_text, one_line, share_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluice.interference.attribution import Findings, Observation
    from sluice.interference.cost import Grounds
    from sluice.interference.timeline import Timeline

    NodeHours = dict[tuple[str, str], float]  # by victim and aggressor

MOST_DAYS = 400  # that a run may lie from the usual one and count for the time covered
DAMAGED = 1  # exit code when a log could not be read


@dataclass(slots=True)
class _Read:
    """What the logs gave."""

    timelines: dict[bytes, Timeline | None] = field(default_factory=dict)
    """By the digest of the log; None: it has no heatmap, or moved nothing."""
    copies: int = 0
    jobs_without: int = 0
    """Jobs that have no log at all, but figures of what they moved meanwhile."""
    damaged: int = 0

    @property
    def with_heatmap(self) -> int:
        return sum(timeline is not None for timeline in self.timelines.values())

    @property
    def without(self) -> int:
        return len(self.timelines) - self.with_heatmap

    def runs(self) -> list[Timeline]:
        """Put logs of one job together; workers answer in any order, chance must not see it."""
        from sluice.interference.timeline import one_run_a_job

        by_digest = (timeline for _, timeline in sorted(self.timelines.items()))
        runs = one_run_a_job(timeline for timeline in by_digest if timeline is not None)
        return sorted(runs, key=lambda one: (one.start, one.application, one.job or 0, one.end))


@dataclass(slots=True)
class _Control:
    """What was found where nothing can be."""

    shuffles: int
    with_findings: int = 0
    pairs_tested: int = 0
    """In all shuffles together."""


@click.command("attribute", short_help="Find which applications slow each other in production.")
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, readable=False, path_type=Path),
    metavar="PATH…",
)
@click.option(
    "--server-load",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="CSV with the columns time (UTC seconds, even steps) and bytes: what the servers moved.",
)
@click.option(
    "--false-rate",
    type=click.FloatRange(0.0, 0.5, min_open=True),
    default=0.05,
    show_default=True,
    help="Share of what is attributed that may be wrong.",
)
@click.option(
    "--control",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Also try N times with the runs shuffled in time, where nothing must be found.",
)
@click.option("--dry-run", is_flag=True, help="Keep nothing in the history.")
@files_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    paths: tuple[Path, ...],
    server_load: Path | None,
    false_rate: float,
    control: int | None,
    dry_run: bool,
    files: Files,
    as_json: bool,
) -> None:
    """Find which applications slow each other in production.

    Lays the I/O of finished runs side by side, from the heatmaps in their Darshan logs, and
    compares the rate of each while another was writing with its rate while none was. What is
    found is kept in the history as observations. Logs of one job are one run, and copies count
    once. A run whose bins are too wide for its bursts is counted as unresolved. Without
    --server-load, what came with the load of jobs that have no log is not laid to others, as far
    as the history knows when these ran and what they moved.

    Next to each pair stands what it costs in the history, in node-hours, as `sluice site assess`
    has it.

    \b
        sluice site attribute /var/log/darshan/2026/11
        sluice site attribute --server-load ost-bytes.csv --control 100 --dry-run logs/

    Exit code: 0 all is well, 1 a log could not be read (it is named).
    """
    from sluice.interference.attribution import attribute

    read = _read(paths)
    runs = read.runs()
    others = _other_load(server_load, runs)
    alongside = [] if others else _jobs_alongside(read, runs, files)
    find = partial(attribute, others=others, alongside=alongside, false_rate=false_rate)
    findings = find(runs)
    shuffles = _control(find, runs, control)
    if not dry_run:
        _keep(runs, findings, false_rate, files)
    grounds, lost = _node_hours(findings, files)
    coverage = files.coverage()
    if as_json:
        told = {"coverage": asdict(coverage) if coverage else None}
        source = grounds.as_json() if grounds else {"interference_model": None}
        show_json(told | source | _as_json(read, findings, shuffles, lost))
    else:
        click.echo(coverage_text(coverage))
        _print(read, findings, shuffles, false_rate)
        _print_pairs(findings, grounds, lost)
    if read.damaged:
        ctx.exit(DAMAGED)


def _read(paths: tuple[Path, ...]) -> _Read:
    from sluice.ingest.workers import Failure, read_each
    from sluice.interference.timeline import read_timeline

    read = _Read()
    logs = list(_logs(paths))
    cores = len(os.sched_getaffinity(0))
    with progress("logs", lambda: len(logs)) as (report, advance):
        for result in read_each(logs, read_timeline, workers=cores):
            advance(1)
            if isinstance(result, Failure):
                report(one_line(f"sluice: {result.path}: {result.reason}"))
                read.damaged += 1
            elif result.digest in read.timelines:
                read.copies += 1
            else:
                read.timelines[result.digest] = result.timeline
    return read


def _logs(paths: tuple[Path, ...]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.rglob("*.darshan")) if path.is_dir() else [path]


def _other_load(path: Path | None, timelines: list[Timeline]) -> list[Timeline]:
    if path is None:
        return []
    from sluice.interference.timeline import ServerLoadError, foreign, read_series

    try:
        return [foreign(read_series(path), timelines)]
    except ServerLoadError as error:
        raise CommandError(str(error)) from error


def _jobs_alongside(read: _Read, runs: list[Timeline], files: Files) -> list[Timeline]:
    """Return the load of jobs without a log, if there is a history that knows any."""
    from sluice.history_db.errors import HistoryError
    from sluice.interference.timeline import load_of_jobs

    if not runs:
        return []
    start, end = min(one.start for one in runs), max(one.end for one in runs)
    logged = {one.job for one in runs}
    try:
        with files.open_history(read_only=True) as store:
            known = store.unlogged_jobs_during(start, end)
    except HistoryError:
        return []
    jobs = [job for job in known if job.job_id not in logged]
    read.jobs_without = len(jobs)
    return [load_of_jobs(jobs, start, end)] if jobs else []


def _control(
    find: Callable[..., Findings], timelines: list[Timeline], shuffles: int | None
) -> _Control | None:
    """Try histories whose runs are shuffled in time, under the same load of others."""
    if shuffles is None:
        return None
    import numpy as np

    from sluice.interference.timeline import shuffled

    rng = np.random.default_rng(0)
    control = _Control(shuffles)
    with progress("shuffled histories", lambda: shuffles) as (_, advance):
        for seed in range(shuffles):
            shuffle = shuffled(timelines, rng)
            found = find(shuffle, seed=seed).observations
            control.with_findings += any(one.is_attributed for one in found)
            control.pairs_tested += len(found)
            advance(1)
    return control


def _keep(runs: list[Timeline], findings: Findings, false_rate: float, files: Files) -> None:
    from sluice.history_db.records import ObservedInterference

    now = int(time.time())
    since, until = _time_covered(runs)
    with files.open_history(create=True) as store:
        store.put_observed_interference(
            ObservedInterference(
                victim=one.victim,
                aggressor=one.aggressor,
                found=now,
                rho=one.rho,
                log_sd=one.log_sd,
                p_value=one.p_value,
                disturbed=one.disturbed,
                undisturbed=one.undisturbed,
                since=since,
                until=until,
                false_rate=false_rate,
            )
            for one in findings.observations
        )


def _node_hours(findings: Findings, files: Files) -> tuple[Grounds | None, NodeHours]:
    """Return what pairs of programs cost each other, as far as there is a history with jobs."""
    from sluice.history_db.errors import HistoryError
    from sluice.interference.cost import grounds_of, programs_of

    try:
        with files.open_history(read_only=True) as store, working("reading the history"):
            grounds, programs = grounds_of(store, files.settings()), programs_of(store)
    except HistoryError:
        return None, {}
    if not grounds.jobs or not findings.observations:
        return None, {}
    with progress("instants", lambda: grounds.instants) as (_, advance):
        lost = grounds.costs(advance).between(lambda job: programs.get(job.logs[0], ""))
    tested = [(one.victim, one.aggressor) for one in findings.observations]
    return grounds, {pair: lost.get(pair, 0.0) for pair in tested}


def _time_covered(runs: list[Timeline]) -> tuple[int, int]:
    """Return when the first and the last run began; not by a clock that is years off."""
    starts = [int(run.start) for run in runs] or [0]
    usual = median(starts)
    near = [start for start in starts if abs(start - usual) < MOST_DAYS * 86400]
    return min(near), max(near)


def _as_json(
    read: _Read, findings: Findings, control: _Control | None, lost: NodeHours
) -> dict[str, object]:
    return {
        "logs": {
            "with_heatmap": read.with_heatmap,
            "without": read.without,
            "copies": read.copies,
            "damaged": read.damaged,
        },
        "jobs_without_log": read.jobs_without,
        "runs": {"resolved": findings.resolved, "unresolved": findings.unresolved},
        "pairs": {
            "tested": len(findings.observations),
            "too_few_meetings": findings.too_few,
            "unresolved_aggressor": findings.coarse,
            "out_of_reach": findings.out_of_reach,
        },
        "p_needed": findings.p_needed,
        "control": asdict(control) if control else None,
        "observations": [_observation(one, lost) for one in findings.observations],
    }


def _observation(one: Observation, lost: NodeHours) -> dict[str, object]:
    return {
        "victim": one.victim,
        "aggressor": one.aggressor,
        "rho": one.rho,
        "interval_90": list(one.interval),
        "p_value": one.p_value,
        "slices": {"disturbed": one.disturbed, "undisturbed": one.undisturbed},
        "attributed": one.is_attributed,
        "lost_node_hours": lost.get((one.victim, one.aggressor)),
    }


def _print(read: _Read, findings: Findings, control: _Control | None, false_rate: float) -> None:
    logs = len(read.timelines) + read.copies + read.damaged
    click.echo(
        f"{logs} logs: {read.with_heatmap} with a heatmap, {read.without} without, "
        f"{read.damaged} damaged, {read.copies} copies. Runs: {findings.resolved} resolved, "
        f"{findings.unresolved} unresolved (bins too wide for their bursts)."
    )
    if read.jobs_without:
        click.echo(
            f"{read.jobs_without} jobs without a log ran meanwhile: what came with the load that "
            "accounting tells of is not laid to others."
        )
    attributed = sum(one.is_attributed for one in findings.observations)
    click.echo(
        f"{len(findings.observations)} pairs tested, {attributed} attributed "
        f"(at most {share_text(false_rate)} of them falsely); "
        f"{findings.too_few} pairs met too rarely to tell, "
        f"{findings.coarse} have an aggressor that is unresolved."
    )
    if findings.out_of_reach:
        click.echo(
            f"{findings.out_of_reach} of them fell further than in every shuffled history, but "
            f"{len(findings.observations)} pairs need a p of {findings.p_needed:.2g}, which takes "
            "more of these than could be tried: give fewer logs, or a higher --false-rate."
        )
    if control:
        click.echo(
            f"Control: something was attributed in {control.with_findings} of {control.shuffles} "
            f"shuffled histories; {control.pairs_tested} pairs were tested in them."
        )


def _print_pairs(findings: Findings, grounds: Grounds | None, lost: NodeHours) -> None:
    if not findings.observations:
        return
    if grounds:
        click.echo(f"Node-hours lost are of the whole history. {grounds_line(grounds)}")
    show_table(
        [
            *("victim", "aggressor", "rate left", "90 %", "p", "slices under", "clear"),
            *("lost node-hours", "verdict"),
        ],
        [_row(one, lost) for one in findings.observations],
        least=("p", "slices under", "clear"),
    )


def _row(one: Observation, lost: NodeHours) -> list[object]:
    hours = lost.get((one.victim, one.aggressor))
    low, high = one.interval
    return [
        one.victim,
        one.aggressor,
        share_text(one.rho),
        f"{share_text(low)}–{share_text(high)}",
        f"{one.p_value:.2g}",
        one.disturbed,
        one.undisturbed,
        NOTHING if hours is None else amount_text(hours),
        "slowed" if one.is_attributed else "not told from chance",
    ]
