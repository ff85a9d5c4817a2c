"""`sluice report`: what Sluice did or would have done, and whether to go one step up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    Files,
    answer,
    files_options,
    json_option,
    show_json,
    show_table,
    usage_errors,
)
from sluice.cli.listing import progress, since_option
from sluice.cli.site import replay_words
from sluice.cli.site.levers import NOT_ASKED, levers_json, replayed_levers
from sluice.cli.site.replay_options import written

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sluice.cli.report_words import Section
    from sluice.history_db.store import Store
    from sluice.policies.core import Config, View
    from sluice.sim.replay.levers import Levers

Facts = dict[str, Any]

EXIT_CODES = {"stay": 0, "up": 3, "too_little": 4, "down": 5}
"""By the advice of a verdict."""
PAGE_TITLE = "Sluice: what it did, or would have done"


@click.command(short_help="Say what Sluice would have done, and whether to go one step up.")
@since_option("30d", "Of this time")
@written("--html", endings=(".html",), metavar="FILE.html", text="Also write a page with pictures.")
@click.option(
    "--bandwidth",
    metavar="RATE",
    help="Bytes a second that the file system writes, as in `sluice site assess`.",
)
@click.option(
    "--draws",
    type=click.IntRange(0, 199),
    default=5,
    show_default=True,
    help="More draws of each replay, for intervals, as in `sluice site assess`.",
)
@click.option("--no-levers", is_flag=True, help="Leave the replays of the last jobs out.")
@files_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    *,
    since: int,
    html: Path | None,
    bandwidth: str | None,
    draws: int,
    no_levers: bool,
    files: Files,
    as_json: bool,
) -> None:
    """Say what Sluice would have done, and whether to go one step up.

    From the decisions of live jobs: which jobs Sluice would have delayed, by how much and for
    which others; what that saves; which users would be worst off; and how often it was right,
    where that could be checked once jobs had ended. In enforce with Holdout=, jobs that were
    acted on are compared with those that a random draw left alone.

    The verdict is to stay, or to go one step up (observe, advise, enforce) or down, with the
    reasons. It says up only where a lever pays in replays of the last jobs, as in `sluice site
    assess`. The history keeps what the last reports said, for the pages of `sluice serve`.
    Exit codes: 0 stay, 3 one step up, 4 too little evidence, 5 one step down; 1 and 2 are
    errors, as everywhere.

    Without read access to the history you see only the jobs that PrivateData permits, and no
    verdict.

    \b
    Examples:
        sluice report | mail -s 'Sluice, last month' root
        sluice report --since 7d --html report.html
        sluice report --json | jq .verdict
    """
    from sluice.cli.report_words import sections
    from sluice.interference.cost import one_lane
    from sluice.policies.core import CoreError

    with usage_errors(CoreError):
        storage = one_lane(bandwidth) if bandwidth is not None else None
    settings = files.settings()
    facts = answer(
        files,
        lambda store: _gathered(store, settings, since, storage),
        "report",
        since=since,
    )
    levers: Levers | str | None = None
    if "stake" in facts:
        if no_levers:
            levers = NOT_ASKED
        elif facts["stake"] and facts["stake"]["is_anything_at_stake"]:
            levers = _levers(facts, settings, files, draws)
        facts |= levers_json(levers)
        facts |= _advised(facts)
    told = list(sections(facts, levers))
    _show(facts, told, html, as_json=as_json)
    if "verdict" in facts:
        _keep(files, facts, told)
    ctx.exit(EXIT_CODES[facts["verdict"]["advice"]] if "verdict" in facts else 0)


def _gathered(store: Store, settings: Config, since: int, storage: View | None) -> Facts:
    from sluice.sim.replay.levers import measured_laws
    from sluice.slurm.views.report import gather
    from sluice.slurm.visibility import OWNER

    now = int(time.time())
    with progress(
        "decisions", lambda: store.decisions.count_decisions(since=since, until=now).all
    ) as (
        _,
        advance,
    ):
        facts = gather(
            store, OWNER, settings, since=since, now=now, storage=storage, advance=advance
        )
    return {**facts, "laws": measured_laws(store)}


def _levers(facts: Facts, settings: Config, files: Files, draws: int) -> Levers | str:
    return replayed_levers(
        files,
        settings,
        bandwidth=facts["stake"]["bandwidth"],
        bandwidth_from=facts["stake"]["bandwidth_from"],
        laws=facts["laws"],
        draws=draws,
    )


def _advised(facts: Facts) -> Facts:
    """Return the advice of `sluice site assess`, and the verdict that follows from it."""
    from sluice.slurm.views.recommendation import lever_advice, verdict

    return {"advice": lever_advice(facts).as_json(), "verdict": verdict(facts).as_json()}


def _show(facts: Facts, told: Sequence[Section], html: Path | None, *, as_json: bool) -> None:
    if html is not None:
        from sluice.cli.plots import report_pictures
        from sluice.serve.files import file_page
        from sluice.serve.model import report_story

        parts = report_story(_plain(told), report_pictures(facts))
        replay_words.write(html, file_page(PAGE_TITLE, parts))
    if as_json:
        show_json(facts)
        return
    for section in told:
        click.echo(click.style(section.heading, bold=True))
        for sentence in section.sentences:
            click.echo(f"  {sentence}")
        for table in section.tables:
            click.echo(f"\n  {table.caption}:")
            show_table(table.titles, table.rows)
        click.echo()


def _plain(told: Sequence[Section]) -> list[Facts]:
    return [{**one._asdict(), "tables": [table._asdict() for table in one.tables]} for one in told]


def _keep(files: Files, facts: Facts, told: Sequence[Section]) -> None:
    """Let the pages show the report; a user that only reads the history stores none."""
    from sluice.cli.report_words import advice_text
    from sluice.history_db.errors import HistoryError, ReadOnlyHistoryError
    from sluice.history_db.records import StoredReport
    from sluice.history_db.store import Store

    verdict = advice_text(facts["verdict"])
    try:
        with Store(files.history) as store:
            store.administration.add_report(
                StoredReport(facts["until"], facts["since"], verdict, _plain(told), dict(facts))
            )
    except ReadOnlyHistoryError:
        return
    except HistoryError as error:
        click.echo(f"the pages will not show this report: {error}", err=True)
