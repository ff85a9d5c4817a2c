"""`sluice config`: the settings of the site."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from sluice.cli.common import (
    DEFAULT_CONFIG,
    config_option,
    json_option,
    read_config,
    show_facts,
    show_json,
    show_table,
)

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.policies.core import Config


@click.group()
def command() -> None:
    """Show, check and explain the settings.

    One file, sluice.conf, is read by plugin, daemon and commands alike.

    \b
    Examples:
        sluice config check
        sluice config show
        sluice config explain MinConfidence
    """


@command.command()
@config_option
@json_option
def show(config: Path | None, *, as_json: bool) -> None:
    """Print every setting in force.

    \b
    Examples:
        sluice config show
        sluice config show --json | jq .Mode
    """
    from sluice.policies.core import setting_texts

    settings = read_config(config)
    if as_json:
        show_json(_settings(settings))
        return
    show_table(("Key", "Value"), list(setting_texts(settings).items()))


@command.command()
@config_option
def check(config: Path | None) -> None:
    """Say whether the plugin takes a configuration, or which line is wrong.

    The file must belong to root or SlurmUser, and no other user may write it. Where neither
    slurmctld nor slurm.conf names SlurmUser, you stand in for that user.

    \b
    Examples:
        sluice config check
        sudo install -m 644 new.conf /etc/slurm/sluice.conf && sluice config check
    """
    from sluice.interference.target_speeds import Lanes
    from sluice.policies.core import check_trust, furthest_mode

    settings = read_config(config)
    Lanes.of(settings)
    path = config or DEFAULT_CONFIG
    if not path.exists():
        click.echo(f"{path} does not exist: the plugin is as if not loaded until it does.")
        return
    check_trust(path, _slurm_uid())
    click.echo(f"{path}: valid.")
    unknown = [lane.name for lane in settings.policy.lanes if not lane.bandwidth]
    if furthest_mode(settings) == "enforce" and (unknown or not settings.policy.lanes):
        which = f"lane {', '.join(unknown)}" if unknown else "the storage, as no Lane= divides it,"
        click.echo(
            f"But jobs may wait, and of {which} the Bandwidth is not known: only runs of the past "
            "say what fits. Say what it takes, as in Lane=sl0 Targets=4 Bandwidth=20G."
        )


@command.command()
@click.argument("keys", nargs=-1)
@json_option
def explain(keys: tuple[str, ...], *, as_json: bool) -> None:
    """Say what each setting means, and its default.

    KEYS are settings; without any, all are explained.

    \b
    Examples:
        sluice config explain
        sluice config explain MinConfidence Tolerance
    """
    from sluice.policies import core

    known = {key.key.lower(): key for key in core.config_keys()}
    unknown = [key for key in keys if key.lower() not in known]
    if unknown:
        nearest = core.nearest_key(unknown[0])
        raise click.UsageError(
            f"There is no setting {unknown[0]}. "
            + (f"Did you mean {nearest}? " if nearest else "")
            + "`sluice config explain` lists them."
        )
    chosen = [known[key.lower()] for key in keys] or list(known.values())
    if as_json:
        settings = [
            {"key": key.key, "kind": key.kind, "default": key.fallback, "meaning": key.text}
            for key in chosen
        ]
        show_json({"settings": settings})
        return
    show_facts([(f"{key.key}={key.fallback}", key.text) for key in chosen])


def _slurm_uid() -> int:
    """Whose files slurmctld believes, besides root's."""
    from sluice.slurm import slurm_commands
    from sluice.slurm.records import SlurmError

    try:
        return slurm_commands.controller().slurm_uid
    except SlurmError:
        uid = slurm_commands.configured_slurm_uid()
        return os.geteuid() if uid is None else uid


def _settings(config: Config) -> dict[str, object]:
    """Return the value of each key of sluice.conf."""
    from sluice.policies import core

    settings: dict[str, object] = {}
    for key in core.config_keys():
        value = core.setting(config, key)
        settings[key.key] = (
            [line.to_dict() for line in value] if isinstance(value, tuple) else value
        )
    return settings
