"""`sluice predict`."""

from __future__ import annotations

import os
import pwd
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    NO_COVERAGE,
    NOTHING,
    CommandError,
    bytes_text,
    config_option,
    coverage_line,
    duration_text,
    history_option,
    history_path,
    json_option,
    one_line,
    open_history,
    rate_text,
    read_config,
    share_text,
    show_json,
    show_table,
    time_text,
)

if TYPE_CHECKING:
    from sluice.history_db.records import Coverage, Run
    from sluice.policies.core import View

SHOWN_RUNS = 5
NOBODY = (1 << 32) - 1  # a uid that no user has


class Minutes(click.ParamType[int]):
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
    "--bundle",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The bundle to ask.  [default: Bundle of the configuration]",
)
@config_option
@history_option
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
    bundle: Path | None,
    config: Path | None,
    history: Path | None,
    as_json: bool,
) -> None:
    """Say what is known of a job before it runs.

    Asks the published bundle what slurmctld would: earlier runs of this script or name by this
    user, of this name by others, jobs that resemble it, its account. Sluice abstains below
    MinConfidence, and where only others ran it; the best guess is shown all the same.

    \b
        sluice predict --job-name cavity --user alice --nodes 4 --time 2:00:00
        sluice predict --script job.sh --user 1042 --json
    """
    from sluice.policies import core
    from sluice.policies.bundle import Bundle

    path = bundle or Path(read_config(config).bundle)
    if not path.exists():
        raise CommandError(f"{path}: no bundle yet; write one with `sluice train --publish`")
    loaded = Bundle.load(path, path.stat().st_uid)
    submission = core.submission_of(
        {
            "uid": _uid(user, config, history),
            "name": job_name or (script.name if script else ""),
            "account": account or None,
            "partition": partition or None,
            "nodes": nodes,
            "tasks": tasks,
            "cpus_per_task": cpus_per_task,
            "time_limit": time_limit,
            "script": script.read_text(errors="surrogateescape") if script else None,
            "submit_line": "sbatch",
        }
    )
    prediction = loaded.predict(submission)
    certain = prediction.profile.confidence >= loaded.policy.min_confidence and core.counts(
        prediction
    )
    line, coverage, runs = _learned_from(prediction.application, config, history)
    if as_json:
        shares = {"coverage": asdict(coverage) if coverage else None}
        show_json(shares | _as_json(prediction, loaded.policy.min_confidence, certain=certain))
    else:
        click.echo(line)
        _print(prediction, loaded.policy.min_confidence, runs, certain=certain)


def _uid(user: str | None, config: Path | None, history: Path | None) -> int:
    """Return the uid of a user of this machine, or of the cluster the history came from."""
    if user is None:
        return os.getuid()
    if user.isascii() and user.isdigit():
        return min(int(user), NOBODY)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        pass
    uid = _uid_in_history(user, config, history)
    if uid is None:
        click.echo(one_line(f"user {user} is not known: taken for somebody new"), err=True)
        return NOBODY
    return uid


def _uid_in_history(user: str, config: Path | None, history: Path | None) -> int | None:
    if not history_path(config, history).exists():
        return None
    with open_history(config, history, read_only=True) as store:
        return store.uid_of(user)


def _learned_from(
    application: int, config: Path | None, history: Path | None
) -> tuple[str, Coverage | None, list[Run]]:
    """Return the coverage, and the runs behind an entry of the table.

    Users who may not see the history can still ask the bundle.
    """
    from sluice.history_db.errors import HistoryError

    try:
        with open_history(config, history, read_only=True) as store:
            runs = store.runs_behind(application) if application else []
            return coverage_line(store), store.coverage(), runs
    except HistoryError:
        return NO_COVERAGE, None, []


def _as_json(prediction: View, min_confidence: float, *, certain: bool) -> dict[str, Any]:
    profile = prediction.profile.to_dict()
    shares = {name: share for name, share in profile.pop("share").items() if share > 0}
    return {
        "pattern": profile.pop("pattern") if certain else "unknown",
        "confidence": profile.pop("confidence"),
        "abstains": not certain,
        "best_guess": prediction.profile.pattern,
        "min_confidence": min_confidence,
        "evidence": prediction.evidence,
        "class": prediction.klass,
        "application": prediction.application or None,
        "shares": shares,
        **{name: value for name, value in profile.items() if name != "pattern"},
    }


def _print(prediction: View, min_confidence: float, runs: list[Run], *, certain: bool) -> None:
    from sluice.policies import core

    profile = prediction.profile
    if certain:
        click.echo(f"{profile.pattern}: {core.sentence('pattern', profile.pattern)}")
    elif prediction.evidence == "none":
        click.echo("abstains: nothing is known of such a job")
    elif not core.counts(prediction):
        click.echo(
            f"abstains: the best guess would be {profile.pattern}, "
            f"but {core.sentence('reason', 'others_only')}"
        )
    else:
        click.echo(
            f"abstains: the best guess would be {profile.pattern}, but {profile.confidence:.2f} "
            f"is below MinConfidence {min_confidence:.2f}"
        )
    rows = [
        ("confidence", f"{profile.confidence:.2f}"),
        ("evidence", core.sentence("evidence", prediction.evidence)),
        ("runs behind it", profile.runs or NOTHING),
        ("class", f"{prediction.klass}: {core.sentence('class', prediction.klass)}"),
        ("processes", _plain(profile.nprocs)),
        ("chunk", bytes_text(profile.chunk_bytes)),
        ("written", bytes_text(profile.write_bytes)),
        ("rate during I/O", rate_text(profile.rate)),
        ("share of run time", share_text(profile.io_share)),
        ("burst, period", _bursts(profile)),
    ]
    show_table(("", ""), rows)
    for run in runs[:SHOWN_RUNS]:
        click.echo(
            one_line(
                f"  {time_text(run.log.start)} job {run.log.jobid}: {run.profile.pattern} "
                f"({run.profile.confidence:.2f}), {run.log.path}"
            )
        )
    if len(runs) > SHOWN_RUNS:
        click.echo(f"  … and {len(runs) - SHOWN_RUNS} earlier ones")


def _plain(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def _bursts(profile: View) -> str:
    return f"{duration_text(profile.burst_seconds)}, {duration_text(profile.period_seconds)}"
