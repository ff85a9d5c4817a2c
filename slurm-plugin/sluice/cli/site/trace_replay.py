"""`sluice site replay`: a trace through the simulated scheduler."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import CommandError, Words, json_option, options, show_json, show_table
from sluice.cli.listing import progress
from sluice.cli.site.replay_options import (
    ASKED,
    experiment_of,
    known_policies,
    repeat,
    written,
)
from sluice.slurm.views.formatting import NOTHING, amount_text, duration_text, share_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.sim.replay.compare import Comparison
    from sluice.sim.replay.experiment import Experiment
    from sluice.sim.replay.io_replay import Outcomes
    from sluice.sim.replay.levers import SiteStorage
    from sluice.sim.trace.machine import Site
    from sluice.sim.trace.repairs import Replayable

ENDINGS = (".csv", ".jsonl", ".parquet")
"""Of tables: those that history_db.export.table_bytes knows."""


@click.command("replay", short_help="Say how a trace of jobs would have been scheduled.")
@options(*ASKED)
@click.option(
    "--policy",
    default="none",
    show_default=True,
    metavar="NAME",
    help="Decides about I/O; none: plain Slurm.",
)
@click.option(
    "--compare",
    type=Words(),
    multiple=True,
    metavar="NAME,…",
    help="Other policies to compare with it.",
)
@repeat("More draws, for intervals; 19 make them 90 %.")
@written(
    "--jobs",
    "table",
    endings=ENDINGS,
    text="Write a line a job: .csv, .parquet or .jsonl.",
)
@written(
    "--report",
    endings=(".html",),
    metavar="FILE.html",
    text="Write a page with pictures.",
)
@json_option
def command(
    *,
    policy: str,
    compare: tuple[tuple[str, ...], ...],
    repeats: int,
    table: Path | None,
    report: Path | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Say how a trace of jobs would have been scheduled.

    TRACE is in the Standard Workload Format, what `sacct --parsable2` printed, a CSV with a
    heading, or a history of Sluice; gzipped or not. What is missing or broken in it is repaired
    by a stated rule or dropped, and counted.

    Without a policy, I/O is left out. With one, or with an option that says what the jobs write,
    they slow each other on a storage system, and what is lost to that is compared with what could
    be gained at most.

    \b
    Examples:
        sluice site replay KTH-SP2.swf.gz --policy none
        sluice site replay year.txt --scenario cluster.toml --jobs jobs.csv
        sluice site replay --generate 100000 --slots 512 --load 0.8 --seed 7
        sluice site replay KTH-SP2.swf.gz --policy sluice-auto --compare class-lanes
        sluice site replay history.db --policy sluice-auto --repeat 19 --report g.html
        sluice site replay year.txt --profiles history.db --policy sluice-auto
    """
    for path in (table, report):
        if path is not None and not os.access(path.parent, os.W_OK):
            raise CommandError(f"{path}: {path.parent} is no folder that you may write to")
    others = [name for group in compare for name in group]
    names = known_policies((policy, *others))
    experiment = experiment_of(asked)
    does_io = names != ("none",) or repeats > 0 or report is not None
    told = (experiment.io_share, experiment.profiles, experiment.mix)
    if does_io or told != (None, None, "checkpointing"):
        _replay_with_io(experiment, names, repeats, table, report, as_json=as_json)
    else:
        _replay_without_io(experiment, table, as_json=as_json)


def _replay_without_io(experiment: Experiment, table: Path | None, *, as_json: bool) -> None:
    from sluice.cli.site.replay_words import coverage_told
    from sluice.sim.replay.io_replay import replay

    replayable, site = experiment.replayable()
    covered, coverage = coverage_told(experiment)
    done = 0
    with progress("jobs", lambda: len(replayable.rows)) as (_, advance):

        def follow(ended: int) -> None:
            nonlocal done
            advance(ended - done)
            done = ended

        outcomes = replay(replayable, site, progress=follow)
    _write_jobs([outcomes], table)
    if as_json:
        show_json({"coverage": coverage, **_document(outcomes, site, "none")})
        return
    _show_repairs(replayable)
    _say(covered)
    _show(outcomes, is_known=bool(experiment.slots or experiment.machine))


def _replay_with_io(
    experiment: Experiment,
    policies: Sequence[str],
    repeats: int,
    table: Path | None,
    report: Path | None,
    *,
    as_json: bool,
) -> None:
    from sluice.cli.site import replay_words
    from sluice.cli.site.levers import site_storage

    if (storage := site_storage(experiment)) is not None:
        like = storage.experiment
        experiment = replace(experiment, targets=like.targets, storage=like.storage)
    comparison = replay_words.compared(experiment, policies, repeats)
    covered, coverage = replay_words.coverage_told(experiment)
    _write_jobs(list(comparison.outcomes.values()), table)
    if report is not None:
        from sluice.serve.files import file_page

        title = f"Replay of {Path(comparison.draw.replayable.trace.name).name}"
        parts = replay_words.page_parts(experiment, comparison, covered, storage)
        replay_words.write(report, file_page(title, parts))
    if as_json:
        told = {"coverage": coverage, "site_storage": storage.as_json() if storage else None}
        show_json({**told, **_io_document(experiment, comparison, policies[0], storage)})
        return
    _show_repairs(comparison.draw.replayable)
    _say(covered)
    replay_words.show(experiment, comparison, storage)


def _write_jobs(several: Sequence[Outcomes], path: Path | None) -> None:
    from sluice.cli.site import replay_words
    from sluice.history_db.export import NoParquetError
    from sluice.sim.replay import report

    if path is None:
        return
    try:
        replay_words.write(path, report.jobs_table(several, path.suffix))
    except NoParquetError as error:
        raise CommandError(str(error)) from error


def _io_document(
    experiment: Experiment, comparison: Comparison, policy: str, storage: SiteStorage | None
) -> dict[str, Any]:
    from sluice.cli.site import replay_words

    return {
        **_document(comparison.outcomes[policy], comparison.draw.site, policy),
        **replay_words.document(experiment, comparison, storage),
    }


def _document(outcomes: Outcomes, site: Site, policy: str) -> dict[str, Any]:
    from sluice.sim.engine import scheduler_defaults
    from sluice.sim.replay import report

    trace = outcomes.replayable.trace
    settings = {**scheduler_defaults(), **site.settings}
    return {
        "trace": {
            "name": Path(trace.name).name,
            "jobs": len(trace),
            "slot": trace.slot,
            "header": {name: list(values) for name, values in trace.header.items()},
        },
        "machine": {
            "slots": site.machine.slots,
            "slots_per_node": outcomes.replayable.workload.slots_per_node,
            "partitions": [partition.name for partition in site.machine.partitions],
            "licenses": dict(site.machine.licenses),
        },
        "policy": policy,
        "scheduler": {
            name: None if value == float("inf") else value for name, value in settings.items()
        },
        "repairs": report.repairs_of(outcomes.replayable.repairs),
        "totals": report.totals(outcomes),
        "recorded_wait_s": report.recorded_wait(outcomes),
        **{
            f"by_{what}": report.by_group(outcomes, what)
            for what in ("size", "partition", "account", "user")
        },
    }


def _show(outcomes: Outcomes, *, is_known: bool) -> None:
    from sluice.cli.site.replay_words import machine_text
    from sluice.sim.replay import report

    trace = outcomes.replayable.trace
    found = "" if is_known or trace.machine_slots else ", the most that were busy at once"

    figures = report.totals(outcomes)
    recorded = report.recorded_wait(outcomes)
    wait, slowdown = figures["wait_s"], figures["bounded_slowdown"]
    states = ", ".join(f"{count} {state}" for state, count in figures["states"].items())
    rows = [
        ("jobs", f"{figures['jobs']}: {states}"),
        ("machine", f"{machine_text(outcomes.replayable)}{found}"),
        ("makespan", duration_text(figures["makespan_s"])),
        ("utilisation", share_text(figures["utilisation"])),
        ("wait, mean", duration_text(wait["mean"])),
        ("wait, median", duration_text(wait["median"])),
        ("wait, p99", duration_text(wait["p99"])),
        ("wait, longest", duration_text(wait["max"])),
        ("wait recorded, mean", duration_text(recorded["mean"]) if recorded else NOTHING),
        ("bounded slowdown, mean", amount_text(slowdown["mean"]) if slowdown["mean"] else NOTHING),
    ]
    show_table(("total", "value"), rows)
    sizes = [
        (
            row["size"],
            row["jobs"],
            duration_text(row["wait_s"]["mean"]),
            duration_text(row["wait_s"]["p99"]),
        )
        for row in report.by_group(outcomes, "size")
    ]
    click.echo()
    show_table(("slots", "jobs", "wait, mean", "wait, p99"), sizes)


def _say(lines: Sequence[str]) -> None:
    for line in lines:
        click.echo(line)


def _show_repairs(replayable: Replayable) -> None:
    from sluice.cli.site.replay_words import repair_texts

    for text in repair_texts(replayable):
        click.echo(text, err=True)
