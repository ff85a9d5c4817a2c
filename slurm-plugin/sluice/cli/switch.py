"""`sluice off` and `sluice on`: the kill switch is a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.cli.common import CommandError, config_option, one_line, read_config, sluiced_runs

if TYPE_CHECKING:
    from sluice.policies.core import Config


@click.command()
@config_option
@click.option("--reason", default="", help="Kept in the file, for whoever wonders later.")
def off(config: Path | None, reason: str) -> None:
    """Switch Sluice off at once.

    Creates the OffFile of the configuration. The plugin looks for it every PollInterval: within
    a second no job is looked at any more. In enforce it also deletes the leases, so that all
    gates are open: jobs that wait for a token start at Slurm's next pass. Then their tokens are
    taken off, by sluiced or, where that is dead, by this command. Nothing is restarted, running
    jobs go on as they are, and the switch survives restarts of slurmctld and sluiced until
    `sluice on`. To create the file by hand does the same, if sluiced lives.

    \b
    Examples:
        sluice off
        sluice off --reason "maintenance of the file system"
    """
    settings = read_config(config)
    path = Path(settings.off_file)
    if path.exists():
        click.echo(f"Sluice is off already: {path} exists.")
        _open_gates(settings)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(one_line(reason) + "\n" if reason else "")
    except OSError as error:
        raise CommandError(
            f"{path}: {error.strerror}; run this as root or as the user of sluiced"
        ) from error
    click.echo(
        f"Sluice is off: {path} exists.\n"
        f"slurmctld notices within {settings.poll_ms / 1000:g} s and leaves all jobs alone from "
        "then on. `sluice on` reverts it."
    )
    _open_gates(settings)


def _open_gates(settings: Config) -> None:
    """Delete the leases and take tokens off, as far as sluiced may not be there to do it."""
    if settings.mode != "enforce":
        return
    from sluice.slurm.errors import SlurmError
    from sluice.slurm.gatekeeper import delete_leases, release_all
    from sluice.slurm.overview import policy_in_use

    try:
        delete_leases()
    except SlurmError as error:
        raise CommandError(
            f"the leases could not be deleted: {error}. They run out by themselves within "
            f"{2 * settings.lease_seconds} s; repeat `sluice off` to be quicker"
        ) from error
    click.echo("All gates are open: there is no lease any more.")
    try:
        is_tidied_by_daemon = sluiced_runs(settings)
    except FileNotFoundError:
        is_tidied_by_daemon = False
    if not is_tidied_by_daemon:
        released = release_all(policy_in_use(settings))
        click.echo(f"sluiced is not running; tokens taken off {released} waiting jobs.")


@click.command()
@config_option
def on(config: Path | None) -> None:
    """Switch Sluice on again.

    Removes the OffFile; the plugin goes on in the Mode of the configuration within PollInterval.

    \b
    Example:
        sluice on
    """
    settings = read_config(config)
    path = Path(settings.off_file)
    try:
        path.unlink()
    except FileNotFoundError:
        click.echo(f"Sluice was not off: there is no {path}.")
    except OSError as error:
        raise CommandError(
            f"{path}: {error.strerror}; run this as root or as the user of sluiced"
        ) from error
    else:
        click.echo(f"Sluice is on: {path} is gone. Mode is {settings.mode}.")
