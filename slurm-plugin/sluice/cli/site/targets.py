"""`sluice site targets`: which storage targets are slow."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from sluice.cli.common import (
    Files,
    coverage_text,
    files_options,
    json_option,
    show_json,
    show_table,
    usage_errors,
)
from sluice.cli.site.calibrate_options import counter_option
from sluice.slurm.views.formatting import NOTHING, rate_text, share_text, time_text

if TYPE_CHECKING:
    from sluice.history_db.store import Store
    from sluice.interference.target_speeds import TargetSpeed


@click.command("targets", short_help="Say which storage targets are slow.")
@click.option(
    "--measure",
    "places",
    multiple=True,
    metavar="NAME=DIR",
    help="First run a probe in this directory, which lies on the lane or target NAME and on no "
    "other; repeatable. A target is compared with others, so name at least two.",
)
@counter_option
@click.option(
    "--program",
    default="aw:1M:2",
    show_default=True,
    help="The probe, as in `sluice site calibrate`: PATTERN:CHUNK:PROCESSES.",
)
@click.option(
    "--rounds",
    default=5,
    show_default=True,
    type=click.IntRange(1),
    help="How often each target is probed; four are the least that say anything.",
)
@click.option("--probe", metavar="FILE", help="sluice-probe, where it is not in PATH.")
@files_options
@json_option
def command(
    *,
    places: tuple[str, ...],
    counters: tuple[str, ...],
    program: str,
    rounds: int,
    probe: str | None,
    files: Files,
    as_json: bool,
) -> None:
    """Say which storage targets are slow.

    Each lane and target is compared with its peers: by probes (--measure), and by the runs of
    applications that are known to have written there and elsewhere (a job that held tokens of
    one lane; a Darshan log that names Lustre's targets). All logs of a job are one observation,
    and none where sluiced saw another job on its lanes, or where logs of others show more than
    10 % of the traffic on its targets. What was seen a day ago counts half, what is older than a
    week nothing. A target is slow when its rate is below two thirds of its peers', at 95 %
    confidence; on less than four fresh observations nothing is said.

    A probe does not count where others had more than 10 % of the traffic. On Lustre, NFS or
    MooseFS nothing counts that without --counter: probe there when it is quiet.

    sluiced tells the plugin of slow lanes, and jobs are kept to the others where that
    pays. Without lanes, or for targets that are no lanes, this is for you to know.

    \b
        sluice site targets
        sluice site targets --measure sl0=/scratch/ost0/probe --measure sl1=/scratch/ost1/probe
        sluice site targets --json | jq '.targets[] | select(.verdict == "slow")'
    """
    from sluice.interference.target_speeds import Lanes, target_speeds

    lanes = Lanes.of(files.settings())
    with files.open_history(create=bool(places), read_only=not places) as store:
        if places:
            _measure(store, places, counters, program, rounds, probe)
        found = target_speeds(store, lanes, int(time.time()))
        coverage = store.jobs.coverage()
    if as_json:
        rows = [asdict(one) | {"published": one.published} for one in found]
        show_json({"coverage": asdict(coverage), "targets": rows})
        return
    click.echo(coverage_text(coverage))
    if found:
        show_table(
            ("Target", "Speed", "Interval", "Worth", "Probes", "Runs", "Latest", "Verdict"),
            [_row(one) for one in found],
        )
    else:
        click.echo("No lanes are configured, and nothing was observed; see --measure.")


def _measure(  # noqa: PLR0917 - as given on the command line
    store: Store,
    places: tuple[str, ...],
    counters: tuple[str, ...],
    program: str,
    rounds: int,
    probe: str | None,
) -> None:
    from sluice.interference.calibrate.protocol import (
        Launcher,
        Timing,
        check,
        find_probe,
        probe_targets,
    )
    from sluice.interference.calibrate.targets import parse_targets, uncounted
    from sluice.interference.programs import CalibrationError, Program

    with usage_errors(CalibrationError):
        asked = Program.parse(program)
        check(asked, tasks=1)
        targets = parse_targets(places, counters)
    for name in uncounted(targets):
        click.echo(f"{name}: nothing counts others' traffic here; see --counter", err=True)
    for seen, dropped in probe_targets(
        targets,
        asked,
        rounds=rounds,
        launcher=Launcher(find_probe(probe)),
        timing=Timing(),
    ):
        if not dropped:
            store.interference.add_target_probes([seen])
        remark = f" (does not count: {dropped})" if dropped else ""
        click.echo(f"{seen.target}: {rate_text(seen.rate)}{remark}", err=True)


def _row(one: TargetSpeed) -> tuple[object, ...]:
    return (
        one.target,
        share_text(one.speed),
        NOTHING if one.low is None else f"{share_text(one.low)} to {share_text(one.high)}",
        f"{one.evidence:.1f}",
        one.probes,
        one.runs,
        time_text(one.latest),
        one.verdict,
    )
