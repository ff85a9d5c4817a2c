"""All that `sluice doctor` checks, in the order in which the checks need each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.cli import own_checks, slurm_checks, token_checks, trouble_checks
from sluice.cli.findings import Finding, Site

if TYPE_CHECKING:
    from pathlib import Path

CHECKS = (
    slurm_checks.slurm,  # before those that ask whose files slurmctld believes
    own_checks.configuration,
    own_checks.switch,
    slurm_checks.preflight,
    slurm_checks.plugin,
    slurm_checks.library,
    own_checks.bundle,
    own_checks.daemon,
    trouble_checks.troubles,
    trouble_checks.learning,
    own_checks.snapshot,
    own_checks.history,
    own_checks.files,
    slurm_checks.tokens,
    slurm_checks.speed,
    slurm_checks.gates,
    token_checks.reservations,
    token_checks.strangers,
    slurm_checks.preemption,
    slurm_checks.scheduling,
)


def all_findings(config: Path | None) -> list[Finding]:
    site = Site(config)
    return [finding for check in CHECKS for finding in check(site)]


def preflight(config: Path | None, plugin: Path | None) -> list[Finding]:
    """Compare the plugin with the slurmctld that shall load it."""
    return list(slurm_checks.preflight(Site(config), plugin))
