"""`sluice calibrate`: measure a site's storage."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    NOTHING,
    CommandError,
    config_option,
    duration_text,
    history_option,
    json_option,
    open_history,
    share_text,
    show_json,
    show_table,
    time_text,
)

if TYPE_CHECKING:
    from sluice.calibrate.grid import Encounterable
    from sluice.calibrate.report import Report
    from sluice.calibrate.session import Session, Settings
    from sluice.history_db.records import Calibration, Encounter
    from sluice.history_db.store import Store

DEFAULT_BUDGET = "9m30s"
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?")


def _seconds(_ctx: click.Context, _parameter: click.Parameter, text: str) -> float:
    match = _DURATION.fullmatch(text)
    if not text or not match:
        raise click.BadParameter(f"{text!r} is no time like 90s, 10m or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(3600 * hours + 60 * minutes + seconds)


def _target_options(function: Any) -> Any:
    for option in (
        click.option(
            "--target",
            "targets",
            multiple=True,
            required=True,
            metavar="NAME=DIR[,DIR]",
            help="A directory whose files lie on one target; with two, probe and signals see it "
            "through clients of their own. The first --target is measured, a second one serves "
            "as a control.",
        ),
        click.option(
            "--counter",
            "counters",
            multiple=True,
            metavar="NAME=WHERE",
            help="What counts the bytes that reach a target: a command that prints them, or a "
            "directory on its block device.  [default: the directory's block device, if any]",
        ),
        click.option("--probe", metavar="FILE", help="sluice-probe, where it is not in PATH."),
        click.option(
            "--srun",
            metavar="WORDS",
            help="Start the programs through this, e.g. 'srun -N 4 --ntasks-per-node 1 -p test'.",
        ),
        click.option(
            "--tasks",
            default=1,
            show_default=True,
            type=click.IntRange(1),
            help="Tasks that --srun starts; a program's processes are dealt to them.",
        ),
        click.option(
            "--window",
            default=1.0,
            show_default=True,
            type=click.FloatRange(0.2),
            help="Seconds that are measured in each run.",
        ),
        click.option(
            "--fill",
            default=0.4,
            show_default=True,
            type=click.FloatRange(0),
            help="Seconds before, in which caches fill.",
        ),
        click.option("--seed", default=1, show_default=True, help="Of the random order of runs."),
        click.option("--site", help="What is measured, in your words.  [default: the directory]"),
    ):
        function = option(function)
    return function


@click.group("calibrate", short_help="Measure which programs disturb each other here.")
def command() -> None:
    """Measure which programs disturb each other here.

    Runs pairs of small programs (sluice-probe) alone and beside each other on one storage
    target, in a maintenance window or on targets of your own, and keeps in the history what
    each lost. `sluice publish` then puts what was learned into the bundle.

    \b
    How long will it take, and what is measured first?
        sluice calibrate plan --target ost0=/lustre/cal/ost0
    Do it, see it, use it:
        sluice calibrate run --target ost0=/lustre/cal/ost0 --target ost1=/lustre/cal/ost1
        sluice calibrate report --output /tmp/calibration
        sluice publish
    """


@command.command("plan")
@_target_options
@click.option(
    "--budget",
    default=DEFAULT_BUDGET,
    show_default=True,
    callback=_seconds,
    help="Time that it may take, like 90s, 10m or 1h30m.",
)
@click.option("--chunk", "chunks", multiple=True, metavar="BYTES", help="Chunk sizes of the grid.")
@click.option(
    "--processes",
    default=2,
    show_default=True,
    type=click.IntRange(1),
    help="Of each program in the grid.",
)
@click.option(
    "--encounter",
    "encounters",
    multiple=True,
    metavar="'PROBE SIGNAL…'",
    help="Instead of the grid.",
)
@json_option
def plan_command(*, as_json: bool, **options: Any) -> None:
    """Show what would be measured, in which order, and how long it takes.

    The most informative encounters come first, so a shorter --budget loses the least.

    \b
        sluice calibrate plan --target ost0=/lustre/cal/ost0 --budget 20m
    """
    from sluice.calibrate.session import blocks_within, estimate_seconds

    settings = _settings(**options)
    count = blocks_within(settings)
    whole = estimate_seconds(len(settings.plan), settings.timing, settings.lead_seconds)
    if as_json:
        show_json(
            {
                "planned": [str(encounter) for encounter in settings.plan[:count]],
                "left_out": [str(encounter) for encounter in settings.plan[count:]],
                "seconds_for_all": round(whole, 1),
                "budget_seconds": settings.budget,
            }
        )
        return
    for number, encounter in enumerate(settings.plan[:count], start=1):
        click.echo(f"{number:4}  {encounter}")
    click.echo(
        f"{count} of {len(settings.plan)} encounters fit into {duration_text(settings.budget)}; "
        f"all would take about {duration_text(whole)}"
    )


@command.command("run")
@_target_options
@click.option(
    "--budget",
    default=DEFAULT_BUDGET,
    show_default=True,
    callback=_seconds,
    help="Time that it may take, like 90s, 10m or 1h30m.",
)
@click.option(
    "--chunk",
    "chunks",
    multiple=True,
    metavar="BYTES",
    help="Chunk sizes of the grid.  [default: 64K 256K 1M 4M 16M]",
)
@click.option(
    "--processes",
    default=2,
    show_default=True,
    type=click.IntRange(1),
    help="Of each program in the grid.",
)
@click.option(
    "--encounter",
    "encounters",
    multiple=True,
    metavar="'PROBE SIGNAL…'",
    help="Measure this instead of the grid, e.g. 'owc:1M:2 aw:16M:4'; three make a triple.",
)
@config_option
@history_option
@json_option
def run_command(
    *, config: Path | None, history: Path | None, as_json: bool, **options: Any
) -> None:
    """Measure, and keep every result in the history at once.

    Each encounter is measured as alone, together, alone in random order, with caches filled
    first, over the time in which all are active. It does not count when the two runs alone
    differ by more than 5 %, or when others had more than 10 % of the target's traffic; it is
    then tried again at the end. Stopped with Ctrl-C, `sluice calibrate resume` goes on.

    \b
        sluice calibrate run --target ost0=/lustre/cal/ost0
        sluice calibrate run --target a=/scratch --budget 60s --chunk 1M
        sluice calibrate run --target a=/scratch --encounter 'owc:4K:8 aw:16M:2:close'
        sluice calibrate run --target ost0=/lustre/cal/ost0 --tasks 4 \\
            --srun 'srun -N 4 --ntasks-per-node 1'
    """
    from sluice.calibrate.launch import find_probe
    from sluice.calibrate.session import Session

    site, probe = options["site"], options["probe"]
    settings = _settings(**options)
    with open_history(config, history, create=True) as store:
        session = Session.begin(
            store,
            settings,
            site=site or str(settings.targets[0].directories[0]),
            probe=find_probe(probe),
        )
        _go_on(session, as_json=as_json)


@command.command("resume")
@click.option("--probe", metavar="FILE", help="sluice-probe, where it is not in PATH.")
@config_option
@history_option
@json_option
def resume_command(
    *, probe: str | None, config: Path | None, history: Path | None, as_json: bool
) -> None:
    """Go on with the latest calibration that was interrupted.

    \b
        sluice calibrate resume
    """
    from sluice.calibrate.launch import find_probe
    from sluice.calibrate.session import Session, one_session

    with open_history(config, history) as store:
        calibration = one_session(store.calibrations())
        if calibration is None:
            raise CommandError(f"{store.path}: no calibration was interrupted")
        _go_on(Session.resume(store, calibration, probe=find_probe(probe)), as_json=as_json)


@command.command("delta")
@_target_options
@click.argument("first")
@click.argument("second")
@click.option(
    "--alone",
    default=2.0,
    show_default=True,
    type=click.FloatRange(0.5),
    help="Seconds that each program takes alone.",
)
@click.option(
    "--rounds",
    default=2,
    show_default=True,
    type=click.IntRange(1),
    help="How often each offset is measured.",
)
@click.option(
    "--offset",
    "offsets",
    multiple=True,
    type=float,
    help="Seconds by which SECOND starts later; repeatable.  [default: -2 -1 0 1 2]",
)
@config_option
@history_option
def delta_command(  # noqa: PLR0917 - click passes all by name
    first: str,
    second: str,
    config: Path | None,
    history: Path | None,
    alone: float,
    rounds: int,
    offsets: tuple[float, ...],
    **options: Any,
) -> None:
    """Measure a delta-graph: I/O time of two programs over the offset of their starts.

    Each point is an experiment of its own. `sluice calibrate report` draws it.

    \b
        sluice calibrate delta --target a=/scratch/me ws:1M:2 aw:1M:2
    """
    from sluice.calibrate.delta import DeltaPlan, measure_delta
    from sluice.calibrate.launch import Launcher, find_probe
    from sluice.calibrate.programs import Program
    from sluice.calibrate.protocol import Member

    settings = _settings(
        **options, budget=0.0, chunks=(), processes=2, encounters=(f"{first} {second}",)
    )
    target = settings.targets[0]
    plan = DeltaPlan(alone, offsets or DeltaPlan().offsets, rounds)
    with open_history(config, history, create=True) as store:
        number = store.add_calibration(
            created=int(time.time()),
            site=options["site"] or str(target.directories[0]),
            settings=settings.to_json(),
        )

        def keep(encounter: Encounter) -> None:
            store.add_encounter(number, encounter)
            ratios = [b / a for a, b in zip(encounter.alone, encounter.together, strict=True)]
            click.echo(f"offset {encounter.offset:+.1f} s: {ratios[0]:.2f}× and {ratios[1]:.2f}×")

        measure_delta(
            Member(Program.parse(first), target),
            Member(Program.parse(second), target),
            launcher=Launcher(
                find_probe(options["probe"]), settings.prefix, settings.tasks, settings.lead_seconds
            ),
            timing=settings.timing,
            plan=plan,
            seed=settings.seed,
            keep=keep,
        )
        store.finish_calibration(number)


@command.command("list")
@config_option
@history_option
@json_option
def list_command(*, config: Path | None, history: Path | None, as_json: bool) -> None:
    """List the calibrations in the history.

    \b
        sluice calibrate list
        sluice calibrate list --json | jq '.[-1].measured'
    """
    with open_history(config, history, read_only=True) as store:
        rows = [(c, store.encounters([c.id])) for c in store.calibrations()]
    if as_json:
        show_json([_calibration_json(c, encounters) for c, encounters in rows])
        return
    show_table(
        ("Number", "When", "Site", "Measured", "Dropped", "State"),
        [
            (
                c.id,
                time_text(c.created),
                c.site,
                len(encounters),
                sum(bool(e.dropped) for e in encounters),
                "finished" if c.finished else "interrupted",
            )
            for c, encounters in rows
        ],
    )


@command.command("report")
@click.option("--calibration", "number", type=int, help="Its number.  [default: the latest]")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write pictures, one HTML page and JSON into this directory, made if missing.",
)
@config_option
@history_option
@json_option
def report_command(
    *,
    number: int | None,
    output: Path | None,
    config: Path | None,
    history: Path | None,
    as_json: bool,
) -> None:
    """Show what a calibration found, and whether the one before agrees.

    Losses in % of the rate alone; the row is who loses, the column beside whom. A second
    calibration of the same site is compared with the first: rank correlation and mean
    difference, to be held against the bound that the first one states.

    \b
        sluice calibrate report
        sluice calibrate report --output /tmp/calibration && xdg-open /tmp/calibration/index.html
    """
    from sluice.calibrate.report import make_report, to_json, write

    with open_history(config, history, read_only=True) as store:
        chosen, before = _chosen(store, number)
        report = make_report(
            chosen.site,
            store.encounters([chosen.id]),
            store.encounters([before.id]) if before else (),
        )
    if output:
        for path in write(report, output):
            click.echo(path, err=as_json)
    if as_json:
        show_json(to_json(report))
    else:
        _print_report(report)


# Inside


def _settings(
    *,
    targets: tuple[str, ...],
    counters: tuple[str, ...],
    srun: str | None,
    tasks: int,
    window: float,
    fill: float,
    seed: int,
    budget: float,
    chunks: tuple[str, ...],
    processes: int,
    encounters: tuple[str, ...],
    **_: object,
) -> Settings:
    from sluice.calibrate.grid import CHUNKS, default_grid, most_informative_first
    from sluice.calibrate.programs import parse_size
    from sluice.calibrate.protocol import Timing
    from sluice.calibrate.session import LEAD_SECONDS, SRUN_LEAD_SECONDS, Settings
    from sluice.calibrate.targets import parse_targets

    places = parse_targets(targets, counters)
    grid = default_grid(
        tuple(sorted(map(parse_size, chunks))) or CHUNKS,
        processes=processes,
        several_targets=len(places) > 1,
    )
    plan = [_encounter(text) for text in encounters] or most_informative_first(grid)
    return Settings(
        targets=places,
        plan=tuple(plan),
        timing=Timing(fill=fill, window=window),
        budget=budget,
        seed=seed,
        prefix=tuple(shlex.split(srun or "")),
        tasks=tasks,
        lead_seconds=SRUN_LEAD_SECONDS if srun else LEAD_SECONDS,
    )


def _encounter(text: str) -> Encounterable:
    from sluice.calibrate.grid import Encounterable
    from sluice.calibrate.programs import Program

    programs = [Program.parse(word) for word in text.split()]
    if len(programs) < 2:
        raise CommandError(f"{text!r}: name a probe and at least one signal")
    return Encounterable(programs[0], tuple(programs[1:]))


def _go_on(session: Session, *, as_json: bool) -> None:
    from sluice.calibrate.analysis import stability
    from sluice.calibrate.report import stability_text
    from sluice.cli.progress import progress

    try:
        with progress("encounters", lambda: len(session.settings.plan)) as (say, advance):
            advance(len(session.measured))

            def tell(encounter: Encounter) -> None:
                advance(1)
                if encounter.dropped:
                    say(f"dropped: {' beside '.join(encounter.members)}: {encounter.dropped}")

            session.run(tell)
    except KeyboardInterrupt:
        raise CommandError(
            f"calibration {session.number}: interrupted after {len(session.measured)} encounters; "
            "go on with `sluice calibrate resume`"
        ) from None
    figures = stability(session.measured)
    if as_json:
        show_json(
            {
                "calibration": session.number,
                "measured": len(session.measured),
                "dropped": figures.dropped,
                "cells": figures.cells,
            }
        )
    else:
        click.echo(f"calibration {session.number}: {stability_text(figures)}")


def _chosen(store: Store, number: int | None) -> tuple[Calibration, Calibration | None]:
    """Return the calibration asked for, and the one of the same site before it."""
    known = store.calibrations()
    if not known:
        raise CommandError(f"{store.path}: no calibration yet; see `sluice calibrate run --help`")
    chosen = known[-1] if number is None else next((c for c in known if c.id == number), None)
    if chosen is None:
        raise CommandError(
            f"calibration {number}: not in {store.path}; see `sluice calibrate list`"
        )
    earlier = [c for c in known if c.id < chosen.id and c.site == chosen.site]
    return chosen, earlier[-1] if earlier else None


def _calibration_json(calibration: Calibration, encounters: list[Encounter]) -> dict[str, object]:
    return {
        "calibration": calibration.id,
        "created": calibration.created,
        "site": calibration.site,
        "finished": calibration.finished,
        "measured": len(encounters),
        "dropped": sum(bool(e.dropped) for e in encounters),
    }


def _print_report(report: Report) -> None:
    from sluice.calibrate.programs import size_text
    from sluice.calibrate.report import agreement_text, even_text, stability_text

    click.echo(f"{report.site}: {stability_text(report.stability)}")
    if report.agreement:
        click.echo(agreement_text(report.agreement))
    for matrix in report.matrices:
        click.echo(f"\n{size_text(matrix.chunk_bytes)} chunks, {matrix.processes} processes each")
        show_table(
            ("Loses", *(f"beside {name}" for name in matrix.patterns)),
            [
                (name, *(NOTHING if loss is None else share_text(loss) for loss in row))
                for name, row in zip(matrix.patterns, matrix.loss, strict=True)
            ],
        )
    if report.even:
        click.echo()
    for item in report.even:
        click.echo(even_text(item))
    for control in report.controls:
        others = " and ".join(map(str, control.others))
        click.echo(
            f"{control.victim} beside {others} on another target: {share_text(control.loss)}"
        )
    for members, points in report.deltas.items():
        click.echo(f"\n{members[0]} and {members[1]}, I/O time over alone")
        show_table(
            ("Offset s", members[0], members[1]),
            [(f"{p.offset:+.1f}", f"{p.first:.2f}×", f"{p.second:.2f}×") for p in points],
        )
