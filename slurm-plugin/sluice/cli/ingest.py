"""`sluice history ingest`: logs that lie there, or as they arrive."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from sluice.cli.common import (
    CommandError,
    Files,
    bounded_lines,
    coverage_text,
    files_options,
    json_option,
    show_json,
)
from sluice.cli.listing import add_up, progress
from sluice.slurm.views.formatting import claims_text, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo
    from types import FrameType

    from sluice.history_db.intake import JobStatsSummary, JobSummary
    from sluice.history_db.store import Store
    from sluice.ingest.ingest import Summary
    from sluice.ingest.workers import Failure


LCTL_TIMEOUT = 5.0  # seconds
CLAIMS_SHOWN, SHOWN = 30 * 86400, 3  # seconds, and jobs


class Stopped(Exception):  # noqa: N818 - no error: somebody wants it to end
    """SIGTERM or SIGINT came."""


def follow(
    store: Store,
    directories: tuple[Path, ...],
    *,
    workers: int,
    every: float,
    once: bool,
    ask_sacct: bool,
) -> None:
    """Poll the directories every so many seconds, until it is stopped."""
    from sluice.slurm.accounting_poll import AccountingError, Follower

    if os.geteuid() == 0:
        click.echo(
            "sluice: --follow runs as root, which it does not need: run it as a user that may "
            "read the logs (by their group) and write the history",
            err=True,
        )
    follower = Follower(
        directories,
        workers=workers,
        now=time.time(),
        report=lambda text: click.echo(one_line(text), err=True),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        while True:
            begin = time.time()
            if not store.is_in_place():
                raise CommandError(f"{store.path}: moved away or replaced; start again")
            if ask_sacct and shutil.which("sacct"):
                try:
                    follower.ask_sacct(store, begin)
                except AccountingError as error:
                    click.echo(one_line(f"sluice: {error}"), err=True)
            summary = follower.read_logs(store, begin)
            if summary.read or summary.waiting or summary.quarantined:
                click.echo(
                    f"read {summary.read}, waiting for their accounting {summary.waiting}, "
                    f"quarantined {len(summary.quarantined)}"
                )
            sys.stdout.flush()
            follower.add_up(store, begin)
            if once:
                return
            time.sleep(max(0.0, begin + every - time.time()))
    except Stopped:
        click.echo("stopped")


def _stop(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise Stopped


CHANGED = 1  # exit code when something could not be read


@click.command("ingest", short_help="Read Darshan logs and accounting into the history.")
@click.argument(
    "paths", nargs=-1, type=click.Path(exists=True, readable=False, path_type=Path), metavar="PATH…"
)
@click.option(
    "--sacct",
    type=click.File(errors="replace"),
    metavar="FILE",
    help="Output of `sacct --parsable2`, best with a random --delimiter; - for stdin.",
)
@click.option(
    "--time-zone",
    metavar="NAME",
    help="Where sacct ran, as Europe/Berlin.  [default: here]",
)
@click.option(
    "--cluster",
    default="",
    metavar="NAME",
    help="Of accounting without a field Cluster.",
)
@click.option(
    "--job-stats",
    type=click.File(errors="replace"),
    metavar="FILE",
    help="Output of lctl, as above; - for stdin.",
)
@click.option(
    "--job-id-form",
    metavar="FORM",
    help="Of jobs in --job-stats, as `%j.%u.%h`.  "
    "[default: as jobid_name here, else as most entries]",
)
@click.option(
    "--server-counts",
    type=click.File(encoding="utf-8-sig"),
    metavar="FILE",
    help="CSV of time,target,read_bytes,write_bytes.",
)
@click.option("--retry", is_flag=True, help="Read quarantined logs again.")
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=lambda: len(os.sched_getaffinity(0)),
    help="Processes.  [default: one a core]",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Keep polling; accept only logs that fit a job.",
)
@click.option(
    "--every",
    type=click.FloatRange(1, 86400),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Between polls.",
)
@click.option("--once", is_flag=True, help="Poll once, for cron.")
@click.option(
    "--ask-sacct/--no-ask-sacct",
    default=True,
    show_default=True,
    help="With --follow: get accounting from sacct.",
)
@files_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    paths: tuple[Path, ...],
    sacct: TextIO | None,
    time_zone: str | None,
    cluster: str,
    job_stats: TextIO | None,
    server_counts: TextIO | None,
    job_id_form: str | None,
    retry: bool,
    workers: int,
    follow: bool,
    every: float,
    once: bool,
    ask_sacct: bool,
    files: Files,
    as_json: bool,
) -> None:
    """Read Darshan logs and accounting into the history.

    Directories are searched for *.darshan, recursively. What was read before is skipped. A
    damaged log is named, quarantined, and skipped until it changes.

    \b
        sluice history ingest /var/log/darshan
        sacct --parsable2 --delimiter="|$(cat /proc/sys/kernel/random/uuid)|" --allusers \\
            --starttime now-2days --format ALL | sluice history ingest --sacct -
        lctl get_param *.*.job_stats | sluice history ingest --job-stats -
        sluice history ingest --follow /var/log/darshan

    With a --delimiter that no user can know, no name or comment passes for a row; without it,
    doubtful lines are skipped and named.

    Paths given explicitly: log ownership is not checked. With --follow, a log counts only if the
    file's owner, the user inside and the job's user agree and its times lie within the job. A log
    waits until accounting knows its job.

    Exit code: 0 all is well, 1 something could not be read (it is named) or there is no log,
    2 wrong usage.
    """
    if not paths and not (sacct or job_stats or server_counts):
        raise click.UsageError(
            "Nothing to read: name logs or directories, --sacct, --job-stats or --server-counts."
        )
    zone = _zone(time_zone)
    with files.open_history(create=True) as store:
        jobs = _read_accounting(store, sacct, zone, cluster)
        stats = _read_job_stats(store, job_stats, job_id_form)
        counts = _read_server_counts(store, server_counts)
        if follow:
            _follow(store, paths, workers=workers, every=every, once=once, ask_sacct=ask_sacct)
            return
        logs = _read_logs(store, paths, workers=workers, retry=retry)
        add_up(store)
        offset = None if jobs is None else _clock_offset(store)
        since = int(time.time()) - CLAIMS_SHOWN
        claims = store.runs.claims_beyond_counts(since=since, limit=SHOWN)
        coverage = store.jobs.coverage()
    if as_json:
        served = {} if counts is None else {"server_counts": counts}
        show_json({"coverage": asdict(coverage)} | _as_json(logs, jobs, stats) | served)
    else:
        click.echo(coverage_text(coverage))
        _print(logs, jobs, stats, time_zone, offset)
        if counts is not None:
            click.echo(f"servers: {counts} counts of storage targets")
        if claims:
            click.echo(claims_text(claims))
        if paths:
            click.echo(_last_line(logs))
    is_empty = bool(paths) and not (logs.read or logs.known or logs.quarantined)
    if is_empty and not logs.unlisted:
        places = ", ".join(map(str, paths))
        click.echo(one_line(f"sluice: no log in {places}: none is named *.darshan"), err=True)
    if is_empty or logs.quarantined or logs.unlisted or (jobs is not None and jobs.broken):
        ctx.exit(CHANGED)


def _zone(name: str | None) -> tzinfo | None:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError) as error:
        raise click.BadParameter(
            f"{name!r} is no time zone; say e.g. Europe/Berlin or UTC.", param_hint="--time-zone"
        ) from error


def _read_accounting(
    store: Store, file: TextIO | None, zone: tzinfo | None, cluster: str
) -> JobSummary | None:
    if file is None:
        return None
    from sluice.history_db.intake import add_accounting
    from sluice.history_db.sacct import REMEDY
    from sluice.slurm.accounting_poll import join_late

    name = _name(file)
    join = partial(join_late, store, now=time.time())

    def report(number: int, reason: str) -> None:
        click.echo(one_line(f"{name}:{number}: skipped: {reason}"), err=True)

    summary = add_accounting(
        store,
        bounded_lines(file, name),
        name=name,
        zone=zone,
        cluster=cluster,
        report=report,
        join=join,
    )
    if summary.broken:
        click.echo(f"{name}: {REMEDY}, so that no text of a user can pass for a row", err=True)
    return summary


def _read_server_counts(store: Store, file: TextIO | None) -> int | None:
    if file is None:
        return None
    from sluice.history_db.server_counts import parse_server_counts

    counts = parse_server_counts(bounded_lines(file, _name(file)), name=_name(file))
    store.interference.put_server_counts(counts)
    return len(counts)


def _read_job_stats(store: Store, file: TextIO | None, form: str | None) -> JobStatsSummary | None:
    if file is None:
        return None
    from sluice.history_db.intake import add_job_stats

    lines, told = bounded_lines(file, _name(file)), None if form else _told_form()
    return add_job_stats(store, lines, name=_name(file), form=form, told=told)


def _told_form() -> str | None:
    """Ask a Lustre client how it names jobs; None where there is none."""
    import subprocess

    try:
        asked = subprocess.run(
            ["lctl", "get_param", "-n", "jobid_name"],
            check=True,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=LCTL_TIMEOUT,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return asked.stdout.strip() or None


def _follow(store: Store, paths: tuple[Path, ...], **how: Any) -> None:

    files = [path for path in paths if not path.is_dir()]
    if files or not paths:
        what = f"{files[0]} is none" if files else "none is named"
        raise click.UsageError(f"--follow needs directories: {what}.")
    follow(store, paths, **how)


def _name(file: TextIO) -> str:
    return str(getattr(file, "name", "stdin"))  # what stands in for stdin may have no name


def _read_logs(store: Store, paths: tuple[Path, ...], *, workers: int, retry: bool) -> Summary:
    from sluice.ingest.ingest import Summary, count_logs, ingest

    if not paths:
        return Summary()
    with progress("logs", lambda: count_logs(paths)) as (report, advance):
        return ingest(
            store,
            paths,
            workers=workers,
            retry=retry,
            quarantined=lambda failure: report(_quarantine_line(failure)),
            advance=advance,
        )


def _quarantine_line(failure: Failure) -> str:
    return one_line(f"quarantined {failure.path}: {failure.reason}")


def _clock_offset(store: Store) -> int | None:
    """Return the hours by which logs and accounting differ, where that looks like a zone's."""
    from statistics import median

    offsets = store.jobs.clock_offsets()
    if not offsets:
        return None
    hours = round(median(offsets) / 3600)
    return hours if 1 <= abs(hours) <= 14 else None


def _print(
    logs: Summary,
    jobs: JobSummary | None,
    stats: JobStatsSummary | None,
    time_zone: str | None,
    offset: int | None,
) -> None:
    if jobs is not None:
        zone = time_zone or "this machine's time zone"
        click.echo(
            f"accounting: {jobs.added} jobs added, {jobs.changed} completed, "
            f"{jobs.unchanged} already known, {jobs.broken} lines skipped; times read as {zone}"
        )
        if jobs.joined:
            click.echo(f"decisions: {jobs.joined} have found their job by its submit line")
    if offset is not None:
        click.echo(
            f"Logs and accounting of the same jobs are {offset:+d} h apart: say with --time-zone "
            "where sacct ran.",
            err=True,
        )
    if stats is not None:
        for line in _lines_on_stats(stats):
            click.echo(one_line(line))
    _print_on_logs(logs)


def _print_on_logs(logs: Summary) -> None:
    for line in logs.unlisted:
        click.echo(one_line(f"cannot list {line}"), err=True)
    if logs.other_files:
        click.echo(f"{logs.other_files} files in the directories are not named *.darshan")
    for counter, count in sorted(logs.not_counted.items()):
        click.echo(f"{counter} cannot be true in {count} logs, and was not counted there", err=True)
    if logs.known_quarantined:
        click.echo(
            f"{logs.known_quarantined} of the known ones are in quarantine; "
            "`sluice history --quarantined` says why"
        )


def _lines_on_stats(stats: JobStatsSummary) -> Iterator[str]:
    example = "" if stats.other_example is None else f", as {stats.other_example!r}"
    yield (
        f"job statistics: {stats.jobs} jobs, {stats.unmatched} that the accounting does not "
        f"know, {stats.others} entries of no job{example}"
    )
    if stats.is_guessed and stats.others > stats.jobs + stats.unmatched + stats.contradicted:
        yield (
            "Most entries name no job: say with --job-id-form how your site names them, "
            "as `lctl get_param jobid_name` shows on a client."
        )
    elif stats.is_guessed and stats.form != "%j":
        yield f"They are named like {stats.form}, by most entries; --job-id-form says it for sure."
    if stats.contradicted:
        yield (
            f"{stats.contradicted} of them are not counted, the accounting says otherwise: "
            f"{stats.contradicted_example}"
        )


def _last_line(logs: Summary) -> str:
    return (
        f"read {logs.read}, skipped {logs.known} (already known), "
        f"quarantined {len(logs.quarantined)}; path given explicitly; log ownership not checked"
    )


def _as_json(
    logs: Summary,
    jobs: JobSummary | None,
    stats: JobStatsSummary | None,
) -> dict[str, object]:
    result: dict[str, object] = {
        "read": logs.read,
        "skipped": logs.known,
        "quarantined": [
            {"path": str(failure.path), "reason": failure.reason} for failure in logs.quarantined
        ],
        "still_quarantined": logs.known_quarantined,
        "not_counted": dict(logs.not_counted),
        "other_files": logs.other_files,
        "unlisted": logs.unlisted,
    }
    if jobs is not None:
        result["jobs"] = {
            "added": jobs.added,
            "changed": jobs.changed,
            "unchanged": jobs.unchanged,
            "broken_lines": jobs.broken,
            "joined_decisions": jobs.joined,
        }
    if stats is not None:
        result["job_stats"] = asdict(stats)
    return result
