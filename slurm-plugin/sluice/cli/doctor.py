"""`sluice doctor`: whether everything is well."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from sluice.cli.common import DEFAULT_CONFIG, config_option, json_option, show_json

COLOURS = {"OK": "green", "WARN": "yellow", "FAIL": "red", "SKIP": "cyan"}


@click.command()
@config_option
@json_option
@click.option(
    "--preflight",
    "preflight_only",
    is_flag=True,
    help="Only compare the plugin with `slurmctld -V`: before each restart, after each update.",
)
@click.option(
    "--plugin",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The plugin to compare.  [default: the one in PluginDir]",
)
def command(
    config: Path | None, plugin: Path | None, *, as_json: bool, preflight_only: bool
) -> None:
    """Check that everything works, and say how to repair it.

    Checks configuration, bundle, snapshot, history, sluiced, sluice-learn and what fails in them,
    slurm.conf, tokens, reservations, and the plugin inside slurmctld, whose own measurements it
    prints. Exit code 0 if nothing fails, else 1. SKIP marks what this user may not see, as
    PrivateData and the modes of files have it, and so cannot judge.

    slurmctld does not start with a plugin that was built for another version of Slurm, not even
    another micro version: --preflight tells before.

    \b
    Examples:
        sluice doctor
        sluice doctor --preflight && systemctl restart slurmctld
        sluice doctor --json | jq '.findings[] | select(.level == "FAIL")'
    """
    from sluice.slurm.doctor.checks import all_findings
    from sluice.slurm.doctor.controller import preflight
    from sluice.slurm.doctor.findings import Site

    with Site(config or DEFAULT_CONFIG, is_named=config is not None) as site:
        is_preflight = preflight_only or plugin
        findings = list(preflight(site, plugin)) if is_preflight else all_findings(site)
    if as_json:
        show_json({"findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            level = click.style(f"{finding.level:4}", fg=COLOURS[finding.level], bold=True)
            click.echo(f"{level}  {finding.topic}: {finding.text}")
            if finding.remedy and finding.level != "OK":
                click.echo(f"      → {finding.remedy}")
    sys.exit(any(finding.level == "FAIL" for finding in findings))
