"""`sluice off` and `sluice on`: the kill switch is a file."""

from __future__ import annotations

from pathlib import Path

import click

from sluice.cli.common import CommandError, config_option, one_line, read_config


@click.command()
@config_option
@click.option("--reason", default="", help="Kept in the file, for whoever wonders later.")
def off(config: Path | None, reason: str) -> None:
    """Switch Sluice off at once.

    Creates the OffFile of the configuration. The plugin looks for it every PollInterval: within
    a second no job is looked at any more. Nothing is restarted, jobs go on as they are, and
    the switch survives restarts of slurmctld and sluiced until `sluice on`.

    \b
    Examples:
        sluice off
        sluice off --reason "maintenance of the file system"
    """
    settings = read_config(config)
    path = Path(settings.off_file)
    if path.exists():
        click.echo(f"Sluice is off already: {path} exists.")
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
