"""What Slurm fills in where a user gives nothing, asked now and then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sluice.slurm import slurm_commands

if TYPE_CHECKING:
    from sluice.slurm.records import Controller, Partition, UserDefaults

INTERVAL = 60.0  # seconds
BY_PARTITION = "preempt/partition_prio"
BY_QOS = "preempt/qos"


class Settings:
    """The controller's settings, its partitions and its users' defaults."""

    def __init__(self) -> None:
        self.controller: Controller | None = None
        self.partitions: list[Partition] = []
        self.users: list[UserDefaults] = []
        self.preempting_qos: list[str] = []
        """Names of the QoS whose jobs may preempt those of others."""
        self._due = 0.0

    def refresh(self) -> Controller:
        """Ask Slurm again when the last answers are old; return the controller's settings."""
        if self.controller is None or time.monotonic() >= self._due:
            controller = slurm_commands.controller()
            self.partitions = slurm_commands.partitions()
            self.users = slurm_commands.user_defaults(controller.cluster)
            self.preempting_qos = (
                slurm_commands.preempting_qos() if controller.preempt_type == BY_QOS else []
            )
            self.controller = controller
            self._due = time.monotonic() + INTERVAL
        return self.controller


def preempting(settings: Settings) -> set[str]:
    """Names of the partitions whose jobs may preempt those of others, by slurm.conf(5)."""
    if settings.controller is None or settings.controller.preempt_type != BY_PARTITION:
        return set()
    return {
        partition.name
        for partition in settings.partitions
        if any(
            other.tier < partition.tier and other.preempt_mode != "OFF"
            for other in settings.partitions
        )
    }
