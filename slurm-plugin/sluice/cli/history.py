"""`sluice history`: what is in it, who stands out, and its upkeep."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    CommandError,
    Files,
    Layout,
    coverage_text,
    files_options,
    grounds_line,
    json_option,
    show_facts,
    show_json,
    show_parties,
    show_table,
)
from sluice.cli.listing import (
    Age,
    add_up,
    layout_options,
    progress,
    selection_options,
    since_option,
    working,
)
from sluice.slurm.views.formatting import NOTHING, bytes_text, duration_text
from sluice.slurm.visibility import uid_of, user_text

if TYPE_CHECKING:
    from sluice.history_db.store import Store

WEEK = 7 * 86400
ORDERS = {
    "writers": "write_bytes",
    "readers": "read_bytes",
    "metadata": "metadata",
}
"""What a ranking of volumes is asked for by, and what it is sorted by."""
HARM = {"harmful": "caused", "harmed": "suffered"}
"""Likewise, of node-hours that jobs cost each other."""


@click.command("show", short_help="Say what the history holds.")
@click.option("--quarantined", is_flag=True, help="List the logs in quarantine and why.")
@files_options
@json_option
def show(*, quarantined: bool, files: Files, as_json: bool) -> None:
    """Say what the history holds.

    `sluice history` alone does so too.

    \b
        sluice history show
        sluice history show --quarantined
    """
    with files.open_history(read_only=True) as store:
        if quarantined:
            _show_quarantined(store, as_json=as_json)
        else:
            _show_counts(store, as_json=as_json)


def _show_quarantined(store: Store, *, as_json: bool) -> None:
    logs = store.runs.quarantined()
    if as_json:
        show_json({"quarantined": [{"path": log.path, "reason": log.reason} for log in logs]})
    elif not logs:
        click.echo("none is in quarantine")
    else:
        show_table(("log", "why it is in quarantine"), [(log.path, log.reason) for log in logs])


def _show_counts(store: Store, *, as_json: bool) -> None:
    counts, coverage = store.counts(), store.jobs.coverage()
    if as_json:
        show_json({"coverage": asdict(coverage), "path": str(store.path), **asdict(counts)})
        return
    click.echo(coverage_text(coverage))
    click.echo(str(store.path))
    show_facts(
        [
            ("logs read", counts.logs),
            ("  of known jobs", counts.linked),
            ("logs in quarantine", counts.quarantined),
            ("jobs of the accounting", counts.jobs),
            ("decisions", counts.decisions),
            ("models", counts.models),
            ("bundles published", counts.bundles),
        ],
    )


@click.command("top")
@click.argument("order", type=click.Choice([*ORDERS, *HARM]), metavar="|".join([*ORDERS, *HARM]))
@since_option(None, "Only runs of this time, in full weeks")
@selection_options("user")
@click.option("-n", "most", default=20, show_default=True, type=click.IntRange(1), help="Rows.")
@layout_options
@files_options
@json_option
def top(
    order: str,
    since: int | None,
    most: int,
    *,
    users: tuple[str, ...],
    layout: Layout,
    files: Files,
    as_json: bool,
) -> None:
    """Rank applications by what they do to storage and to each other.

    An application is a user and a job name without its numbers. Harm is in node-hours that runs
    cost each other, computed as `sluice site assess` does, from the newest 50,000 logs, and takes
    as long; it is of the runs that started in the time asked for.

    \b
        sluice history top writers
        sluice history top metadata --since 12w --user ann
        sluice history top harmful -n 5 --json
    """
    first_week = (since or 0) // WEEK
    if order in HARM:
        ranked = {"by": HARM[order], "since": first_week * WEEK, "most": most, "users": users}
        _show_harm(files, layout, ranked, as_json=as_json)
        return
    with _fresh(files) as store:
        uids = [uid_of(name, store) for name in users]
        totals = store.rankings.ranking(ORDERS[order], since_week=first_week, most=most, uids=uids)
        stale = len(store.rankings.stale_weeks())
        coverage = store.jobs.coverage()
    if as_json:
        rows = [asdict(total) for total in totals]
        show_json({"coverage": asdict(coverage), "applications": rows, "weeks_not_added_up": stale})
        return
    if not layout.is_for_programs:
        click.echo(coverage_text(coverage))
    if not totals and not layout.is_for_programs:
        click.echo("none: no run of that time is known to have done so")
        return
    show_table(
        ("user", "application", "runs", "written", "read", "opens, stats"),
        [
            (
                total.user or user_text(total.uid),
                total.application or NOTHING,
                total.runs,
                bytes_text(total.write_bytes),
                bytes_text(total.read_bytes),
                f"{total.metadata:.3g}",
            )
            for total in totals
        ],
        least=("opens, stats", "read", "runs"),
        layout=layout,
    )
    if stale:
        click.echo(
            f"{stale} weeks changed since they were added up; their owner sees them", err=True
        )


def _show_harm(files: Files, layout: Layout, ranked: dict[str, Any], *, as_json: bool) -> None:
    from sluice.interference.cost import grounds_of

    with files.open_history(read_only=True) as store:
        ranked["uids"] = [uid_of(name, store) for name in ranked.pop("users")]
        with working("reading the history"):
            grounds = grounds_of(store, files.settings())
        coverage = store.jobs.coverage()
    with progress("instants", lambda: grounds.instants) as (_, advance):
        parties = grounds.costs(advance).ranked(**ranked)
    if as_json:
        rows = [asdict(one) for one in parties]
        show_json({"coverage": asdict(coverage), **grounds.as_json(), "applications": rows})
        return
    if not layout.is_for_programs:
        click.echo(coverage_text(coverage))
        click.echo(grounds_line(grounds))
    if parties or layout.is_for_programs:
        show_parties(parties, layout)
    else:
        click.echo("none: no run of that time is known to have done so")


def _fresh(files: Files) -> Store:
    """Open the history with its totals up to date, where this user may write it."""
    from sluice.history_db.errors import BusyHistoryError, ReadOnlyHistoryError

    store = files.open_history(read_only=True)
    if not store.rankings.stale_weeks() or not os.access(store.path, os.W_OK):
        return store
    store.close()
    try:
        writable = files.open_history()
        add_up(writable)
    except (BusyHistoryError, ReadOnlyHistoryError):
        return files.open_history(read_only=True)
    return writable


@click.command("prune")
@click.option("--older-than", required=True, type=Age(), help="E.g. 90d, 12w or 2y.")
@click.option("--vacuum", is_flag=True, help="Give the room back to the file system.")
@files_options
@json_option
def prune(*, older_than: int, vacuum: bool, files: Files, as_json: bool) -> None:
    """Forget runs, jobs and decisions of long ago.

    What models have learned from them stays. Run it every night to keep so many days.

    \b
        sluice history prune --older-than 400d
        sluice history prune --older-than 1y --vacuum
    """
    with files.open_history() as store:
        before = store.path.stat().st_size
        oldest = int(time.time()) - older_than
        with progress("rows", lambda: store.upkeep.count_prunable(before=oldest)) as (_, advance):
            pruned = store.upkeep.prune(before=oldest, advance=advance)
        store.jobs.update_coverage()
        if vacuum:
            store.upkeep.vacuum()
        after = store.path.stat().st_size
    if as_json:
        show_json({**asdict(pruned), "bytes_before": before, "bytes_after": after})
        return
    click.echo(
        f"forgot {pruned.logs} runs, {pruned.jobs} jobs and {pruned.decisions} decisions older "
        f"than {duration_text(older_than)}; the file has {bytes_text(after)}, was "
        f"{bytes_text(before)}"
    )


@click.command("export")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@files_options
def export(file: Path, *, files: Files) -> None:
    """Write all runs into FILE, one row each: .csv or .parquet.

    A row has the log, the profile and the job; names of users, jobs and files are in it.

    \b
        sluice history export runs.parquet
    """
    from sluice.history_db import export as formats
    from sluice.policies.container import draft_of

    writers = {".csv": formats.write_csv, ".parquet": formats.write_parquet}
    write = writers.get(file.suffix.lower())
    if write is None:
        raise click.BadParameter(
            f"{file}: the name must end in .csv or .parquet", param_hint="FILE"
        )
    try:
        with files.open_history(read_only=True) as store, draft_of(file) as draft:
            rows = write(draft, *store.upkeep.flat_runs())
    except formats.NoParquetError as error:
        raise CommandError(str(error)) from error
    click.echo(f"{file}: {rows} runs, {bytes_text(file.stat().st_size)}")


@click.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@files_options
def backup(file: Path, *, files: Files) -> None:
    """Write a copy of the history to FILE, at any moment.

    sluiced and sluice-learn go on meanwhile; the copy is of one moment, is checked, and takes the
    place of an earlier FILE only when it is whole. FILE may lie on a network file system.

    \b
        sluice history backup /backup/sluice.db
        systemctl enable --now sluice-backup.timer
    """
    from sluice.policies.container import draft_of
    from sluice.slurm.status import note_backup

    with files.open_history(read_only=True) as store:
        if file.exists() and file.samefile(store.path):
            raise CommandError(f"{file}: this is the history itself; name another file")
        with draft_of(file, mode=0o640) as draft:
            store.back_up(draft)
    note_backup(store.path, int(time.time()))
    click.echo(f"{file}: {bytes_text(file.stat().st_size)}")


@click.command("restore")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@files_options
def restore(file: Path, *, files: Files) -> None:
    """Put the copy FILE in the history's place.

    FILE is checked and brought up to date first. The history of before stays next to it, under the
    name that is printed. Refuses while sluiced, sluice-learn or a command has the history open.

    \b
        systemctl stop sluiced
        sluice history restore /backup/sluice.db
        systemctl start sluiced
    """
    from sluice.history_db.restore import restore as put_in_place
    from sluice.slurm.records import AnotherDaemonError
    from sluice.slurm.status import daemons_stopped

    path = files.history
    try:
        with daemons_stopped(Path(files.settings().snapshot), path):
            before = put_in_place(file, path)
    except AnotherDaemonError as error:
        raise CommandError(
            f"{path} is in use: `systemctl stop sluiced` first, and start it afterwards ({error})"
        ) from error
    click.echo(f"{path}: restored" + (f"; what was there is now {before}" if before else ""))
