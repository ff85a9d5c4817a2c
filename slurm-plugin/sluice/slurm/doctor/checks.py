"""All checks, in the order in which they need each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.slurm.doctor import controller, own, tokens, troubles

if TYPE_CHECKING:
    from sluice.slurm.doctor.findings import Finding, Site

CHECKS = (
    controller.slurm,  # before those that ask whose files slurmctld believes
    own.configuration,
    own.switch,
    controller.preflight,
    controller.plugin,
    controller.library,
    own.bundle,
    own.daemon,
    troubles.troubles,
    troubles.learning,
    own.snapshot,
    own.history,
    own.files,
    controller.tokens,
    controller.speed,
    controller.gates,
    tokens.reservations,
    tokens.strangers,
    controller.preemption,
    controller.scheduling,
)


def all_findings(site: Site) -> list[Finding]:
    return [finding for check in CHECKS for finding in check(site)]
