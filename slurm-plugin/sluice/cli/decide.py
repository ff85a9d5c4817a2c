"""`sluice lab decide`: a trace of submissions through the decision core."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import click

from sluice.cli.common import config_option, read_config

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("trace", type=click.File(encoding="utf-8"))
@click.option("--bundle", type=FILE, help="The model.  [default: Bundle of the configuration]")
@click.option("--snapshot", type=FILE, help="Who runs meanwhile; without one nobody knows.")
@click.option(
    "-o",
    "--output",
    type=click.File("w", encoding="utf-8", lazy=True),
    default="-",
    help="Where to write the decisions.  [default: standard output]",
)
@config_option
def command(
    trace: TextIO,
    bundle: Path | None,
    snapshot: Path | None,
    output: TextIO,
    config: Path | None,
) -> None:
    """Replay a trace of submissions through the decision core.

    TRACE has one JSON object a line (- for standard input): `time` in UTC seconds and what the
    user asked Slurm for, by the members of struct sluice_request (policies/core/request.h).
    Each is decided on at its own time, exactly as slurmctld would have done with these files:
    the same C code, the same bits. One JSON decision a line is written.

    \b
    Examples:
        sluice lab decide trace.jsonl --bundle model.bundle --snapshot cluster.snapshot -o out.jsonl
        echo '{"time": 1800000000, "uid": 1000, "name": "lammps", "nodes": 4}' |
            sluice lab decide - --bundle model.bundle | jq .decision.reason
    """
    from sluice.policies.bundle import Bundle
    from sluice.policies.snapshot import Snapshot
    from sluice.sim.replay.decisions import decision_line, replay_trace
    from sluice.sim.trace.submissions import read_trace

    settings = read_config(config)
    records = replay_trace(
        read_trace(trace.name, trace),
        bundle=Bundle.read(bundle or Path(settings.bundle)),
        snapshot=Snapshot.parse(snapshot.read_bytes()) if snapshot else None,
        config=settings,
    )
    for record in records:
        click.echo(decision_line(record), file=output)
