"""`sluice top`: the jobs, users or programs with most I/O, live."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import click

from sluice.cli.common import (
    Files,
    answer,
    files_options,
    is_terminal,
    json_option,
    show_json,
    show_table,
)
from sluice.slurm.views.formatting import (
    NOTHING,
    count_text,
    duration_text,
    rate_text,
    share_text,
)

Facts = dict[str, Any]

CLEAR = "\x1b[H\x1b[2J"
"""A terminal, from its upper left corner on."""
GROUPS = {"jobs": "job_id", "users": "user", "programs": "program"}


@click.command(short_help="Show the jobs, users or programs with most I/O, live.")
@click.option(
    "--by",
    "group",
    type=click.Choice(list(GROUPS)),
    default="jobs",
    show_default=True,
    help="What a row adds up.",
)
@click.option("--once", is_flag=True, help="Print one table, as where no terminal is written to.")
@click.option(
    "--interval",
    default=2.0,
    show_default=True,
    type=click.FloatRange(0.5, 3600.0),
    metavar="SECONDS",
    help="From one table to the next, and between two reads of --job-stats.",
)
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(1), help="Rows at most."
)
@click.option(
    "--job-stats",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A file with Lustre's job_stats, as its server shows it; several may be named.",
)
@files_options
@json_option
def command(
    group: str,
    interval: float,
    limit: int,
    job_stats: tuple[Path, ...],
    files: Files,
    *,
    once: bool,
    as_json: bool,
) -> None:
    """Show the jobs, users or programs with most I/O, live.

    Rates are of this moment. Of jobs with an agent on their nodes they are what their processes
    write, flush and close in a burst; reads and what agents do not see stand there with
    --job-stats only, which names files in which Lustre's servers count by job. Rates of other
    running jobs are estimated from earlier runs. Nothing of it asks slurmctld.

    \b
    For    how long the burst has lasted, or the job has run
    By     agents or servers, which count, or expected
    Doing  what Sluice does: free, held or slowed, and what was decided at submission

    \b
    Examples:
        sluice top
        sluice top --by users --limit 5
        sluice top --once --json | jq '.rows[0]'
    """
    counted = _Counters(job_stats)
    is_once = once or as_json or not is_terminal()
    while True:
        if is_once and job_stats:
            time.sleep(interval)
        facts = _facts(files, counted, group)
        if as_json:
            show_json(facts | {"rows": facts["rows"][:limit]})
        else:
            if not is_once:
                click.echo(CLEAR, nl=False)
            _show(facts, group, limit)
        if is_once:
            return
        time.sleep(interval)


class _Counters:
    """What servers counted by job between two reads of their files."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._paths = paths
        self._before = self._read()

    def rates(self) -> dict[int, Facts]:
        """Return the rates since the last call by job."""
        (began, before), (read, now) = self._before, self._read()
        self._before = (read, now)
        seconds = max(read - began, 1e-3)
        return {
            job: {
                name: max(0.0, count - before.get(job, {}).get(name, 0.0)) / seconds
                for name, count in counts.items()
            }
            for job, counts in now.items()
        }

    def _read(self) -> tuple[float, dict[int, dict[str, float]]]:
        from sluice.history_db.job_stats import parse_job_stats

        found: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for path in self._paths:
            with path.open(errors="replace") as lines:
                for one in parse_job_stats(lines, name=str(path)).jobs:
                    counts = found[one.job_id]
                    counts["write"] += one.write_bytes
                    counts["read"] += one.read_bytes
                    counts["operations"] += one.metadata_operations
        return time.monotonic(), found


def _facts(files: Files, counted: _Counters, group: str) -> Facts:
    """Ask, add what servers counted, and add up by job, user or program."""
    from sluice.slurm.views.top import SERVERS, order, top
    from sluice.slurm.visibility import OWNER

    settings = files.settings()

    rates = {job: found for job, found in counted.rates().items() if any(found.values())}
    busiest = sorted(rates, key=lambda job: -sum(rates[job].values()))[:MOST_COUNTED]

    def read(store: Any) -> Facts:
        return top(store, OWNER, settings, int(time.time()), busiest)

    facts: Facts = answer(files, read, "top", counted=busiest)
    jobs = {row["job_id"]: row for row in facts["jobs"]}
    for job in busiest:
        unknown = dict.fromkeys(NAMES) | {"job_id": job}  # where the job is another user's
        jobs[job] = jobs.get(job, unknown) | rates[job] | {"by": SERVERS}
    rows = sorted(jobs.values(), key=order)
    facts["rows"] = rows if group == "jobs" else _added_up(rows, GROUPS[group])
    return facts


NAMES = ("name", "program", "user", "nodes", "seconds", "state", "action", "reason")
MOST_COUNTED = 500
"""Jobs that servers count, of which sluiced is asked: as many as it answers."""


def _added_up(rows: list[Facts], key: str) -> list[Facts]:
    """Add up rates; the longest time counts, and what is done about most of it."""
    from sluice.slurm.views.top import order

    groups: dict[Any, list[Facts]] = defaultdict(list)
    for row in rows:
        groups[row[key]].append(row)
    found = []
    for name, members in groups.items():
        total = {
            rate: sum(known)
            if (known := [r[rate] for r in members if r[rate] is not None])
            else None
            for rate in ("write", "read", "operations")
        }
        seconds = max((one["seconds"] or 0 for one in members), default=0)
        of = {key: name, "jobs": len(members), "seconds": seconds}
        found.append(members[0] | total | of)
    return sorted(found, key=order)


def _show(facts: Facts, group: str, limit: int) -> None:
    key = GROUPS[group]
    title = {"job_id": "Job", "user": "User", "program": "Program"}[key]
    names = ("Name", "User") if key == "job_id" else ("Jobs",)
    show_table(
        (title, *names, "Write", "Read", "Operations/s", "For", "By", "Doing"),
        [
            (
                row[key] or NOTHING,
                *((row["name"], row["user"]) if key == "job_id" else (row["jobs"],)),
                rate_text(row["write"]),
                rate_text(row["read"]),
                NOTHING if row["operations"] is None else f"{row['operations']:.3g}",
                NOTHING if row["seconds"] is None else duration_text(row["seconds"]),
                row["by"],
                _doing(row),
            )
            for row in facts["rows"][:limit]
        ],
        least=("Operations/s", "By"),
    )
    click.echo(_covered(facts))


def _doing(row: Facts) -> str:
    decided = f"; {row['action']}: {row['reason']}" if row["action"] else ""
    return f"{row['state'] or NOTHING}{decided}"


def _covered(facts: Facts) -> str:
    if facts["is_off"]:
        return "Sluice is switched off: no job is held."
    if not facts["agents"]:
        return "No agent reports: rates are expected from earlier runs, or counted by servers."
    share = f" ({share_text(facts['covered'])} of it)" if facts["covered"] else ""
    agents = count_text(facts["agents"], "agent")
    return f"Counted by {agents}: what jobs write in bursts{share}. Only servers count reads."
