"""What `sluice doctor` looks at in Sluice's own files and daemon."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.cli.common import (
    DEFAULT_CONFIG,
    duration_text,
    read_config,
    share_text,
    sluiced_runs,
    user_text,
)
from sluice.cli.findings import Finding, Site
from sluice.history_db.errors import HistoryError
from sluice.history_db.store import Store
from sluice.policies.bundle import Bundle
from sluice.policies.core import CoreError, check_trust
from sluice.policies.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator


OLD_BUNDLE = 30 * 86400  # seconds


def configuration(site: Site) -> Iterator[Finding]:
    path = site.config_path or DEFAULT_CONFIG
    try:
        site.config = read_config(site.config_path)
    except (CoreError, OSError) as error:
        yield Finding("FAIL", "configuration", str(error), "`sluice config check` after the repair")
        return
    if not path.exists():
        yield Finding(
            "WARN",
            "configuration",
            f"{path} does not exist: the plugin is as if not loaded",
            "create it; an empty file observes. `sluice config explain` lists the settings",
        )
        return
    try:
        check_trust(path, site.slurm_uid)
    except CoreError as error:
        yield Finding("FAIL", "configuration", str(error), "until then the plugin does nothing")
        return
    yield Finding("OK", "configuration", f"{path}, Mode={site.config.mode}")


def switch(site: Site) -> Iterator[Finding]:
    if site.config is not None and Path(site.config.off_file).exists():
        yield Finding(
            "WARN", "switch", f"Sluice is switched off: {site.config.off_file}", "`sluice on`"
        )


LOSSES_SHOWN = 7 * 86400  # seconds


def history(site: Site) -> Iterator[Finding]:
    if site.config is None:
        return
    path = Path(site.config.history)
    try:
        with Store(path, read_only=not os.access(path, os.W_OK)) as store:
            counts = store.counts()
            lost = store.losses(since=int(time.time()) - LOSSES_SHOWN)
    except HistoryError as error:
        yield Finding(
            "FAIL", "history", str(error), "see the text; sluiced and `sluice ingest` create it"
        )
        return
    if lost:
        yield Finding(
            "WARN",
            "history",
            f"{lost} decisions of the last week are lost: {path} could not be written for long",
            "see the log of sluiced for the reason, and keep the disk from filling up",
        )
    text = f"{path}: {counts.logs} logs, {counts.jobs} jobs, {counts.decisions} decisions"
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        yield Finding("OK", "history", text)
    else:
        yield Finding(
            "WARN",
            "history",
            f"{text}; not writable by {user_text(os.geteuid())}",
            "only the user of sluiced needs to write it: run this as that user to be sure",
        )


def bundle(site: Site) -> Iterator[Finding]:
    if site.config is None:
        return
    path = Path(site.config.bundle)
    if not path.exists():
        yield Finding(
            "FAIL",
            "bundle",
            f"{path} does not exist: every job is left alone",
            "`sluice train && sluice publish`",
        )
        return
    try:
        model = Bundle.load(path, site.slurm_uid)
    except CoreError as error:
        yield Finding("FAIL", "bundle", str(error), "`sluice publish` writes it anew")
        return
    age = time.time() - model.created
    text = (
        f"{path}: {model.application_count} applications, {model.tree_count} trees, "
        f"{duration_text(age)} old, owned by {user_text(path.stat().st_uid)}"
    )
    if age > OLD_BUNDLE:
        yield Finding("WARN", "bundle", text, "`sluice ingest`, `sluice train`, `sluice publish`")
    else:
        yield Finding("OK", "bundle", text)


def daemon(site: Site) -> Iterator[Finding]:
    if site.config is None:
        return
    lock = Path(site.config.snapshot + ".lock")
    try:
        is_running = sluiced_runs(site.config)
    except PermissionError:
        yield Finding(
            "WARN", "sluiced", f"{lock} cannot be read", "run this as the user of sluiced"
        )
        return
    except FileNotFoundError:
        yield Finding("FAIL", "sluiced", "was never started here", "start sluiced")
        return
    if is_running:
        yield Finding("OK", "sluiced", "is running")
    else:
        yield Finding(
            "FAIL", "sluiced", "is not running: decisions pile up in slurmctld", "start sluiced"
        )


def snapshot(site: Site) -> Iterator[Finding]:
    if site.config is None:
        return
    path = Path(site.config.snapshot)
    if not path.exists():
        yield Finding(
            "FAIL", "snapshot", f"{path} does not exist: every job is left alone", "start sluiced"
        )
        return
    try:
        published = Snapshot.load(path, site.slurm_uid)
    except CoreError as error:
        yield Finding("FAIL", "snapshot", str(error), "sluiced writes it anew each FollowInterval")
        return
    state = published.state
    age = max(0.0, time.time() - state.taken)
    text = (
        f"{path}: {state.running} jobs run, {len(published.corunners())} with I/O that matters, "
        f"{state.unknown} unknown, {state.pending} wait; {duration_text(age)} old"
    )
    if age > site.config.policy.max_snapshot_age:
        yield Finding(
            "FAIL", "snapshot", text + ": too old to be believed", "see the log of sluiced"
        )
    else:
        yield Finding("OK", "snapshot", text)
    for lane in site.config.policy.lanes:
        speed = published.lane_speed(lane.name)
        if speed < 1:
            yield Finding(
                "WARN",
                "targets",
                f"lane {lane.name} straggles, at {share_text(speed)} of its peers' rate",
                "`sluice targets` shows the evidence; jobs are kept off it where that pays",
            )
