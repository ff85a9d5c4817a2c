"""`sluice model publish`."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
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
    from sluice.history_db.records import Bundle, Model
    from sluice.history_db.store import Store
    from sluice.interference.site_model import Basis


@dataclass(frozen=True, slots=True)
class Published:
    """A bundle, and what its interference model rests on."""

    bundle: Bundle
    basis: Basis


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
    published = publish_model(config, history, bundle, version=version, rollback=rollback)
    if as_json:
        show_json(bundle_json(published))
    else:
        click.echo(bundle_line(published))


def publish_model(
    config: Path | None,
    history: Path | None,
    bundle: Path | None,
    *,
    version: int | None = None,
    rollback: bool = False,
) -> Published:
    """Publish the latest model, the one with this number, or the one in use before."""
    from sluice.interference.production.site import site_evidence
    from sluice.prediction.publish import publish

    settings = read_config(config)
    path = bundle or Path(settings.bundle)
    with open_history(config, history) as store:
        model = _chosen(store, version, rollback=rollback)
        if not path.parent.is_dir():
            raise CommandError(
                f"{path.parent}: no such directory; create it, or name another file with --bundle"
            )
        interference = site_evidence(store).model()
        published = publish(
            store,
            model,
            policy=settings.policy,
            path=path,
            now=int(time.time()),
            interference=interference.interference,
        )
        return Published(published, interference.basis)


def _chosen(store: Store, version: int | None, *, rollback: bool) -> Model:
    if rollback:
        version = store.model_before()
        if version is None:
            raise CommandError(
                f"{store.path}: no other model was published before; `sluice model list` lists them"
            )
    model = store.latest_model() if version is None else store.model(version)
    if model is None and version is None:
        raise CommandError(f"{store.path}: no model yet; run `sluice model train` first")
    if model is None:
        raise CommandError(
            f"{store.path}: no model {version} (any more); `sluice model list` lists them"
        )
    return model


def bundle_line(published: Published) -> str:
    bundle = published.bundle
    return (
        f"published {bundle.path}: model {bundle.model}, {bytes_text(len(bundle.content))}, "
        f"checksum {bundle.checksum:016x}, {time_text(bundle.published_at)}\n"
        f"interference: from {published.basis}"
    )


def bundle_json(published: Published) -> dict[str, object]:
    bundle = published.bundle
    return {
        "path": bundle.path,
        "checksum": f"{bundle.checksum:016x}",
        "model": bundle.model,
        "published_at": bundle.published_at,
        "bytes": len(bundle.content),
        "interference_from": asdict(published.basis),
    }
