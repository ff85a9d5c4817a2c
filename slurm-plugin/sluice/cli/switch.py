"""`sluice off` and `sluice on`: the kill switch is a file."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.cli.common import DEFAULT_CONFIG, CommandError, config_option, read_config
from sluice.slurm.views.formatting import error_text, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.policies.core import Config, View
    from sluice.slurm.gates.gate_status import Opened

HOW = "run this as root or as the user of sluiced"


@dataclass(slots=True)
class Site:
    """What can be known of a site whose configuration may be broken, and what went wrong."""

    config: Config
    """Of a broken one, the lines that are right."""
    is_known: bool
    """Whether all of the configuration could be read."""
    problems: list[str] = field(default_factory=list)

    def report(self, problem: str) -> None:
        click.echo(f"sluice: {problem}", err=True)
        self.problems.append(problem)


@click.command()
@config_option
@click.option("--reason", default="", help="Stored in the file and the audit.")
def off(config: Path | None, reason: str) -> None:
    """Switch Sluice off at once.

    Creates the OffFile of the configuration. The plugin looks for it all the time: within
    a second no job is looked at any more. All leases are deleted, so that all gates are open:
    jobs that wait for a token start at Slurm's next pass. Then their tokens are taken off, by
    sluiced or, where that is dead, by this command. Nothing is restarted, running jobs go on as
    they are, and the switch survives restarts of slurmctld and sluiced until `sluice on`. To
    create the file by hand does the same, if sluiced lives.

    It works whatever is broken. Where the configuration cannot be read, it uses the lines that
    are right and the default OffFile, which sluiced obeys next to its own. A lease with a job
    inside cannot be deleted: it is emptied and the job goes on. Each step is tried, whatever
    came of the others; the exit code is 1 if one of them failed, and the text says which.

    \b
    Examples:
        sluice off
        sluice off --reason "maintenance of the file system"
    """
    site = _site(config)
    _leave_off_file(site, reason)
    opened = _open_gates(site)
    _take_tokens_off(site, opened)
    _tell_audit(site, reason, is_off=True)
    sys.exit(bool(site.problems))


def _site(path: Path | None) -> Site:
    """Read the configuration; of a broken one, what is right in it."""
    from sluice.policies import core
    from sluice.policies.core import CoreError

    try:
        return Site(read_config(path), is_known=True)
    except (CommandError, CoreError, OSError) as error:
        why = error_text(error)
    click.echo(
        f"sluice: {why}; going on with those lines of it that can be read, and defaults", err=True
    )
    return Site(core.read_config_lines(path or DEFAULT_CONFIG), is_known=False)


def _leave_off_file(site: Site, reason: str) -> None:
    from sluice.policies.container import GROUP_READS
    from sluice.slurm import service

    found = service.present(site.config)
    if found:
        click.echo(f"Sluice is off already: {found[0]} exists.")
        return
    path = Path(site.config.off_file)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(GROUP_READS)
        path.write_text(one_line(reason) + "\n" if reason else "")
    except OSError as error:
        site.report(
            f"{path}: {error.strerror}, so Sluice stays on; {HOW}, or stop sluiced and take "
            "sluice out of JobSubmitPlugins"
        )
        return
    click.echo(
        f"Sluice is off: {path} exists.\n"
        "slurmctld notices within a second and leaves all jobs alone from then on. `sluice on` "
        "reverts it."
    )


def _open_gates(site: Site) -> Opened | None:
    """Delete the leases; None where Slurm cannot be asked which there are."""
    from sluice.policies.core import furthest_mode
    from sluice.slurm import slurm_commands
    from sluice.slurm.gates.gate_status import TIDY_SECONDS, open_gates
    from sluice.slurm.records import SlurmError
    from sluice.slurm.visibility import hidden

    try:
        if hidden(os.geteuid(), slurm_commands.controller(), ("reservations",)):
            site.report(f"Slurm does not show the leases to this user (PrivateData); {HOW}")
            return None
        opened = open_gates()
    except SlurmError as error:
        if site.is_known and furthest_mode(site.config) != "enforce":
            return None  # no gate was ever closed
        site.report(
            f"the leases could not be deleted: {error}. They run out by themselves within "
            f"{2 * site.config.lease_seconds} s; repeat `sluice off` to be quicker"
        )
        return None
    for token in opened.emptied:
        click.echo(
            f"A job sits in the lease of {token}, so Slurm does not delete it. It holds back no "
            f"token any more, the job goes on, and the lease goes within {TIDY_SECONDS} s."
        )
    for token, why in opened.failed.items():
        site.report(f"the gate of {token} is still closed: {why}; {HOW}")
    if not opened.failed:
        click.echo("All gates are open: no reservations remain.")
    return opened


def _take_tokens_off(site: Site, opened: Opened | None) -> None:
    """Free the waiting jobs of tokens, as far as sluiced may not be there to do it."""
    from sluice.policies.core import furthest_mode
    from sluice.slurm.gates.gate_status import policy_in_use, release_all
    from sluice.slurm.records import SlurmError

    if opened is None or (furthest_mode(site.config) != "enforce" and not opened.tokens):
        return
    if _is_tidied_by_daemon(site):
        return
    try:
        released = release_all(_names(policy_in_use(site.config), opened.tokens))
    except SlurmError as error:
        site.report(f"tokens could not be taken off: {error}; no job waits for them")
    else:
        click.echo(f"sluiced is not running; tokens taken off {released} waiting jobs.")


def _is_tidied_by_daemon(site: Site) -> bool:
    from sluice.slurm.status import is_locked

    try:
        return is_locked(Path(site.config.snapshot))
    except OSError:
        return False


def _names(policy: View, leased: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Return the tokens of the policy, and those that had leases, with lane and class."""
    from sluice.policies.record import token_names

    others = {token: (0, token.rpartition("_")[2]) for token in leased}
    return others | token_names(policy)


def _tell_audit(site: Site, reason: str, *, is_off: bool) -> None:
    """Say who did it and why; the switch works all the same."""
    from sluice.slurm.audit import tell_switch
    from sluice.slurm.service import is_off as is_now_off

    if is_now_off(site.config) != is_off:
        return  # it did not work
    why = tell_switch(site.config, int(time.time()), is_off=is_off, reason=one_line(reason))
    if why:
        is_said = any(why in problem for problem in site.problems)
        click.echo(
            "sluice: `sluice audit` will hear of it from sluiced" + ("" if is_said else f": {why}"),
            err=True,
        )


@click.command()
@config_option
@click.option("--reason", default="", help="Stored in the audit.")
def on(config: Path | None, reason: str) -> None:
    """Switch Sluice on again.

    Removes the OffFile; the plugin goes on in the Mode of the configuration within a second.

    \b
    Examples:
        sluice on
        sluice on --reason "the file system is back"
    """
    from sluice.policies.core import mode_text
    from sluice.slurm import service

    site = _site(config)
    found = service.present(site.config)
    for path in found:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}; {HOW}") from error
    if found:
        click.echo(f"Sluice is on: {found[0]} is gone. Mode is {mode_text(site.config)}.")
        _tell_audit(site, reason, is_off=False)
    else:
        click.echo(f"Sluice was not off: there is no {site.config.off_file}.")
