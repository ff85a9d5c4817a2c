"""What was published, in words and for programs: of `model publish` and `model train --publish`."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.cli.common import bytes_text, open_history, read_config, time_text

if TYPE_CHECKING:
    from sluice.slurm.publishing import Published


def published(
    config: Path | None,
    history: Path | None,
    bundle: Path | None,
    *,
    version: int | None = None,
    rollback: bool = False,
) -> Published:
    """Publish where the configuration says, or into another file."""
    from sluice.slurm.publishing import publish_model

    settings = read_config(config)
    with open_history(config, history) as store:
        return publish_model(
            store,
            bundle or Path(settings.bundle),
            policy=settings.policy,
            now=int(time.time()),
            version=version,
            rollback=rollback,
        )


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
