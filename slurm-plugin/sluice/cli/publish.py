"""`sluice publish`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.cli.common import (
    CommandError,
    bytes_text,
    config_option,
    history_option,
    json_option,
    open_history,
    read_config,
    show_json,
    time_text,
)

if TYPE_CHECKING:
    from sluice.history_db.records import Bundle


@click.command("publish", short_help="Write the bundle that slurmctld loads.")
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write it.  [default: Bundle of the configuration]",
)
@config_option
@history_option
@json_option
def command(
    *, bundle: Path | None, config: Path | None, history: Path | None, as_json: bool
) -> None:
    """Write the bundle that slurmctld loads.

    It holds the model that `sluice train` learned last and the settings by which Sluice decides
    (MinConfidence, Lane, …). The file is replaced as a whole; the plugin takes it up by itself
    within PollInterval. Run it as root or SlurmUser: the plugin believes nobody else's file.

    \b
        sluice publish
        sluice publish --bundle /tmp/try.bundle && sluice bundle show /tmp/try.bundle
    """
    published = publish_latest(config, history, bundle)
    if as_json:
        show_json(bundle_json(published))
    else:
        click.echo(bundle_line(published))


def publish_latest(config: Path | None, history: Path | None, bundle: Path | None) -> Bundle:
    from sluice.classifier.publish import publish

    settings = read_config(config)
    path = bundle or Path(settings.bundle)
    with open_history(config, history) as store:
        model = store.latest_model()
        if model is None:
            raise CommandError(f"{store.path}: no model yet; run `sluice train` first")
        if not path.parent.is_dir():
            raise CommandError(
                f"{path.parent}: no such directory; create it, or name another file with --bundle"
            )
        return publish(store, model, policy=settings.policy, path=path, now=int(time.time()))


def bundle_line(bundle: Bundle) -> str:
    return (
        f"published {bundle.path}: model {bundle.model}, {bytes_text(len(bundle.content))}, "
        f"checksum {bundle.checksum:016x}, {time_text(bundle.published_at)}"
    )


def bundle_json(bundle: Bundle) -> dict[str, object]:
    return {
        "path": bundle.path,
        "checksum": f"{bundle.checksum:016x}",
        "model": bundle.model,
        "published_at": bundle.published_at,
        "bytes": len(bundle.content),
    }
