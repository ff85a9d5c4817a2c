"""Slurm: slurm.conf, the plugin in slurmctld, tokens, gates."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.policies.tokens import MIN_TOTAL, token_names
from sluice.slurm import plugin_file, slurm_commands, switch
from sluice.slurm.doctor.findings import Finding, Site, skipped
from sluice.slurm.errors import SlurmError
from sluice.slurm.overview import policy_in_use, settled_balance
from sluice.slurm.plugin_client import PluginClient
from sluice.slurm.plugin_file import State
from sluice.slurm.settings import BY_QOS
from sluice.slurm.token_audit import differences
from sluice.slurm.viewers import hidden

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_SCHED_INTERVAL = 60  # seconds, slurm.conf(5)


def slurm(site: Site) -> Iterator[Finding]:
    try:
        site.controller = slurm_commands.controller()
    except SlurmError as error:
        yield Finding("FAIL", "slurmctld", str(error), "the remaining checks need it")
        return
    controller = site.controller
    yield Finding("OK", "slurmctld", f"{controller.slurm_version}, cluster {controller.cluster}")
    try:
        site.queue()
    except SlurmError as error:
        yield Finding("FAIL", "sluice-feed", str(error), "see the text; sluiced needs its answers")
    plugins = controller.job_submit_plugins
    shown = f"JobSubmitPlugins={','.join(plugins) or '(null)'}"
    if "sluice" not in plugins:
        yield Finding("FAIL", "slurm.conf", shown, "add sluice at its end and restart slurmctld")
    elif plugins[-1] != "sluice":
        yield Finding(
            "WARN", "slurm.conf", shown, "put sluice last: it must see what other plugins changed"
        )
    else:
        yield Finding("OK", "slurm.conf", shown)


def preflight(site: Site, plugin: Path | None = None) -> Iterator[Finding]:
    """Whether slurmctld would start with the plugin: both must be of one version, x.y.z."""
    directories = site.controller.plugin_dirs if site.controller else plugin_directories()
    path = plugin or plugin_file.find(directories)
    if path is None:
        yield Finding(
            "FAIL",
            "version",
            f"no {plugin_file.NAME} in PluginDir={':'.join(directories)}",
            "`make install`, or add its directory to PluginDir",
        )
        return
    try:
        built = plugin_file.built_for(path)
        installed = slurm_commands.slurmctld_version()
    except (SlurmError, OSError) as error:
        yield Finding("FAIL", "version", str(error), "run this where slurmctld runs")
        return
    if built == installed:
        yield Finding("OK", "version", f"{path} fits slurmctld {installed}")
    else:
        yield Finding(
            "FAIL",
            "version",
            f"{path} was built for Slurm {built}, but slurmctld is {installed} and would not start",
            "rebuild and install the plugin before slurmctld is restarted",
        )


def plugin_directories() -> tuple[str, ...]:
    """PluginDir without asking slurmctld, which may be down: slurm.conf, else the usual places."""
    conf = Path(os.environ.get("SLURM_CONF", "/etc/slurm/slurm.conf"))
    try:
        given = re.findall(r"(?im)^\s*PluginDir\s*=\s*(\S+)", conf.read_text(errors="replace"))
    except OSError:
        given = []
    if given:
        return tuple(given[-1].split(":"))
    return tuple(str(path.parent) for path in Path("/usr").glob("lib*/**/slurm*/auth_munge.so"))


def plugin(site: Site) -> Iterator[Finding]:
    if site.config is None:
        return
    try:
        site.stats = PluginClient(Path(site.config.socket), record_size=0).stats()
    except SlurmError as error:
        if site.is_service:
            yield Finding("FAIL", "plugin", str(error), "see slurmctld's log for `sluice`")
        else:
            yield skipped("plugin", "it answers root and SlurmUser alone")
        return
    stats = site.stats
    yield Finding(
        "OK",
        "plugin",
        f"version {stats['version']} for Slurm {stats['slurm_version']}, mode {stats['mode']}; "
        f"{stats['submissions']} submissions, {stats['decided']} decided, {stats['notes']} notes",
    )
    for name in ("config", "bundle", "snapshot"):
        file = stats[name]
        if file["error"]:
            yield Finding(
                "FAIL" if not file["loaded"] else "WARN",
                f"plugin's {name}",
                file["error"] + ("; the last good one is in use" if file["loaded"] else ""),
                "repair or renew the file; the plugin looks again by itself",
            )
    if "spool" in stats:  # else slurmctld runs an older plugin than this command
        yield from _records(stats)


def _records(stats: dict[str, Any]) -> Iterator[Finding]:
    """Say what became of the decision records that sluiced has not fetched."""
    ring, spool = stats["ring"], stats["spool"]
    since = time.strftime("%d %B, %H:%M", time.localtime(stats["counting_since"]))
    if ring["dropped"]:
        yield Finding(
            "WARN",
            "ring",
            f"{ring['dropped']} decisions lost since {since}: nobody fetched them",
            "keep sluiced running; a larger RingRecords bridges longer gaps",
        )
    if ring["lost"]:
        yield Finding(
            "WARN",
            "ring",
            f"{ring['lost']} decisions lost since {since}: a slurmctld that ended could not hand "
            "them over",
            "see `sluice:` in slurmctld's log; keep the RingRecords and the Sluice version of the "
            "plugin while records wait",
        )
    if not ring["dropped"] and not ring["lost"]:
        yield Finding(
            "OK",
            "ring",
            f"{ring['used']} of {ring['size']} records wait, none lost since {since}",
        )
    if spool["error"]:
        yield Finding(
            "WARN",
            "spool",
            f"{spool['error']}: records that wait would be lost if slurmctld ended now",
            "free space where Socket lies, and let SlurmUser write there; the plugin tries again "
            "by itself",
        )


def library(site: Site) -> Iterator[Finding]:
    """Whether the plugin's file is still the one that slurmctld has mapped."""
    loaded = site.stats.get("library", {})
    if not loaded.get("path"):
        return
    path = loaded["path"]
    match plugin_file.state_since(loaded):
        case State.OVERWRITTEN:
            yield Finding(
                "FAIL",
                "plugin's file",
                f"{path} was overwritten in place: slurmctld runs a mixture of old and new code",
                "restart slurmctld at once; do not reconfigure. `make install` replaces the file "
                "by renaming, which is safe; cp is not",
            )
        case State.REPLACED:
            yield Finding(
                "WARN",
                "plugin's file",
                f"{path} was replaced: slurmctld still runs the old one",
                "restart slurmctld to load the new one",
            )
        case State.GONE:
            yield Finding(
                "FAIL",
                "plugin's file",
                f"{path} is gone: slurmctld runs, but would not start again",
                "`make install`, or take sluice out of JobSubmitPlugins",
            )
        case State.SAME:
            yield Finding("OK", "plugin's file", f"{path} is the one that slurmctld runs")


def tokens(site: Site) -> Iterator[Finding]:
    """Say what enforce does, and whether slurm.conf defines what it needs."""
    if site.config is None or site.stats.get("mode") != "enforce":
        return
    names = token_names(policy_in_use(site.config))
    try:
        licenses = site.queue().licenses
    except SlurmError as error:
        yield Finding("WARN", "tokens", str(error), "is slurmctld up? `scontrol ping`")
        return
    missing = sorted(
        name for name in names if name not in licenses or licenses[name].total < MIN_TOTAL
    )
    if missing:
        yield Finding(
            "WARN",
            "tokens",
            f"slurm.conf defines no {', '.join(missing)}, or fewer than {MIN_TOTAL:,}: "
            "jobs that would need one start without any",
            "Licenses=" + ",".join(f"{name}:1000000" for name in missing),
        )
    else:
        yield Finding("OK", "tokens", f"slurm.conf defines all {len(names)}")
    stats = site.stats
    others = sum(n for name, n in stats["grants"].items() if name not in ("taken", "not_needed"))
    yield Finding(
        "OK",
        "tokens",
        f"{stats['grants']['taken']} jobs took tokens, {others} could not; opted out: "
        f"{stats['opt_outs']['option']} by --no-sluice, {stats['opt_outs']['update']} by "
        f"scontrol update; taken off what users wrote: {stats['stripped']}",
    )


def speed(site: Site) -> Iterator[Finding]:
    """Print the plugin's own histogram of its CPU time in job_submit."""
    for path, words in (
        ("known", "known applications"),
        ("forest", "where the forest ran"),
        ("all", "all submissions"),
    ):
        histogram = site.stats.get("cpu_ns", {}).get(path)
        if not histogram or not histogram["count"]:
            continue
        shown = ", ".join(
            f"{name} {quantile(histogram, share) / 1000:.3g} µs"
            for name, share in (("median", 0.5), ("p99", 0.99), ("p99.9", 0.999))
        )
        yield Finding(
            "OK",
            "CPU time",
            f"{words}: {shown}, max {histogram['max'] / 1000:.3g} µs "
            f"of {histogram['count']} that were timed",
        )
    if site.stats.get("repeated"):
        yield Finding(
            "OK",
            "CPU time",
            f"{site.stats['repeated']} of {site.stats['decided']} decisions are those of the job "
            "before: the same application and request within a second",
        )


def quantile(histogram: dict[str, Any], share: float) -> float:
    """Return the quantile of a histogram as the upper bound of its bucket, at most the largest."""
    wanted = share * histogram["count"]
    seen = 0
    for upper, count in histogram["buckets"]:
        seen += count
        if seen >= wanted:
            return float(min(upper, histogram["max"]))
    return float(histogram["max"])


def gates(site: Site) -> Iterator[Finding]:
    """Look whether the tokens balance and every gate that should be is closed."""
    if site.config is None or site.controller is None or site.config.mode != "enforce":
        return
    unseen = hidden(os.geteuid(), site.controller, ("jobs", "reservations"))
    if unseen:
        yield skipped(
            "gates", f"Slurm hides {' and '.join(unseen)} of others from you (PrivateData)"
        )
        return
    try:
        balance, _ = settled_balance(site.queue(), site.config, site.polled)
    except SlurmError as error:
        yield Finding("FAIL", "gates", str(error), "see `scontrol ping`")
        return
    is_off = switch.is_off(site.config)
    open_ = [account.token for account in balance if account.is_defined and account.gate is None]
    if open_ and not is_off:
        yield Finding(
            "FAIL",
            "gates",
            f"no lease, so open: {', '.join(open_)}",
            "sluiced runs and cannot keep them: see the other findings and its log"
            if site.sluiced_runs
            else "start sluiced",
        )
    broken = differences(balance)
    for text in broken.values():
        yield Finding("FAIL", "token audit", text, "see `sluice gates` and the log of sluiced")
    if not broken:
        held, wanted = (sum(getattr(a, name) for a in balance) for name in ("held", "wanted"))
        yield Finding("OK", "token audit", f"they balance: {held} tokens held, {wanted} waited for")


def preemption(site: Site) -> Iterator[Finding]:
    """Say which QoS are left alone because they preempt."""
    if site.controller is None or site.controller.preempt_type != BY_QOS:
        return
    try:
        names = slurm_commands.preempting_qos()
    except SlurmError as error:
        yield Finding("WARN", "preemption", str(error), "name the QoS that preempt in ExemptQos")
        return
    if names:
        yield Finding("OK", "preemption", f"left alone, as they preempt: QoS {', '.join(names)}")
    else:
        yield Finding(
            "WARN",
            "preemption",
            "PreemptType=preempt/qos, but sacctmgr tells of no QoS that preempts",
            "if some do, name them in ExemptQos",
        )


def scheduling(site: Site) -> Iterator[Finding]:
    """Look at settings of Slurm that Sluice meets."""
    if site.controller is None:
        return
    interval = next(
        (
            int(value)
            for name, _, value in (
                word.partition("=") for word in site.controller.scheduler_parameters
            )
            if name == "sched_interval" and value.isdecimal()
        ),
        DEFAULT_SCHED_INTERVAL,
    )
    accrue = "ACCRUE_ALWAYS" in site.controller.priority_flags
    yield Finding(
        "OK",
        "scheduler",
        f"sched_interval={interval}, PriorityFlags {'with' if accrue else 'without'} "
        "ACCRUE_ALWAYS; observe and advise need neither changed",
    )
