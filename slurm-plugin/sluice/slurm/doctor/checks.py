"""All checks of `sluice doctor`: those of Sluice's own files and daemon, and their order."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.history_db.errors import (
    BusyHistoryError,
    DamagedHistoryError,
    FullDiskError,
    HistoryError,
    MissingHistoryError,
    NetworkedHistoryError,
    ReadOnlyHistoryError,
)
from sluice.history_db.store import Store
from sluice.policies.bundle import Bundle
from sluice.policies.core import (
    CoreError,
    check_trust,
    default_config,
    mode_text,
    read_config,
)
from sluice.policies.snapshot import Snapshot
from sluice.slurm import service
from sluice.slurm import service as switch_file
from sluice.slurm.doctor import controller, findings
from sluice.slurm.doctor.findings import Finding, Lifetime, Site, skipped
from sluice.slurm.service import may_read, wrong
from sluice.slurm.status import is_locked
from sluice.slurm.views.formatting import error_text, share_text
from sluice.slurm.visibility import socket_path, user_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.policies.core import Config


OLD_BUNDLE = 30 * 86400  # seconds
BUSY_SECONDS = 5.0
HOUR = 3600
JOIN_SECONDS = 60
"""After so long a decision should have found its job."""
FEW = 20
MANY = 0.1
"""Decisions without a job are named from so many on, and from this share of all."""


def configuration(site: Site) -> Iterator[Finding]:
    path = site.config_path
    try:
        is_there = site.is_named or path.exists()
        site.config = read_config(path) if is_there else default_config()
    except (CoreError, OSError) as error:
        yield Finding(
            "FAIL",
            "configuration",
            error_text(error),
            "repair it, then `sluice config check`; `sluice off` works meanwhile",
        )
        return
    if not is_there:
        yield Finding(
            "WARN",
            "configuration",
            f"{path} does not exist: the plugin is as if not loaded",
            "create it; an empty file observes. `sluice config explain` lists the settings",
        )
        return
    try:
        check_trust(path, site.trusted_uid(path))
    except CoreError as error:
        yield Finding("FAIL", "configuration", str(error), "until then the plugin does nothing")
        return
    yield Finding("OK", "configuration", f"{path}, Mode={mode_text(site.config)}")


def switch(site: Site) -> Iterator[Finding]:
    found = switch_file.present(site.config) if site.config is not None else []
    if found:
        yield Finding("WARN", "switch", f"Sluice is switched off: {found[0]}", "`sluice on`")


def files(site: Site) -> Iterator[Finding]:
    """Find files that others may read, or that the service group may not."""
    if site.config is None or not site.is_service:
        return
    if site.slurm_uid is not None:
        yield from _unreadable_for_slurmctld(site.config, site.slurm_uid)
    found = [f"{path}: {what}" for path in service.files(site.config) if (what := wrong(path))]
    if found:
        yield Finding(
            "WARN",
            "files",
            "; ".join(found),
            "restart sluiced, which sets what belongs to it right; the rest by "
            "`chmod 640` and `chgrp` with the service group",
        )
    else:
        yield Finding("OK", "files", "are readable only for their owner and the service group")


def _unreadable_for_slurmctld(config: Config, slurm_uid: int) -> Iterator[Finding]:
    for path in (Path(config.bundle), Path(config.snapshot)):
        if not service.may_user_read(slurm_uid, path):
            slurm = user_text(slurm_uid)
            yield Finding(
                "FAIL",
                "files",
                f"{path}: slurmctld, as {slurm}, may not read it: every job is left alone",
                f"`usermod --append --groups {path.group()} {slurm}`, then restart slurmctld; or "
                f"`chgrp` it and its directory with a group of {slurm}",
            )


LOSSES_SHOWN = 7 * 86400  # seconds


def history(site: Site) -> Iterator[Finding]:
    if site.config is None:
        return
    path = Path(site.config.history)
    if not may_read(path):
        yield skipped("history", f"{path} is not readable for {user_text(os.geteuid())}")
        return
    is_writer = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    try:
        with Store(path, read_only=not is_writer, busy_seconds=BUSY_SECONDS) as store:
            counts = store.counts()
            if is_writer:
                store.prove_writable()
            lost = store.decisions.losses(since=int(time.time()) - LOSSES_SHOWN)
    except HistoryError as error:
        yield Finding("FAIL", "history", str(error), _history_remedy(error, path))
        return
    if lost:
        yield Finding(
            "WARN",
            "history",
            f"{lost} decisions of the last week are lost: {path} could not be written for long",
            "see the log of sluiced for the reason, and keep the disk from filling up",
        )
    text = f"{path}: {counts.logs} logs, {counts.jobs} jobs, {counts.decisions} decisions"
    if is_writer:
        yield Finding("OK", "history", text)
        yield from _without_a_job(path)
    elif _is_mounted_read_only(path):
        yield Finding("FAIL", "history", f"{path}: cannot be written", _remount(path))
    elif site.is_service:
        yield Finding(
            "WARN",
            "history",
            f"{text}; not writable by {user_text(os.geteuid())}",
            f"`chown` {path} to the user of sluiced",
        )
    else:
        yield Finding("OK", "history", f"{text}; whether it can be written, sluiced knows")


def _without_a_job(path: Path) -> Iterator[Finding]:
    """Find decisions whose job sluiced cannot tell: of such jobs nothing is known at the gates."""
    until = int(time.time()) - JOIN_SECONDS
    with Store(path, read_only=True) as store:
        made = store.decisions.count_decisions(since=until - HOUR, until=until)
    if made.without_job >= FEW and made.without_job > made.all * MANY:
        yield Finding(
            "WARN",
            "decisions",
            f"{made.without_job} of {made.all} decisions of the last hour found no job: rejected, "
            "gone before sluiced saw them, or renamed",
            "compare with slurmctld's log; jobs that end within FollowInterval are not seen, "
            "and in advise and enforce a mark on the job tells them for certain",
        )


def _history_remedy(error: HistoryError, path: Path) -> str:
    if isinstance(error, ReadOnlyHistoryError) and _is_mounted_read_only(path):
        return _remount(path)
    remedies: dict[type[HistoryError], str] = {
        MissingHistoryError: "start sluiced, or `sluice history ingest`: both create it",
        NetworkedHistoryError: "History=/var/lib/sluice/history.db in sluice.conf; "
        f"`sluice history restore {path}` takes along what was learned",
        FullDiskError: f"free some space (`df {path.parent}`), or `sluice history prune`; "
        "sluiced goes on by itself",
        BusyHistoryError: f"`fuser {path}` names the writer: wait for it, or end it if it hangs",
        DamagedHistoryError: f"move {path} away, or put a copy in its place; sluiced begins anew",
        ReadOnlyHistoryError: f"give {path} and its directory to the user of sluiced: `chown`, "
        "`chmod u+w`",
    }
    return remedies.get(type(error), "do what the text says")


def _is_mounted_read_only(path: Path) -> bool:
    with suppress(OSError):
        return bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)
    return False


def _remount(path: Path) -> str:
    return (
        f"{path.parent} is mounted read-only: see the kernel's log for the cause, then "
        f"`mount -o remount,rw` it (`findmnt --target {path.parent}`)"
    )


def bundle(site: Site) -> Iterator[Finding]:
    if site.config is None:
        return
    path = Path(site.config.bundle)
    if not may_read(path):
        yield skipped("bundle", f"{path} is not readable for {user_text(os.geteuid())}")
        return
    if not path.exists():
        yield Finding(
            "FAIL",
            "bundle",
            f"{path} does not exist: every job is left alone",
            "`sluice model train && sluice model publish`",
        )
        return
    try:
        model = Bundle.load(path, site.trusted_uid(path))
    except CoreError as error:
        yield Finding("FAIL", "bundle", str(error), "`sluice model publish` writes it anew")
        return
    text = (
        f"{path}: {model.application_count} applications, owned by {user_text(path.stat().st_uid)}"
    )
    renew = "`sluice history ingest`, `sluice model train`, `sluice model publish`"
    lifetime = Lifetime(OLD_BUNDLE, "WARN", renew, "`sluice model publish`")
    yield lifetime.judge("bundle", text, model.created)
    yield from _unpublished_lanes(site.config, model)


def _unpublished_lanes(config: Config, published: Bundle) -> Iterator[Finding]:
    """Find lanes that the file and the bundle, by which jobs are decided, do not agree on."""
    ours, theirs = (
        {lane.name: lane.to_dict() for lane in policy.lanes}
        for policy in (config.policy, published.policy)
    )
    told = {
        "not published": [name for name in ours if name not in theirs],
        "published, but not in the file": [name for name in theirs if name not in ours],
        "published otherwise": [
            name for name in ours if ours[name] != theirs.get(name, ours[name])
        ],
    }
    found = [f"{what}: {', '.join(names)}" for what, names in told.items() if names]
    if found:
        yield Finding(
            "WARN",
            "lanes",
            f"sluice.conf has other lanes than the bundle. {'; '.join(found)}",
            "`sluice model publish`, or wait for sluice-learn; until then jobs are decided, and "
            "gates closed, by the lanes of the bundle",
        )


def daemon(site: Site) -> Iterator[Finding]:
    if site.config is None:
        return
    try:
        is_running = is_locked(Path(site.config.snapshot))
    except PermissionError:
        finding = _daemon_by_socket(socket_path(site.config))
        site.sluiced_runs = finding.level == "OK"
        yield finding
        return
    except FileNotFoundError:
        yield Finding("FAIL", "sluiced", "was never started here", "start sluiced")
        return
    site.sluiced_runs = is_running
    if is_running:
        yield Finding("OK", "sluiced", "is running")
    else:
        yield Finding(
            "FAIL", "sluiced", "is not running: decisions pile up in slurmctld", "start sluiced"
        )


def _daemon_by_socket(path: Path) -> Finding:
    """Judge for users that may not read the lock."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
    except OSError as error:
        return skipped("sluiced", f"{path}: {error.strerror}; its lock is not readable either")
    return Finding("OK", "sluiced", "is running")


def snapshot(site: Site) -> Iterator[Finding]:
    if site.config is None:
        return
    path = Path(site.config.snapshot)
    if not may_read(path):
        yield skipped("snapshot", f"{path} is not readable for {user_text(os.geteuid())}")
        return
    if not path.exists():
        yield Finding(
            "FAIL", "snapshot", f"{path} does not exist: every job is left alone", "start sluiced"
        )
        return
    try:
        published = Snapshot.load(path, site.trusted_uid(path))
    except CoreError as error:
        yield Finding("FAIL", "snapshot", str(error), "sluiced writes it anew each FollowInterval")
        return
    state = published.state
    text = (
        f"{path}: {state.running} jobs run, {len(published.corunners())} with I/O that matters, "
        f"{state.unknown} unknown, {state.pending} wait"
    )
    oldest = site.config.policy.max_snapshot_age
    remedy = (
        "sluiced runs but publishes nothing: see its log, then restart it"
        if site.sluiced_runs
        else "start sluiced"
    )
    lifetime = Lifetime(oldest, "FAIL", remedy, "sluiced")
    yield lifetime.judge("snapshot", text, state.taken)
    for lane in site.config.policy.lanes:
        speed = published.lane_speed(lane.name)
        if speed < 1:
            yield Finding(
                "WARN",
                "targets",
                f"lane {lane.name} is slow, at {share_text(speed)} of its peers' rate",
                "`sluice site targets` shows the evidence; jobs are kept off it where that pays",
            )


CHECKS = (
    controller.slurm,  # before those that ask whose files slurmctld believes
    configuration,
    switch,
    controller.preflight,
    controller.plugin,
    controller.library,
    bundle,
    daemon,
    findings.troubles,
    findings.learning,
    findings.evidence,
    findings.turns,
    snapshot,
    history,
    files,
    controller.tokens,
    controller.admin_comments,
    controller.speed,
    controller.gates,
    controller.reservations,
    controller.strangers,
    controller.preemption,
    controller.scheduling,
)


def all_findings(site: Site) -> list[Finding]:
    return [finding for check in CHECKS for finding in check(site)]
