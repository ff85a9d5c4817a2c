"""`sluice status` and `sluice doctor`: is all well, who waits, what did Sluice do today."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    DEFAULT_CONFIG,
    Files,
    config_option,
    files_options,
    json_option,
    show_findings,
    show_json,
    show_table,
)
from sluice.cli.listing import selection_options, since_option
from sluice.slurm.views.formatting import (
    NOTHING,
    UNCONFIRMED,
    amount_text,
    count_text,
    duration_text,
    one_line,
    share_text,
    time_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.slurm.doctor.findings import Site


@click.command()
@config_option
@json_option
@click.option(
    "--preflight",
    "preflight_only",
    is_flag=True,
    help="Only compare the plugin with `slurmctld -V`: before each restart, after each update.",
)
@click.option(
    "--plugin",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The plugin to compare.  [default: the one in PluginDir]",
)
def doctor(
    config: Path | None, plugin: Path | None, *, as_json: bool, preflight_only: bool
) -> None:
    """Check that everything works, and say how to repair it.

    Checks configuration, bundle, snapshot, history, sluiced, sluice-learn and what fails in them,
    slurm.conf, tokens, reservations, and the plugin inside slurmctld, whose own measurements it
    prints. Exit code 0 if nothing fails, else 1. SKIP marks what this user may not see, as
    PrivateData and the modes of files have it, and so cannot judge.

    slurmctld does not start with a plugin that was built for another version of Slurm, not even
    another micro version: --preflight tells before.

    \b
    Examples:
        sluice doctor
        sluice doctor --preflight && systemctl restart slurmctld
        sluice doctor --json | jq '.findings[] | select(.level == "FAIL")'
    """
    from sluice.slurm.doctor.checks import all_findings
    from sluice.slurm.doctor.controller import preflight
    from sluice.slurm.doctor.findings import Site

    with Site(config or DEFAULT_CONFIG, is_named=config is not None) as site:
        is_preflight = preflight_only or plugin
        findings = list(preflight(site, plugin)) if is_preflight else all_findings(site)
    if as_json:
        show_json({"findings": [asdict(finding) for finding in findings]})
    else:
        show_findings(findings)
    sys.exit(any(finding.level == "FAIL" for finding in findings))


Facts = dict[str, Any]


SHOWN = 10
"""Jobs that wait, and findings."""
LEVELS = ("FAIL", "WARN")


@click.command(
    "status", short_help="Say whether all is well, what waits, and what Sluice did today."
)
@selection_options("user", "account")
@since_option("1d", "Count what Sluice did in this time")
@files_options
@json_option
def command(
    *, users: tuple[str, ...], accounts: tuple[str, ...], since: int, files: Files, as_json: bool
) -> None:
    """Say whether all is well, what waits, and what Sluice did today.

    What `sluice doctor` finds wrong; the jobs that wait and want tokens, those that have waited
    for longest first; decisions by action, and releases; bursts that were held in turns, what that
    cost and was expected to save; how far behind learning is, and why: what fails in sluice-learn
    and since when, or that it rests to stay within 1 % of a core; and of each service when it ran
    last, whether that worked, and when it is due; and of each program that sluiced runs since when
    it runs, how often it was started again, and how it ended last.

    \b
    Examples:
        sluice status
        sluice status --user ann --since 7d
        sluice status --json | jq '.is_well, .waiting[].job_id'
    """
    from sluice.history_db.records import Selection
    from sluice.slurm.doctor.checks import all_findings
    from sluice.slurm.doctor.findings import Site
    from sluice.slurm.status import children_of, learning_state, services
    from sluice.slurm.turns import turns_now
    from sluice.slurm.views.query_replies import activity
    from sluice.slurm.visibility import uid_of

    now = int(time.time())
    with files.open_history(read_only=True) as store:
        learning = learning_state(store, files.history, now)
        uids = tuple(uid_of(name, store) for name in users)
        did = activity(store, Selection(uids=uids, accounts=accounts, since=since))
    with Site(files.config or DEFAULT_CONFIG, is_named=files.config is not None) as site:
        wrong = [asdict(one) for one in all_findings(site) if one.level in LEVELS]
        waiting = _waiting(site, now)
    if waiting is not None:
        waiting = [row for row in waiting if _is_wanted(row, uids, accounts)]
    found = learning | {
        "is_well": not wrong,
        "findings": wrong,
        "waiting": waiting,
        "services": services(site.config) if site.config else None,
        "programs": children_of(site.config) if site.config else None,
        "activity": did,
        "turns": turns_now(site.config) if site.config else None,
    }
    if as_json:
        show_json(found)
        return
    _show_findings(wrong)
    _show_waiting(waiting)
    for title, text in (("did", _did(did)), *_turns(found["turns"], did), *_lines(found)):
        _show(title, text)
    _show_services(found["services"] or [], now)
    _show_programs(found["programs"] or [], now)


def _waiting(site: Site, now: int) -> list[Facts] | None:
    """Return who waits; None where Slurm cannot be asked, as the findings say."""
    from sluice.slurm.gates.gate_status import held_for_io
    from sluice.slurm.records import SlurmError

    try:
        return held_for_io(site.queue(), site.config, now) if site.config else None
    except SlurmError:
        return None


def _is_wanted(row: Facts, uids: tuple[int, ...], accounts: tuple[str, ...]) -> bool:
    return (not uids or row["uid"] in uids) and (not accounts or row["account"] in accounts)


def _show(title: str, text: str) -> None:
    click.echo(f"{click.style(f'{title:<13}', bold=True)} {text}")


def _show_findings(wrong: list[Facts]) -> None:
    if not wrong:
        _show("well", "all is well, as far as this user may see")
        return
    _show("problems", f"{count_text(len(wrong), 'problem')} found; `sluice doctor` says what to do")
    for one in sorted(wrong, key=lambda row: LEVELS.index(row["level"]))[:SHOWN]:
        _show("", one_line(f"{one['level']} {one['topic']}: {one['text']}"))


def _show_waiting(waiting: list[Facts] | None) -> None:
    if waiting is None:
        _show("held for I/O", "not known: Slurm cannot be asked")
    elif not waiting:
        _show("held for I/O", "none")
    else:
        _show("held for I/O", f"{count_text(len(waiting), 'job')}; `sluice why JOB` says why")
        show_table(
            ("Job", "Name", "User", "Account", "Tokens", "Waits", "Reason"),
            [
                (
                    row["job_id"],
                    row["name"],
                    row["user"],
                    row["account"] or NOTHING,
                    ",".join(row["tokens"]),
                    duration_text(row["waits"]),
                    row["reason"],
                )
                for row in waiting[:SHOWN]
            ],
            least=("Reason", "Account", "Name"),
        )


def _show_services(found: list[Facts], now: int) -> None:
    show_table(
        ("Service", "What it does", "Ran last", "Works", "Due"),
        [(one["service"], one["does"], _ago(one["ran"], now), *_fares(one, now)) for one in found],
        least=("What it does",),
    )


def _show_programs(found: list[Facts], now: int) -> None:
    rows = []
    for one in found:
        since = "does not run" if one["since"] is None else _ago(one["since"], now)
        ended = f"{one['last_exit']}, {_ago(one['ended'], now)}" if one["ended"] else NOTHING
        rows.append((one["program"], since, str(one["restarts"]), ended))
    if rows:
        show_table(("Program", "Started", "Restarts", "Ended last"), rows, least=("Ended last",))


def _fares(one: Facts, now: int) -> tuple[str, str]:
    works = {None: NOTHING, True: "yes", False: "no"}[one["works"]]
    if not one["is_running"]:
        return works, "does not run"
    if one["due"] is None:
        return works, NOTHING
    ahead = one["due"] - now
    return works, f"in {duration_text(ahead)}" if ahead > 0 else "now"


def _did(did: Facts) -> str:
    actions = ", ".join(f"{count} {action}" for action, count in did["actions"].items())
    or_more = " or more" if did["has_more"] else ""
    released = ", ".join(f"{count} {reason}" for reason, count in did["released"].items())
    return (
        f"since {time_text(did['since'])} {did['decisions']}{or_more} decisions"
        + (f": {actions}" if actions else "")
        + (f"; released: {released}" if released else "; no job released")
    )


def _turns(now: Facts | None, did: Facts) -> Iterator[tuple[str, str]]:
    """Say what sluice-turns holds now, and what it held since the time that is asked about."""
    if now is not None:
        share = "" if now["covered"] is None else f", {share_text(now['covered'])} of bytes covered"
        yield (
            "turns",
            (
                f"{now['mode']}: {now['agents']} agents, {now['active']} bursts now, "
                f"{now['holding']} of them held{share}"
            ),
        )
    for name, was in (("held", "held"), ("in_thought", "would have been held")):
        held = did["turns"][name]
        if held["bursts"]:
            cost = f"{amount_text(held['node_seconds'])} node-seconds"
            yield (
                "",
                (
                    f"{count_text(held['bursts'], 'burst')} {was}: {cost}, where "
                    f"{amount_text(held['saving'])} were expected to be saved; "
                    f"{held['budgets']} used up their budget"
                ),
            )


def _lines(found: Facts) -> Iterator[tuple[str, str]]:
    now = found["now"]
    yield "sluice-learn", _service(found)
    yield "last log", _when(found["last_log"], now, "of a run that ended")
    yield (
        "accounting",
        (
            _when(found["last_accounting"], now, "the last job ended")
            + (
                f"; asked {_ago(found['accounting_asked'], now)}"
                if found["accounting_asked"]
                else ""
            )
        ),
    )
    if found["logs_waiting"]:
        yield "", f"{found['logs_waiting']} logs wait for the accounting of their jobs"
    yield "model", _model(found["model"])
    if found["model"] and (count := found["model"]["unconfirmed"]):
        yield "", f"{count} {UNCONFIRMED}"
    if waiting := found["model_waiting"]:
        yield "", f"model {waiting} waits to be put into use: `sluice model publish {waiting}`"
    yield "published", _when(found["published"], now, "") if found["published"] else "nothing yet"
    yield "backlog", _behind(found)
    for reason in found["reasons"]:
        yield "why", one_line(reason)


def _service(found: Facts) -> str:
    now = found["now"]
    if not found["is_running"]:
        polled = f"; polled last {_ago(found['polled'], now)}" if found["polled"] else ""
        return f"does not run{polled}"
    share = found["core_share"]
    taken = "not measured yet" if share is None else f"{100 * share:.2g} % of a core"
    return f"runs, polled {_ago(found['polled'], now)}, CPU use: {taken}"


def _when(moment: int | None, now: int, what: str) -> str:
    if moment is None:
        return "none yet"
    return f"{what} {time_text(moment)}, {_ago(moment, now)}".strip()


def _ago(moment: int | None, now: int) -> str:
    return "never" if moment is None else f"{duration_text(max(0, now - moment))} ago"


def _model(model: Facts | None) -> str:
    if model is None:
        return "none yet"
    return (
        f"{model['id']}, fitted {time_text(model['fitted'])} to {model['jobs']} jobs; knows those "
        f"that ended until {time_text(model['until'])}"
    )


def _behind(found: Facts) -> str:
    behind = found["behind_seconds"]
    if behind is None:
        return NOTHING
    if behind == 0:
        return "not at all: it knows every run"
    return f"{duration_text(behind)}: {found['unknown_runs']} runs that the model does not know"
