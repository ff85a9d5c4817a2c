"""The audit of settings and of the switch: what was changed, by which user, when and why.

A command that changes something says so at once. sluiced compares settings and switch with what the
audit says last, and adds what no command said: an edited sluice.conf, an OffFile made by hand, and
what a command could not write down. Then the owner of the file counts as its author.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.history_db.errors import HistoryError
from sluice.history_db.records import AuditEntry
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.slurm import service, slurm_commands
from sluice.slurm.records import SlurmError
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sluice.policies.core import Config

SWITCH = "switch"
"""The subject of `sluice off` and `sluice on`; all others are settings, or files of bundles."""
BUSY_SECONDS = 2.0
"""A command does not wait longer for the history to say what it did."""
UNTOLD_SECONDS = 10
"""After so long without a word of its command, a switch was done by hand."""
REASON_BYTES = 1000


def uid_of_caller() -> int:
    """Return the user of this command: behind sudo, the one that called it."""
    if os.geteuid() == 0:
        with suppress(KeyError, ValueError):
            return int(os.environ["SUDO_UID"])
    return os.getuid()


def tell_switch(config: Config, now: int, *, is_off: bool, reason: str) -> str:
    """Say in the audit that a command switched Sluice; return why that was not possible."""
    path = Path(config.history)
    try:
        cluster = _cluster()
        with Store(path, busy_seconds=BUSY_SECONDS) as store:
            before = store.administration.audited(cluster).get(SWITCH, _switch(is_off=False))
            after = _switch(is_off=is_off)
            if before != after:
                store.administration.add_audit(
                    [AuditEntry(now, uid_of_caller(), cluster, SWITCH, before, after, reason)]
                )
    except (HistoryError, SlurmError) as error:
        return str(error)
    return ""


def _cluster() -> str:
    """Return the cluster's name, also where slurmctld is down; raises SlurmError."""
    try:
        return slurm_commands.controller().cluster
    except SlurmError:
        name = slurm_commands.in_slurm_conf("ClusterName")
        if name is None:
            raise
        return name.lower()


def _switch(*, is_off: bool) -> str:
    return "off" if is_off else "on"


def listed(store: Store, *, since: int = 0) -> list[dict[str, Any]]:
    """Return what was changed from a time on (UTC seconds), oldest first, with names of users."""
    return [facts_of(entry) for entry in store.administration.audit(since=since)]


def facts_of(entry: AuditEntry) -> dict[str, Any]:
    """Return an entry as `sluice audit --json` shows it."""
    return asdict(entry) | {"user": user_of(entry)}


def user_of(entry: AuditEntry) -> str | None:
    return None if entry.uid is None else user_text(entry.uid)


class Auditor:
    """What sluiced has told the audit of one cluster."""

    def __init__(self, config_path: Path) -> None:
        self._path = config_path
        self._told: Config | None = None
        """The settings that the audit knows."""
        self._switched: tuple[bool, int] | None = None
        """Whether Sluice is off, and since when sluiced has seen that."""
        self._is_switch_told = False

    def tell(self, store: Store, cluster: str, config: Config, now: int) -> None:
        """Add what changed since the latest entries; raises HistoryError."""
        if config is not self._told:
            store.administration.add_audit(
                self._settings(store.administration.audited(cluster), cluster, config, now)
            )
            self._told = config
        is_off = service.is_off(config)
        if self._switched is None or self._switched[0] != is_off:
            self._switched, self._is_switch_told = (is_off, now), False
        if not self._is_switch_told and now >= self._switched[1] + UNTOLD_SECONDS:
            self._tell_switch(store, cluster, config, is_off=is_off)

    def _settings(
        self, known: Mapping[str, str], cluster: str, config: Config, now: int
    ) -> Iterator[AuditEntry]:
        defaults = core.setting_texts(core.default_config())
        uid, why = _owner(self._path), f"found in {self._path}"
        for key, after in core.setting_texts(config).items():
            before = known.get(key, defaults[key])
            if before != after:
                yield AuditEntry(now, uid, cluster, key, before, after, why)

    def _tell_switch(self, store: Store, cluster: str, config: Config, *, is_off: bool) -> None:
        before = store.administration.audited(cluster).get(SWITCH, _switch(is_off=False))
        after = _switch(is_off=is_off)
        if before != after and self._switched is not None:
            uid, why = None, "found without its OffFile"
            if found := service.present(config):
                uid, why = _owner(found[0]), _reason_in(found[0]) or f"found {found[0]}"
            entry = AuditEntry(self._switched[1], uid, cluster, SWITCH, before, after, why)
            store.administration.add_audit([entry])
        self._is_switch_told = True


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except OSError:
        return None


def _reason_in(path: Path) -> str:
    """Return what `sluice off --reason` left in the OffFile."""
    try:
        with path.open("rb") as file:
            return file.read(REASON_BYTES).decode(errors="replace").strip()
    except OSError:
        return ""
