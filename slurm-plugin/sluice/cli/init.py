"""`sluice init`: the first configuration of a site, and what else there is to do."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.cli.common import DEFAULT_CONFIG, CommandError, config_option, show_findings

if TYPE_CHECKING:
    from sluice.slurm.doctor.site_discovery import Storage

NEXT = """\
Next:
1. slurm.conf: JobSubmitPlugins=sluice, behind other plugins if there are any (lua,sluice).
2. sluice doctor --preflight && systemctl restart slurmctld
3. systemctl enable --now sluiced
4. sluice history ingest DIRECTORY        the logs of before
5. sluice init --check && sluice doctor\
"""


@click.command("init")
@config_option
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Write the configuration here, or to standard output with -.  [default: --config]",
)
@click.option("--darshan-logs", type=click.Path(path_type=Path), help="Where Darshan's logs lie.")
@click.option(
    "--directory",
    "places",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A storage target: a directory on a device of its own; give two or more.",
)
@click.option(
    "--pools",
    metavar="FSNAME.NAME:OSTS",
    help="Print what makes Lustre's pools of a lane with Place=blocks, and what removes them.",
)
@click.option("--check", "is_check", is_flag=True, help="Compare a configuration with the site.")
def command(
    *,
    config: Path | None,
    output: Path | None,
    darshan_logs: Path | None,
    places: tuple[Path, ...],
    pools: str | None,
    is_check: bool,
) -> None:
    """Write the first configuration of a site, for observe.

    Reads which lanes Lustre (lfs), BeeGFS (beegfs-ctl) or MooseFS (mfsscadmin) have, and where
    Darshan's logs lie. On a terminal it asks for what it cannot read; elsewhere it leaves that
    out. It changes nothing of Slurm and starts nothing: it says what to do. It writes over no
    configuration. --check compares the one that is there with the site; exit code 1 if something
    fails. --pools prints commands for a shell on the MGS; OSTS are the lane's, in the order of
    their numbers there, and NAME is that of pool:NAME in plugstack.conf.

    \b
    Examples:
        sudo sluice init
        sluice init --output -
        sluice init --directory /scratch/ost0 --directory /scratch/ost1 --output -
        sudo sluice init --check
        sluice init --pools scratch.scr:0,4,1,5,2,6,3,7
    """
    path = config or DEFAULT_CONFIG
    if is_check:
        _check(path)
    if pools:
        _show_pools(pools)
        return
    from sluice.slurm.doctor import site_discovery

    target = output or path
    is_shown = str(target) == "-"
    if not is_shown and target.exists():
        raise CommandError(f"{target} exists; `sluice init --check` compares it with the site")
    logs = darshan_logs or site_discovery.darshan_logs() or _asked_for_logs()
    text = site_discovery.settings(logs, _with_rates(_storage(places)))
    if is_shown:
        click.echo(text, nl=False)
        return
    _write(target, text)
    click.echo(f"{target}:\n\n{text}\n{NEXT}")


def _check(path: Path) -> None:
    from sluice.policies import core
    from sluice.slurm.doctor import site_discovery
    from sluice.slurm.doctor.findings import Site

    if not path.exists():
        raise CommandError(f"{path} does not exist; `sluice init` writes it")
    config = core.read_config(path)
    with Site(path, is_named=True) as site:
        findings = list(site_discovery.check(site, config))
    show_findings(findings)
    sys.exit(any(finding.level == "FAIL" for finding in findings))


def _show_pools(told: str) -> None:
    from sluice.slurm.doctor import site_discovery

    try:
        made, removed = site_discovery.pools(told)
    except ValueError as error:
        raise click.UsageError(f"--pools: {error}") from error
    click.echo(
        "\n".join(["# make them:", *made, "", "# remove them:", *(f"#{x}" for x in removed)])
    )


def _asks() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _asked_for_logs() -> Path | None:
    if not _asks():
        return None
    told = click.prompt("Where do Darshan's logs lie? (Enter: none)", default="", err=True)
    return Path(told) if told else None


def _storage(places: tuple[Path, ...]) -> Storage | None:
    from sluice.slurm.doctor import site_discovery

    if places:
        try:
            return site_discovery.directories(places)
        except (OSError, ValueError) as error:
            raise click.UsageError(str(error)) from error
    found = site_discovery.storage()
    if len(found) > 1 and _asks():
        for number, one in enumerate(found, 1):
            click.echo(f"{number}: {one.source}, {len(one.lanes)} lanes", err=True)
        asked = click.IntRange(1, len(found))
        return found[click.prompt("Which do jobs write to?", type=asked, default=1, err=True) - 1]
    return found[0] if found else None


def _with_rates(found: Storage | None) -> Storage | None:
    """Ask what the lanes can write: nothing but a measurement could tell otherwise."""
    if found is None or not _asks():
        return found
    rate = click.prompt(
        "What can each storage target write, as in 2.5G bytes/s? (Enter: not known)",
        default="",
        err=True,
    )
    if not rate:
        return found
    number = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", rate)
    if number is None:
        raise click.UsageError(f"{rate!r} is no rate; say e.g. 500M or 2.5G")
    each = float(number[1])
    lanes = [
        replace(lane, bandwidth=f"{each * lane.targets:.6g}{number[2]}") for lane in found.lanes
    ]
    return replace(found, lanes=tuple(lanes))


def _write(path: Path, text: str) -> None:
    from sluice.policies import core
    from sluice.policies.container import write_atomically

    core.parse_config(str(path), text.encode())
    write_atomically(path, text.encode(), mode=0o644)
