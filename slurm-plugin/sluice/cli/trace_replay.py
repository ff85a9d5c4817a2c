"""`sluice replay`: a trace through the simulated scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    NOTHING,
    CommandError,
    amount_text,
    duration_text,
    json_option,
    share_text,
    show_json,
    show_table,
)
from sluice.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.sim.machine import Site
    from sluice.sim.repairs import Replayable
    from sluice.sim.replay import Outcomes
    from sluice.sim.trace import Trace

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
POLICIES = ("none",)


def pairs(
    _context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """Take KEY=VALUE options apart."""
    for value in values:
        if "=" not in value:
            raise click.BadParameter(f"{value!r} is not KEY=VALUE", param=parameter)
    return dict(value.split("=", 1) for value in values)


@click.command("replay", short_help="Say how a trace of jobs would have been scheduled.")
@click.argument("trace", type=FILE, required=False)
@click.option(
    "--generate",
    type=click.IntRange(min=1),
    metavar="JOBS",
    help="Instead of TRACE: so many jobs of the Lublin-Feitelson model.",
)
@click.option(
    "--load",
    type=click.FloatRange(min=0, min_open=True),
    default=0.7,
    show_default=True,
    help="With --generate: what the jobs offer, as a share of the machine.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="With --generate.")
@click.option(
    "--policy",
    type=click.Choice(POLICIES),
    default="none",
    show_default=True,
    help="none: Slurm alone.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(("swf", "sacct", "sacct-json", "csv", "history")),
    help="What TRACE is.  [default: what it looks like]",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    callback=pairs,
    metavar="KEY=TITLE",
    help="Which column of a CSV holds what: job, submit, begin, start, end, runtime, limit, "
    "slots, user, account, partition, state.",
)
@click.option(
    "--count",
    "slot",
    type=click.Choice(("node", "processor")),
    default="node",
    show_default=True,
    help="What to count in accounting.",
)
@click.option(
    "--slots",
    type=click.IntRange(min=1),
    help="Size of the machine.  [default: what the trace says, or was ever busy in it]",
)
@click.option("--machine", type=FILE, help="A TOML file with the machine; see docs/replay.md.")
@click.option("--slurm", is_flag=True, help="Schedule as slurmctld does by default.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    callback=pairs,
    metavar="SETTING=VALUE",
    help="A setting of the scheduler, e.g. backfill=conservative; see docs/replay.md.",
)
@click.option(
    "--kill",
    "kills",
    is_flag=True,
    help="Kill jobs at their limit that really ran beyond it.  [default: believe them]",
)
@click.option(
    "--jobs",
    "table",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a line a job: .csv, or .jsonl for JSON Lines.",
)
@json_option
def command(
    *,
    trace: Path | None,
    generate: int | None,
    load: float,
    seed: int,
    policy: str,
    kind: str | None,
    columns: Mapping[str, str],
    slot: str,
    slots: int | None,
    machine: Path | None,
    slurm: bool,
    settings: Mapping[str, str],
    kills: bool,
    table: Path | None,
    as_json: bool,
) -> None:
    """Say how a trace of jobs would have been scheduled.

    TRACE is in the Standard Workload Format, what `sacct --parsable2` or `sacct --json` printed,
    a CSV with a heading, or a history of Sluice; gzipped or not. What is missing or broken in it
    is repaired by a stated rule or dropped, and counted.

    \b
    Examples:
        sluice replay KTH-SP2.swf.gz --policy none
        sluice replay year.txt --slurm --machine cluster.toml --jobs jobs.csv
        sluice replay --generate 100000 --slots 512 --load 0.8 --seed 7
        sluice replay year.csv --column submit=SubmitTime --column slots=Nodes --slots 512
        sluice replay KTH-SP2.swf.gz --set backfill=conservative --set priority=multifactor \\
            --set weight_fair_share=1000 --json
    """
    from sluice.sim import lublin
    from sluice.sim.repairs import make_replayable
    from sluice.sim.replay import replay
    from sluice.sim.sources import read_trace

    if table is not None and table.suffix not in (".csv", ".jsonl"):
        raise click.UsageError(f"--jobs {table}: end its name in .csv or .jsonl")
    if (trace is None) == (generate is None):
        raise click.UsageError("give either a TRACE or --generate JOBS")
    if trace is not None:
        read = read_trace(trace, kind=kind, columns=columns, slot=slot)
    else:
        read = lublin.generate(generate or 0, slots=slots or 128, load=load, seed=seed)
    site = _site(read, slots, machine, slurm=slurm, settings=settings)
    replayable = make_replayable(read, site, kills=kills)
    done = 0
    with progress("jobs", lambda: len(replayable.rows)) as (_, advance):

        def follow(ended: int) -> None:
            nonlocal done
            advance(ended - done)
            done = ended

        outcomes = replay(replayable, site, progress=follow)
    if table is not None:
        _write_jobs(outcomes, table)
    if as_json:
        show_json(_document(outcomes, site, policy))
    else:
        _show(outcomes, site)


def _site(
    trace: Trace,
    slots: int | None,
    machine: Path | None,
    *,
    slurm: bool,
    settings: Mapping[str, str],
) -> Site:
    from sluice.sim.engine import scheduler_defaults
    from sluice.sim.machine import SLURM, one_pool, parse_site, site_of

    if slots is not None and machine is not None:
        raise click.UsageError("give --slots or --machine, not both")
    if machine is not None:
        site = parse_site(str(machine), machine.read_text(encoding="utf-8"))
    else:
        site = one_pool(slots) if slots is not None else site_of(trace)
    if slurm:
        site = site.with_settings(SLURM)
    known = scheduler_defaults()
    given: dict[str, float | str] = {
        name: value if isinstance(known.get(name), str) else _number(name, value)
        for name, value in settings.items()
    }
    return site.with_settings(given)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CommandError(f"--set {name}={text}: give a number") from None


def _write_jobs(outcomes: Outcomes, path: Path) -> None:
    from sluice.policies.container import write_atomically
    from sluice.sim.report import jobs_csv, jobs_json

    content = jobs_csv(outcomes) if path.suffix == ".csv" else jobs_json(outcomes)
    try:
        write_atomically(path, content)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}; nothing was written") from error


def _document(outcomes: Outcomes, site: Site, policy: str) -> dict[str, Any]:
    from sluice.sim import report
    from sluice.sim.engine import scheduler_defaults

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


def _show(outcomes: Outcomes, site: Site) -> None:
    from sluice.sim import report

    _show_repairs(outcomes.replayable)
    figures = report.totals(outcomes)
    recorded = report.recorded_wait(outcomes)
    wait, slowdown = figures["wait_s"], figures["bounded_slowdown"]
    states = ", ".join(f"{count} {state}" for state, count in figures["states"].items())
    rows = [
        ("jobs", f"{figures['jobs']}: {states}"),
        ("machine", f"{site.machine.slots} {outcomes.replayable.trace.slot}s"),
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


def _show_repairs(replayable: Replayable) -> None:
    for repair in replayable.repairs:
        unit = "line" if repair.what == "broken line" else "job"
        named = ", ".join(map(str, repair.examples))
        more = ", …" if repair.count > len(repair.examples) else ""
        click.echo(f"{repair.what}: {repair.count} ({unit} {named}{more}); {repair.rule}", err=True)
