"""What `sluice doctor` finds, and what its checks know of the site."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.policies.core import Config
    from sluice.slurm.records import Controller


@dataclass(frozen=True, slots=True)
class Finding:
    level: str
    """OK, WARN, FAIL, or SKIP: this user may not see what it takes to judge."""
    topic: str
    text: str
    remedy: str = ""


@dataclass(slots=True)
class Site:
    """What the checks know; the first ones fill it for the others."""

    config_path: Path | None
    config: Config | None = None
    controller: Controller | None = None
    stats: dict[str, Any] = field(default_factory=dict)
    sluiced_runs: bool = False

    @property
    def is_service(self) -> bool:
        """Whether this user may ask the plugin and change Sluice's files."""
        return os.geteuid() in {0, self.slurm_uid}

    @property
    def slurm_uid(self) -> int:
        """Whose files slurmctld believes, besides root's."""
        return self.controller.slurm_uid if self.controller else os.geteuid()


def skipped(topic: str, text: str) -> Finding:
    return Finding("SKIP", topic, text, "run this as root, as SlurmUser, or in the service group")
