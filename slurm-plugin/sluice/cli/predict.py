"""`sluice predict`."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from sluice.cli.common import (
    CommandError,
    Files,
    ParamType,
    coverage_text,
    files_options,
    json_option,
    show_facts,
    show_json,
)
from sluice.slurm.views.formatting import (
    NOTHING,
    bytes_text,
    duration_text,
    intervals,
    one_line,
    rate_text,
    share_text,
    time_text,
    with_range,
)

Facts = dict[str, Any]

SHOWN_RUNS = 5
SCRIPT_CHARACTERS = 1 << 17
"""Of a script: those that tell it from others lie in its first 16 KiB of commands."""
NOBODY = (1 << 32) - 1  # a uid that no user has


class Minutes(ParamType[int]):
    """A time limit as sbatch takes it: minutes, mm:ss, hh:mm:ss, d-hh[:mm[:ss]]."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,2}))?(?::(\d{1,2}))?", value)
        if match is None:
            self.fail(
                f"{value!r} is no time limit; say minutes, hh:mm:ss or d-hh:mm:ss", param, ctx
            )
        days, *rest = match.groups()
        first, second, third = (int(part or 0) for part in rest)
        if days is not None:
            return int(days) * 1440 + first * 60 + second + (third > 0)
        if rest[2] is not None:
            return first * 60 + second + (third > 0)
        return first + (second > 0)


@click.command("predict", short_help="Say what is known of a job before it runs.")
@click.option("--job-name", "-J", default="", metavar="NAME", help="As sbatch --job-name.")
@click.option("--user", "-u", metavar="USER", help="Name or uid.  [default: you]")
@click.option("--account", "-A", default="", metavar="NAME", help="As sbatch --account.")
@click.option("--partition", "-p", default="", metavar="NAME", help="As sbatch --partition.")
@click.option("--nodes", "-N", type=click.IntRange(0, NOBODY), default=0, help="As sbatch --nodes.")
@click.option(
    "--tasks", "-n", type=click.IntRange(0, NOBODY), default=0, help="As sbatch --ntasks."
)
@click.option(
    "--cpus-per-task",
    "-c",
    type=click.IntRange(0, NOBODY),
    default=0,
    help="As sbatch --cpus-per-task.",
)
@click.option("--time", "-t", "time_limit", type=Minutes(), default=0, help="As sbatch --time.")
@click.option(
    "--script",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The job script.",
)
@click.option(
    "--arguments",
    default="",
    metavar="TEXT",
    help="What stands behind the script on the submit line.",
)
@click.option(
    "--bundle",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The bundle to ask.  [default: Bundle of the configuration]",
)
@files_options
@json_option
def command(
    *,
    job_name: str,
    user: str | None,
    account: str,
    partition: str,
    nodes: int,
    tasks: int,
    cpus_per_task: int,
    time_limit: int,
    script: Path | None,
    arguments: str,
    bundle: Path | None,
    files: Files,
    as_json: bool,
) -> None:
    """Say what is known of a job before it runs.

    Asks the published bundle what slurmctld would: earlier runs of this script or name by this
    user, of this name by others, jobs that resemble it, its account. Sluice abstains below
    MinConfidence, and where only others ran it; the best guess is shown all the same.

    \b
        sluice predict --job-name cavity --user alice --nodes 4 --time 2:00:00
        sluice predict --script job.sh --arguments "--size 100" --user 1042 --json
    """
    request: dict[str, str | int | None] = {
        "uid": _uid(user, files),
        "name": job_name or (script.name if script else ""),
        "account": account or None,
        "partition": partition or None,
        "nodes": nodes,
        "tasks": tasks,
        "cpus_per_task": cpus_per_task,
        "time_limit": time_limit,
        "script": script.read_text(errors="surrogateescape")[:SCRIPT_CHARACTERS]
        if script
        else None,
        "submit_line": f"sbatch {script or 'job'} {arguments}",
    }
    from sluice.history_db.records import Coverage

    facts = _ask(bundle, files, request)
    coverage = facts["coverage"]
    if as_json:
        show_json({"coverage": coverage, **_as_json(facts)})
    else:
        click.echo(coverage_text(Coverage(**coverage) if coverage else None))
        _print(facts)


def _ask(bundle: Path | None, files: Files, request: dict[str, Any]) -> Facts:
    """Predict from the bundle, or, where this user may not read it, let sluiced do so."""
    from sluice.history_db.errors import HistoryError
    from sluice.slurm.service import may_read
    from sluice.slurm.views.query_replies import predict
    from sluice.slurm.visibility import OWNER, ask

    path = bundle or Path(files.settings().bundle)
    if bundle is None and not may_read(path):
        found: Facts = ask(files.settings(), "predict", {"request": request})
        return found
    if not path.exists():
        raise CommandError(f"{path}: no bundle yet; write one with `sluice model train --publish`")
    try:
        with files.open_history(read_only=True) as store:
            return predict(store, OWNER, bundle=path, request=request)
    except HistoryError:
        return predict(None, OWNER, bundle=path, request=request)


def _uid(user: str | None, files: Files) -> int:
    """Return the uid of a user of this machine, or of the cluster the history came from."""
    if user is None:
        return os.getuid()
    from sluice.slurm.records import QueryError
    from sluice.slurm.service import may_read
    from sluice.slurm.visibility import uid_of

    with suppress(QueryError):
        return min(uid_of(user, None), NOBODY)
    path = files.history
    if may_read(path) and path.exists():
        with files.open_history(read_only=True) as store, suppress(QueryError):
            return min(uid_of(user, store), NOBODY)
    click.echo(one_line(f"user {user} is not known: taken for a new user"), err=True)
    return NOBODY


def _is_certain(facts: Facts) -> bool:
    return bool(facts["profile"]["confidence"] >= facts["min_confidence"] and facts["is_own"])


def _class(facts: Facts) -> str | None:
    """Return the class; None: too little is known to give the job one."""
    klass = str(facts["klass"])
    return klass if klass != "none" or _is_certain(facts) else None


def _as_json(facts: Facts) -> Facts:
    profile = dict(facts["profile"])
    best_guess, confidence = profile.pop("pattern"), profile.pop("confidence")
    is_certain = _is_certain(facts)
    return {
        "pattern": best_guess if is_certain else "unknown",
        "confidence": confidence,
        "abstains": not is_certain,
        "best_guess": best_guess,
        "min_confidence": facts["min_confidence"],
        "evidence": facts["evidence"],
        "class": _class(facts),
        "application": facts["application"] or None,
        "intervals": intervals(profile),
        "shares": {name: share for name, share in profile.pop("share").items() if share > 0},
        **profile,
    }


def _print(facts: Facts) -> None:
    from sluice.policies import core

    profile, runs, klass = facts["profile"], facts["runs"], _class(facts)
    pattern, confidence = profile["pattern"], profile["confidence"]
    if _is_certain(facts):
        click.echo(f"{pattern}: {core.sentence('pattern', pattern)}")
    elif facts["evidence"] == "none":
        click.echo("abstains: nothing is known of such a job")
    elif pattern == "unknown":
        click.echo(f"abstains: {core.sentence('reason', 'volume_only')}")
    elif not facts["is_own"]:
        click.echo(
            f"abstains: the best guess would be {pattern}, "
            f"but {core.sentence('reason', 'others_only')}"
        )
    else:
        click.echo(
            f"abstains: the best guess would be {pattern}, but {confidence:.2f} "
            f"is below MinConfidence {facts['min_confidence']:.2f}"
        )
    rows = [
        ("confidence in the pattern", f"{confidence:.2f}"),
        ("evidence", core.sentence("evidence", facts["evidence"])),
        ("runs behind it", profile["runs"] or NOTHING),
        ("class", f"{klass}: {core.sentence('class', klass)}" if klass else NOTHING),
        ("processes", _plain(profile["nprocs"])),
        ("chunk", bytes_text(profile["chunk_bytes"])),
        ("written", with_range(profile, "write_bytes", bytes_text)),
        ("read", with_range(profile, "read_bytes", bytes_text)),
        ("bytes a read", bytes_text(profile["read_chunk_bytes"])),
        ("read in order", share_text(profile["read_sequential_share"])),
        ("read from the cache", share_text(profile["read_cached_share"])),
        ("rate during I/O", with_range(profile, "rate", rate_text)),
        ("share of run time", with_range(profile, "io_share", share_text)),
        ("burst, period", _bursts(profile)),
    ]
    show_facts(rows)
    for run in runs[:SHOWN_RUNS]:
        click.echo(
            one_line(
                f"  {time_text(run['start'])} job {run['job_id']}: {run['pattern']} "
                f"({run['confidence']:.2f}), {run['path']}"
            )
        )
    if len(runs) > SHOWN_RUNS:
        click.echo(f"  … and {len(runs) - SHOWN_RUNS} earlier ones")


def _plain(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def _bursts(profile: Facts) -> str:
    burst = with_range(profile, "burst_seconds", duration_text)
    return f"{burst}, {duration_text(profile['period_seconds'])}"
