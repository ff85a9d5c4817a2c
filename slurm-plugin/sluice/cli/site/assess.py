"""`sluice site assess`."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from sluice.cli.common import (
    CommandError,
    Files,
    coverage_text,
    files_options,
    grounds_line,
    json_option,
    show_json,
    show_pairs,
    show_parties,
    show_table,
    usage_errors,
)
from sluice.cli.listing import progress, working
from sluice.cli.site.levers import (
    LEVERS,
    NOT_ASKED,
    lever_rows,
    levers_json,
    levers_sentence,
    placement_sentences,
    replayed_levers,
)
from sluice.slurm.views.formatting import (
    NOTHING,
    amount_text,
    count_text,
    share_text,
    times_text,
)

if TYPE_CHECKING:
    from sluice.interference.assess import Assessment, ByLaw, Scale, Sources
    from sluice.interference.busy_runs import Comparison
    from sluice.interference.cost import Grounds
    from sluice.slurm.views.recommendation import LeverAdvice

SHOWN = 10  # applications


@click.command("assess", short_help="Say what interference costs this site, from its history.")
@click.option(
    "--bandwidth",
    metavar="RATE",
    help="Bytes a second that the file system writes, e.g. 200G.  [default: that of the lanes in "
    "the configuration, else the fastest run of the history]",
)
@click.option(
    "--draws",
    type=click.IntRange(0, 199),
    default=5,
    show_default=True,
    help="Replay each lever in so many more draws of what is not known of the storage, for "
    "intervals; 19 make them 90 %. 0: one replay, no interval.",
)
@click.option("--no-levers", is_flag=True, help="Leave the replays out.")
@files_options
@json_option
def command(
    *, bandwidth: str | None, draws: int, no_levers: bool, files: Files, as_json: bool
) -> None:
    """Say what interference costs this site, from its history.

    The report to read before anything is switched on: what finished jobs lost to each other on
    shared storage, which is the most that any policy could recover; the programs that cause
    it and suffer from it, and the load from which it matters. Needs no plugin, only logs and
    accounting. Where nothing is at stake, it says so.

    Names the share of node-hours in jobs with at least 2 % of I/O, reads and writes, and where
    that lies among the replayed shares of I/O-heavy jobs. Three sources say what was lost: the
    interference model; runs alongside which the servers counted much or little; and run times of
    a program while others moved much or little, which needs no model.

    Of more than 50,000 logs the newest are read, and named with their time; of more than 5,000
    jobs that matter, the losses of so many are computed, and stand for all.

    Where something is at stake, the last 10,000 jobs are replayed under each lever: turns, delays,
    lanes, a plain cap on I/O-heavy jobs, and placement of new files on single targets, for which
    the number of targets has to be known. Where placement has nothing to gain, it says why. A
    lever pays where it saves more than its waits cost
    (WaitPrice), in every draw, under each service discipline that the servers may have; a
    calibration tells which one they have.

    \b
        sluice history ingest /var/log/darshan
        sacct -aPS now-30days -o ALL --delimiter="|$(cat /proc/sys/kernel/random/uuid)|" |
            sluice history ingest --sacct -
        sluice site assess --bandwidth 200G
    """
    from sluice.interference.assess import assess_site
    from sluice.interference.cost import grounds_of, one_lane
    from sluice.policies.core import CoreError
    from sluice.sim.replay.levers import Levers, measured_laws
    from sluice.slurm.views.recommendation import lever_advice

    with usage_errors(CoreError):
        storage = one_lane(bandwidth) if bandwidth is not None else None
    settings = files.settings()
    with files.open_history(read_only=True) as store:
        with working("reading the history"):
            grounds = grounds_of(store, settings, storage=storage)
        if not grounds.jobs:
            raise CommandError(
                "The history holds no Darshan log, and accounting does not tell when jobs write; "
                "read logs with `sluice history ingest PATH…` first."
            )
        coverage, laws = store.jobs.coverage(), measured_laws(store)
        with progress("instants", lambda: grounds.instants) as (_, advance):
            found = assess_site(store, grounds, advance)
    levers: Levers | str | None = None
    if no_levers:
        levers = NOT_ASKED
    elif found.is_anything_at_stake:
        levers = replayed_levers(
            files,
            settings,
            bandwidth=grounds.bandwidth,
            bandwidth_from=grounds.bandwidth_from,
            laws=laws,
            draws=draws,
        )
    stake, told = found.as_json(), {"coverage": asdict(coverage), **levers_json(levers)}
    advice = lever_advice({**told, "stake": stake})
    if as_json:
        show_json({**told, **grounds.as_json(), **stake, "advice": advice.as_json()})
        return
    click.echo(coverage_text(coverage))
    _print(found, grounds, advice)
    if isinstance(levers, Levers):
        click.echo(f"\n{levers_sentence(levers)}")
    click.echo()
    for sentence in placement_sentences(levers):
        click.echo(sentence)
    if isinstance(levers, Levers):
        click.echo()
        show_table(LEVERS, lever_rows(levers))


def _print(found: Assessment, grounds: Grounds, advice: LeverAdvice) -> None:
    click.echo(
        f"{found.jobs} finished jobs with a known profile, {amount_text(found.node_hours)} "
        f"node-hours; {found.heavy} of them matter to storage, "
        f"{amount_text(found.heavy_node_hours)} node-hours."
    )
    click.echo(
        f"They ran between {_day(grounds.since)} and {_day(grounds.until)}."
        + (f" {found.drawn} of them, drawn, stand for all." if found.drawn < found.heavy else "")
    )
    click.echo(f"{grounds_line(grounds)}\n")
    _print_scale(found)
    click.echo(_at_stake(found))
    click.echo(f"{advice.text[0].upper()}{advice.text[1:]}.")
    if found.lost_computing > 0:
        click.echo(
            f"Apart from that, {amount_text(found.lost_computing)} node-hours were lost by "
            "computing longer while more jobs ran: processors or memory that they share, which "
            "storage has no part in."
        )
    if not found.is_anything_at_stake:
        return
    click.echo(
        "Slowdown of the jobs that matter: "
        + ", ".join(f"{name} {times_text(one)}" for name, one in found.slowdowns.items())
        + "."
    )
    click.echo(_from_which_load(found))
    click.echo()
    show_parties(found.parties[:SHOWN])
    click.echo()
    show_pairs(found.worst_pairs)
    click.echo()
    floor = 0.0
    rows = []
    for one in found.loads:
        limit = "more" if one.load == float("inf") else share_text(one.load)
        share = one.lost / one.node_hours if one.node_hours else None
        rows.append(
            (f"{share_text(floor)} to {limit}", amount_text(one.node_hours), share_text(share))
        )
        floor = one.load
    show_table(("load of storage", "node-hours with I/O", "lost"), rows)


def _print_scale(found: Assessment) -> None:
    """Say where the site stands, and what each source makes of its loss."""
    if scale := found.scale:
        reads = "" if scale.read_share is None else f"; reads are {_percent(scale.read_share)} of"
        low, high = (bound / found.node_hours for bound in found.interval)
        click.echo(
            f"Your site: {_percent(scale.node_hours_share)} of node-hours in jobs with at least "
            f"{_percent(scale.least_io)} of I/O{reads and f'{reads} the bytes'}; "
            f"{_percent(found.lost / found.node_hours)} of node-hours lost, "
            f"{_percent(low)} to {_percent(high)}."
        )
        click.echo(_on_scale(scale))
    show_table(("source", "node-hours lost", "90 % between", "from"), _source_rows(found.sources))
    if found.sources.agree is not None:
        click.echo("The sources agree." if found.sources.agree else "The sources do not agree.")
    click.echo()


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if abs(share) >= 0.1 else f"{100 * share:.2g}%"


def _on_scale(scale: Scale) -> str:
    from sluice.interference.assess import HEAVY_SHARES

    *most, last = map(_percent, HEAVY_SHARES)
    bounds = [_percent(one) for one in (scale.at_least, scale.below) if one is not None]
    where = " and ".join(bounds)
    if scale.at_least is None:
        where = f"below {where}"
    elif scale.below is None:
        where = f"above {where}"
    else:
        where = f"between {where}"
    return f"On the scale of replays, with heavy shares of {', '.join(most)} and {last}: {where}."


def _source_rows(sources: Sources) -> list[tuple[str, ...]]:
    law = sources.law
    rows = [
        _no_data("the law", "no job matters to storage")
        if law is None
        else _source_row("the law", law, count_text(law.jobs, "job") + " that matter to storage")
    ]
    for name, compared, counted in (
        ("servers' counts", sources.server_counts, "that the servers counted "),
        ("quiet and busy runs", sources.run_times, ""),
    ):
        if compared is None:
            rows.append(_no_data(name, f"no program {counted}ran at quiet and busy times"))
        else:
            runs = f"{compared.quiet} quiet runs and {compared.busy} busy ones"
            what = f"{runs} of {count_text(compared.programs, 'program')}, each in one month"
            rows.append(_source_row(name, compared, what))
    return rows


def _no_data(name: str, why: str) -> tuple[str, ...]:
    return name, NOTHING, NOTHING, f"no data: {why}"


def _source_row(name: str, source: ByLaw | Comparison, what: str) -> tuple[str, ...]:
    low, high = map(_percent, source.interval)
    return name, _percent(source.lost_share), f"{low} and {high}", what


def _day(seconds: int | None) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _from_which_load(found: Assessment) -> str:
    from sluice.interference.assess import MATTERS

    worth = f"I/O jobs lose over {share_text(MATTERS)} of their node-hours"
    if found.matters_from is None:
        return f"At no load {worth}."
    if found.matters_from == 0.0:
        return f"At every load {worth}."
    return f"Above {share_text(found.matters_from)} storage load, {worth}."


def _at_stake(found: Assessment) -> str:
    low, high = found.interval
    if not found.is_anything_at_stake:
        return f"At most {amount_text(high)} node-hours were lost to interference."
    return (
        f"At stake: {amount_text(found.lost)} node-hours ({amount_text(low)} to "
        f"{amount_text(high)}), {found.lost / found.node_hours:.1%} of all. That is what the runs "
        "lost to each other, and the most that any policy could recover if keeping them apart "
        "cost nothing."
    )
