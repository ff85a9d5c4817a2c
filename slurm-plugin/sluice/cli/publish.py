"""`sluice model publish`."""

from __future__ import annotations

from pathlib import Path

import click

from sluice.cli.common import config_option, history_option, json_option, show_json
from sluice.cli.published import bundle_json, bundle_line, published


@click.command("publish", short_help="Write the bundle that slurmctld loads.")
@click.argument("version", type=click.IntRange(1), required=False, metavar="[MODEL]")
@click.option(
    "--rollback", is_flag=True, help="Publish the model that was in use before the one now."
)
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write it.  [default: Bundle of the configuration]",
)
@config_option
@history_option
@json_option
def command(
    version: int | None,
    bundle: Path | None,
    config: Path | None,
    history: Path | None,
    *,
    rollback: bool,
    as_json: bool,
) -> None:
    """Write the bundle that slurmctld loads.

    It holds the model that `sluice model train` learned last, or the one with this number (see
    `sluice model list`), how programs disturb each other (measured by `sluice site calibrate`,
    seen by `sluice site attribute`, else published figures; which of these is said), and the
    settings by which Sluice decides (MinConfidence, Lane, …). The file is replaced as a whole; the
    plugin takes it up by itself within PollInterval. Run it as root or SlurmUser: the plugin
    believes nobody else's file.

    \b
        sluice model publish
        sluice model publish 7
        sluice model publish --rollback
        sluice model publish --bundle /tmp/try.bundle && sluice model bundle show /tmp/try.bundle
    """
    if rollback and version is not None:
        raise click.UsageError("Name a model or say --rollback, not both.")
    made = published(config, history, bundle, version=version, rollback=rollback)
    if as_json:
        show_json(bundle_json(made))
    else:
        click.echo(bundle_line(made))
