"""`sluice site calibrate list` and `report`: what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.cli.common import (
    NOTHING,
    CommandError,
    config_option,
    history_option,
    json_option,
    open_history,
    share_text,
    show_json,
    show_table,
    time_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.history_db.records import Calibration, CoRun
    from sluice.history_db.store import Store
    from sluice.interference.calibrate.report import Report
    from sluice.interference.calibrate.servers import Station
    from sluice.interference.programs import Program


@click.command("list")
@config_option
@history_option
@json_option
def list_command(*, config: Path | None, history: Path | None, as_json: bool) -> None:
    """List the calibrations in the history.

    \b
        sluice site calibrate list
        sluice site calibrate list --json | jq '.calibrations[-1].measured'
    """
    with open_history(config, history, read_only=True) as store:
        rows = [(c, store.coruns([c.id])) for c in store.calibrations()]
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

    Losses in % of the rate alone; the row is who loses, the column alongside whom. What fits into
    no matrix (unequal programs, sync modes, triples) is listed below. A second calibration of
    the same site is compared with the first: rank correlation and mean difference, to be held
    against the bound that the first one states.

    Of the servers it shows what each station takes, which demand fills it, what switching
    between programs costs in the limit of many, and by which share it follows demand: 1 is
    first come, first served, 0 is fair. Intervals are of 95 %.

    \b
        sluice site calibrate report
        sluice site calibrate report --output /tmp/cal && xdg-open /tmp/cal/index.html
    """
    from sluice.interference.calibrate.report import make_report, to_json

    with open_history(config, history, read_only=True) as store:
        chosen, before = _chosen(store, number)
        report = make_report(
            chosen.site,
            store.coruns([chosen.id]),
            store.coruns([before.id]) if before else (),
        )
    if output:
        from sluice.cli.pages import save_calibration

        for path in save_calibration(report, output):
            click.echo(path, err=as_json)
    if as_json:
        show_json(to_json(report))
    else:
        _print_report(report)


def _chosen(store: Store, number: int | None) -> tuple[Calibration, Calibration | None]:
    """Return the calibration asked for, and the one of the same site's rates before it."""
    from sluice.interference.site import has_rates

    known = store.calibrations()
    if not known:
        raise CommandError(
            f"{store.path}: no calibration yet; see `sluice site calibrate run --help`"
        )
    chosen = known[-1] if number is None else calibration_named(store, number)
    earlier = (c for c in reversed(known) if c.id < chosen.id and c.site == chosen.site)
    return chosen, next((c for c in earlier if has_rates(store, c)), None)


def calibration_named(store: Store, number: int) -> Calibration:
    """Return the one of that number. Raises CommandError."""
    for calibration in store.calibrations():
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


def print_servers(stations: Sequence[Station]) -> None:
    from sluice.interference.calibrate.report import SERVERS, servers_remarks, servers_rows

    show_table(SERVERS, servers_rows(stations))
    for remark in servers_remarks(stations):
        click.echo(remark)


def _together(programs: Sequence[Program]) -> str:
    return " and ".join(map(str, programs))


def _print_report(report: Report) -> None:
    from sluice.interference.calibrate.analysis import outside_matrices
    from sluice.interference.calibrate.report import agreement_text, even_by_size, stability_text
    from sluice.interference.programs import size_text

    if report.losses or not (report.deltas or report.servers):
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
    for heading, lines in even_by_size(report.even):
        click.echo("\n".join(["", heading, *lines]))
    if report.controls:
        click.echo()
    for control in report.controls:
        click.echo(
            f"{control.victim} alongside {_together(control.others)} on another target: "
            f"{share_text(control.loss)}"
        )
    if report.servers:
        click.echo()
        print_servers(report.servers)
    for members, points in report.deltas.items():
        click.echo(f"\n{members[0]} and {members[1]}, I/O time over alone")
        show_table(
            ("Offset s", members[0], members[1]),
            [(f"{p.offset:+.1f}", f"{p.first:.2f}×", f"{p.second:.2f}×") for p in points],
        )
