"""`sluice site calibrate`: measure a site's storage, and report what was measured."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import CommandError, Files, files_options, json_option, show_json, show_table
from sluice.cli.listing import stopped_like_ctrl_c
from sluice.cli.site.calibrate_options import (
    grid_options,
    settings_of,
    target_options,
)
from sluice.slurm.views.formatting import NOTHING, duration_text, share_text, time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.history_db.records import Calibration, CoRun
    from sluice.history_db.store import Store
    from sluice.interference.calibrate.analysis import Report
    from sluice.interference.calibrate.servers import Discipline
    from sluice.interference.calibrate.session import Session, Settings
    from sluice.interference.programs import Program


@click.command("list")
@files_options
@json_option
def list_command(*, files: Files, as_json: bool) -> None:
    """List the calibrations in the history.

    \b
        sluice site calibrate list
        sluice site calibrate list --json | jq '.calibrations[-1].measured'
    """
    with files.open_history(read_only=True) as store:
        rows = [(c, store.interference.coruns([c.id])) for c in store.interference.calibrations()]
    if as_json:
        listed = [_calibration_json(c, coruns) for c, coruns in rows]
        show_json({"calibrations": listed})
        return
    show_table(
        ("Number", "When", "Site", "Measured", "Dropped", "State"),
        [
            (
                c.id,
                time_text(c.created),
                c.site,
                len(coruns),
                sum(bool(e.dropped) for e in coruns),
                "finished" if c.finished else "interrupted",
            )
            for c, coruns in rows
        ],
    )


@click.command("report")
@click.option("--calibration", "number", type=int, help="Its number.  [default: the latest]")
@files_options
@json_option
def report_command(*, number: int | None, files: Files, as_json: bool) -> None:
    """Show what a calibration found, and whether the one before agrees.

    Losses are in % of the rate alone; the row loses, the column runs alongside. What fits into
    no matrix (unequal programs, sync modes, triples) is listed below. A second calibration of
    the same site is compared with the first: rank correlation and mean difference, with the
    bound that the first one states.

    Servers that serve by demand (1: first come, first served) or fairly (0) are named, with an
    interval of 95 %.

    \b
        sluice site calibrate report
        sluice site calibrate report --json | jq .losses
    """
    from sluice.interference.calibrate.analysis import make_report, to_json

    with files.open_history(read_only=True) as store:
        chosen, before = _chosen(store, number)
        report = make_report(
            chosen.site,
            store.interference.coruns([chosen.id]),
            store.interference.coruns([before.id]) if before else (),
        )
    if as_json:
        show_json(to_json(report))
    else:
        _print_report(report)


def _chosen(store: Store, number: int | None) -> tuple[Calibration, Calibration | None]:
    """Return the calibration asked for, and the one of the same site's rates before it."""
    from sluice.interference.observations import has_rates

    known = store.interference.calibrations()
    if not known:
        raise CommandError(
            f"{store.path}: no calibration yet; see `sluice site calibrate run --help`"
        )
    chosen = known[-1] if number is None else calibration_named(store, number)
    earlier = (c for c in reversed(known) if c.id < chosen.id and c.site == chosen.site)
    return chosen, next((c for c in earlier if has_rates(store, c)), None)


def calibration_named(store: Store, number: int) -> Calibration:
    """Return the one of that number. Raises CommandError."""
    for calibration in store.interference.calibrations():
        if calibration.id == number:
            return calibration
    raise CommandError(
        f"calibration {number}: not in {store.path}; see `sluice site calibrate list`"
    )


def _calibration_json(calibration: Calibration, coruns: list[CoRun]) -> dict[str, object]:
    return {
        "calibration": calibration.id,
        "created": calibration.created,
        "site": calibration.site,
        "finished": calibration.finished,
        "measured": len(coruns),
        "dropped": sum(bool(e.dropped) for e in coruns),
    }


def _print_servers(disciplines: Sequence[Discipline]) -> None:
    from sluice.interference.calibrate.analysis import SERVERS, servers_remarks, servers_rows

    show_table(SERVERS, servers_rows(disciplines))
    for remark in servers_remarks(disciplines):
        click.echo(remark)


def _together(programs: Sequence[Program]) -> str:
    return " and ".join(map(str, programs))


def _print_report(report: Report) -> None:
    from sluice.interference.calibrate.analysis import (
        agreement_text,
        outside_matrices,
        stability_text,
    )
    from sluice.interference.programs import size_text

    if report.losses or not report.servers:
        click.echo(f"{report.site}: {stability_text(report.stability)}")
    if report.agreement:
        click.echo(agreement_text(report.agreement))
    for matrix in report.matrices:
        click.echo(f"\n{size_text(matrix.chunk_bytes)} chunks, {matrix.processes} processes each")
        show_table(
            ("Loses", *(f"alongside {name}" for name in matrix.patterns)),
            [
                (name, *(NOTHING if loss is None else share_text(loss) for loss in row))
                for name, row in zip(matrix.patterns, matrix.loss, strict=True)
            ],
        )
    if others := outside_matrices(report.losses):
        click.echo("\nUnequal programs, sync modes and triples" if report.matrices else "")
        show_table(
            ("Program", "alongside", "loses", "measured"),
            [
                (cell.victim, _together(cell.others), share_text(loss.loss), loss.count)
                for cell, loss in others.items()
            ],
        )
    if report.controls:
        click.echo()
    for control in report.controls:
        click.echo(
            f"{control.victim} alongside {_together(control.others)} on another target: "
            f"{share_text(control.loss)}"
        )
    if report.servers:
        click.echo()
        _print_servers(report.servers)


@click.group("calibrate", short_help="Measure which programs disturb each other here.")
def command() -> None:
    """Measure which programs disturb each other here.

    Runs pairs of small programs (sluice-probe) alone and alongside each other on one storage
    target, in a maintenance window or on targets of your own, and keeps in the history what
    each lost. `sluice model publish` then puts what was learned into the bundle.

    \b
    How long will it take, and what is measured first?
        sluice site calibrate plan --target ost0=/lustre/cal/ost0
    Do it, see it, use it:
        sluice site calibrate run --target ost0=/lustre/cal/ost0 --target ost1=/lustre/cal/ost1
        sluice site calibrate report
        sluice model publish
    """


@command.command("plan")
@target_options
@grid_options
@json_option
def plan_command(*, as_json: bool, **options: Any) -> None:
    """Show what would be measured, in which order, and how long it takes.

    The most informative co-runs come first, so a shorter --budget loses the least.

    \b
        sluice site calibrate plan --target ost0=/lustre/cal/ost0 --budget 20m
    """
    from sluice.interference.calibrate.session import (
        coruns_within,
        estimate_seconds,
        rounds_within,
        runs_of_rounds,
    )

    settings = settings_of(**options)
    count = coruns_within(settings)
    rounds, runs = rounds_within(settings), runs_of_rounds(settings)
    whole = estimate_seconds(settings.plan, settings.timing, settings.lead_seconds)
    if as_json:
        show_json(
            {
                "planned": [str(corun) for corun in settings.plan[:count]],
                "left_out": [str(corun) for corun in settings.plan[count:]],
                "rounds": rounds,
                "runs_of_rounds": runs,
                "seconds_for_all": round(whole, 1),
                "budget_seconds": settings.budget,
            }
        )
        return
    if rounds:
        click.echo(f"{rounds} rounds of the service discipline, {runs} runs")
    for number, corun in enumerate(settings.plan[:count], start=1):
        click.echo(f"{number:4}  {corun}")
    click.echo(
        f"{count} of {len(settings.plan)} co-runs fit into {duration_text(settings.budget)}; "
        f"all would take about {duration_text(whole)}"
    )


@command.command("run")
@target_options
@grid_options
@files_options
@json_option
def run_command(*, files: Files, as_json: bool, **options: Any) -> None:
    """Measure, and store every result in the history at once.

    The first runs say whether the servers serve by demand or fairly. Each co-run is measured as
    alone, together, alone in random order; again at the end where the two alone differ by more
    than 5 %, or others had more than 10 % of the traffic. `sluice site calibrate resume` goes on
    after a stop.

    \b
        sluice site calibrate run --target ost0=/lustre/cal/ost0
        sluice site calibrate run --target a=/scratch --budget 60s --chunk 1M
        sluice site calibrate run --target a=/scratch --co-run 'owc:4K:8 aw:16M:2:close'
        sluice site calibrate run --target ost0=/lustre/cal/ost0 --tasks 4 \\
            --srun 'srun -N 4 --ntasks-per-node 1'
    """
    from sluice.interference.calibrate.protocol import find_probe
    from sluice.interference.calibrate.session import Session, coruns_within

    site, probe = options["site"], options["probe"]
    settings = settings_of(**options)
    if coruns_within(settings) == 0:
        raise CommandError(
            f"nothing can be measured within {duration_text(settings.budget)}; "
            "give a longer --budget or a shorter --window"
        )
    with files.open_history(create=True) as store:
        session = Session.begin(
            store,
            settings,
            site=site or str(settings.targets[0].directories[0]),
            probe=find_probe(probe),
        )
        _go_on(session, as_json=as_json)


@command.command("resume")
@click.argument("number", required=False, type=int)
@click.option("--probe", metavar="FILE", help="sluice-probe, where it is not in PATH.")
@files_options
@json_option
def resume_command(*, number: int | None, probe: str | None, files: Files, as_json: bool) -> None:
    """Go on with a calibration that was interrupted: the latest, or that NUMBER.

    \b
        sluice site calibrate resume
        sluice site calibrate list
        sluice site calibrate resume 3
    """
    from sluice.interference.calibrate.protocol import find_probe
    from sluice.interference.calibrate.session import Session

    with files.open_history() as store:
        session = Session.resume(store, _interrupted(store, number), probe=find_probe(probe))
        again = "sluice site calibrate resume" + (f" {number}" if number is not None else "")
        _go_on(session, as_json=as_json, again=again)


def _interrupted(store: Store, number: int | None) -> Calibration:
    from sluice.interference.calibrate.session import one_session

    if number is None:
        calibration = one_session(store.interference.calibrations())
        if calibration is None:
            raise CommandError(f"{store.path}: no calibration was interrupted")
        return calibration
    calibration = calibration_named(store, number)
    if calibration.finished:
        raise CommandError(
            f"calibration {number}: is finished; `sluice site calibrate run` begins another"
        )
    return calibration


command.add_command(list_command)
command.add_command(report_command)


def _go_on(session: Session, *, as_json: bool, again: str = "sluice site calibrate resume") -> None:
    from sluice.cli.listing import progress
    from sluice.interference.calibrate.session import runs_of_rounds
    from sluice.interference.calibrate.targets import uncounted
    from sluice.interference.programs import CalibrationError, TasksError

    plan = session.settings.plan
    count = len(plan) + runs_of_rounds(session.settings)
    try:
        with stopped_like_ctrl_c(), progress("coruns", lambda: count) as (say, advance):
            say(f"calibration {session.number}: takes about {_time_text(session)}")
            if names := uncounted(session.settings.targets):
                say(
                    f"nothing counts what reaches {' and '.join(names)}: what write() took is "
                    "measured, and others' traffic is not seen; --counter names what counts"
                )
            if reads := _reads_text(session.settings):
                say(reads)
            advance(len(session.measured))

            def tell(corun: CoRun) -> None:
                advance(1)
                if corun.dropped:
                    say(f"dropped: {' alongside '.join(corun.members)}: {corun.dropped}")

            session.run(tell)
    except TasksError as stop:
        raise CommandError(f"calibration {session.number}: {stop}") from None
    except (KeyboardInterrupt, CalibrationError) as stop:
        reason = str(stop) or "interrupted"
        raise CommandError(
            f"calibration {session.number}: {reason}; {len(session.measured)} co-runs are "
            f"kept, go on with `{again}`"
        ) from None
    _show_outcome(session, as_json=as_json)


def _reads_text(settings: Settings) -> str:
    from sluice.interference.calibrate.targets import indirect
    from sluice.interference.programs import READ

    programs = {program for corun in settings.plan for program in (corun.probe, *corun.signals)}
    if not any(READ in program.parts for program in programs):
        return ""
    if names := indirect(settings.targets):
        where = " and ".join(names)
        return f"{where} cannot read past this machine's cache: what is read is dropped from it"
    return "what is read passes by this machine's cache"


def _show_outcome(session: Session, *, as_json: bool) -> None:
    from sluice.interference.calibrate.analysis import stability, stability_text
    from sluice.interference.calibrate.servers import disciplines

    figures = stability(session.measured)
    found = disciplines(session.measured)
    if as_json:
        show_json(
            {
                "calibration": session.number,
                "measured": len(session.measured),
                "dropped": figures.dropped,
                "cells": figures.cells,
                "servers": [asdict(one) for one in found],
            }
        )
    else:
        click.echo(f"calibration {session.number}: {stability_text(figures)}")
        if found:
            _print_servers(found)


def _time_text(session: Session) -> str:
    about = duration_text(round(session.seconds_left()))
    return f"{about} of its budget of {duration_text(session.settings.budget)}"
