"""What `sluice doctor` looks at in Slurm: slurm.conf, the plugin in slurmctld, tokens, gates."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.history_db.errors import HistoryError
from sluice.history_db.store import Store
from sluice.policies.core import CoreError, furthest_mode
from sluice.policies.record import MIN_TOTAL, Record, token_names
from sluice.slurm import plugin_client, service, slurm_commands
from sluice.slurm.doctor.findings import Finding, Site, skipped
from sluice.slurm.gates.gate_status import policy_in_use, settled_balance
from sluice.slurm.gates.leases import (
    PREFIX,
    Holding,
    differences,
    holdings,
    lease_of,
    parse_licenses,
    release_of,
)
from sluice.slurm.gates.snapshot import BY_QOS
from sluice.slurm.plugin_client import PluginClient, State
from sluice.slurm.records import SlurmError
from sluice.slurm.service import may_read
from sluice.slurm.visibility import hidden

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sluice.slurm.records import Reservation


DEFAULT_SCHED_INTERVAL = 60  # seconds, slurm.conf(5)
COMMENT_SECONDS = 2.0
"""For squeue, and again for sacct, to say what admin comments there are."""


def slurm(site: Site) -> Iterator[Finding]:
    try:
        site.controller = slurm_commands.controller()
    except SlurmError as error:
        yield Finding(
            "FAIL",
            "slurmctld",
            str(error),
            "slurm.conf, the plugin, tokens, gates and jobs can be looked at once it answers",
        )
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
    path = plugin or plugin_client.find(directories)
    if path is None:
        yield Finding(
            "FAIL",
            "version",
            f"no {plugin_client.NAME} in PluginDir={':'.join(directories)}",
            "`make install`, or add its directory to PluginDir",
        )
        return
    try:
        built = plugin_client.built_for(path)
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
    given = slurm_commands.in_slurm_conf("PluginDir")
    if given:
        return tuple(given.split(":"))
    return tuple(str(path.parent) for path in Path("/usr").glob("lib*/**/slurm*/auth_munge.so"))


def plugin(site: Site) -> Iterator[Finding]:
    if site.config is None or site.controller is None:
        return  # a slurmctld that is down answers here no more than there
    try:
        site.stats = PluginClient(Path(site.config.socket), record_size=0).stats()
    except SlurmError as error:
        if site.is_service:
            yield Finding("FAIL", "plugin", str(error), "see slurmctld's log for `sluice`")
        else:
            yield skipped("plugin", "it answers only root and SlurmUser")
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
            f"{ring['dropped']} decisions lost since {since}: sluiced did not fetch them",
            "keep sluiced running",
        )
    if ring["lost"]:
        yield Finding(
            "WARN",
            "ring",
            f"{ring['lost']} decisions lost since {since}: a slurmctld that ended could not hand "
            "them over",
            "see `sluice:` in slurmctld's log; keep the Sluice version of the plugin while records "
            "wait",
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
    match plugin_client.state_since(loaded):
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
    if site.config is None or site.stats.get("furthest_mode") != "enforce":
        return
    names = token_names(site.config.policy)
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


def admin_comments(site: Site) -> Iterator[Finding]:
    """Say whether another tool writes admin comments, as Princeton's jobstats does (`JS1:…`)."""
    if site.config is None or site.controller is None:
        return
    try:
        found = slurm_commands.admin_comments(site.controller, timeout=COMMENT_SECONDS)
    except SlurmError as error:
        yield skipped("admin comment", str(error))
        return
    foreign = sorted(text for text in found if not text.startswith("sluice("))
    if not foreign:
        own = "Sluice notes decisions there" if site.config.admin_comment else "Sluice writes none"
        yield Finding("OK", "admin comment", f"{own}, and no other tool's were seen")
        return
    shown = "".join(filter(str.isprintable, foreign[0][:12]))
    if site.config.admin_comment:
        yield Finding(
            "WARN",
            "admin comment",
            f"another tool writes admin comments ({shown}…), and AdminComment=1: it may take the "
            "notes of Sluice for its own, or miss an empty comment",
            "set AdminComment=0 in sluice.conf; `sluice why` tells all that the notes do",
        )
    else:
        yield Finding(
            "OK",
            "admin comment",
            f"another tool writes them ({shown}…), and Sluice none: keep AdminComment=0",
        )


def speed(site: Site) -> Iterator[Finding]:
    """Print the plugin's own histogram of its CPU time in job_submit."""
    for path, words in (
        ("known", "known applications"),
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
    if site.config is None or site.controller is None:
        return
    if furthest_mode(site.config) != "enforce":
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
    is_off = service.is_off(site.config)
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
        yield Finding(
            "WARN",
            "preemption",
            str(error),
            "leave the QoS that preempt alone by ModeOf=off Qos=NAME",
        )
        return
    if names:
        yield Finding("OK", "preemption", f"left alone, as they preempt: QoS {', '.join(names)}")
    else:
        yield Finding(
            "WARN",
            "preemption",
            "PreemptType=preempt/qos, but sacctmgr tells of no QoS that preempts",
            "if some do, leave them alone by ModeOf=off Qos=NAME",
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


SHOWN = 3
"""Jobs for which the command is given."""

Names = dict[str, tuple[int, str]]


def reservations(site: Site) -> Iterator[Finding]:
    """Find reservations that are in the way of a lease."""
    if site.config is None or site.controller is None:
        return
    if furthest_mode(site.config) != "enforce":
        return
    names = token_names(policy_in_use(site.config))
    try:
        found = slurm_commands.reservations()
    except SlurmError:
        return  # `gates` says so
    for reservation in found:
        if lease_of(reservation) is None:
            yield from _in_the_way(reservation, names)


def _in_the_way(reservation: Reservation, names: Names) -> Iterator[Finding]:
    name = reservation.name
    if name.startswith(PREFIX) and name.removeprefix(PREFIX) in names:
        yield Finding(
            "FAIL",
            "reservations",
            f"{name} has the name of a lease and is none, so its gate cannot be closed",
            f"`scontrol delete reservationname={name}`, or make it under another name",
        )
        return
    licenses = parse_licenses(reservation.licenses)
    ours = [f"{token}:{count}" for token, count in licenses.items() if token in names and count]
    if not ours:
        return
    rest = ",".join(f"{token}:{count}" for token, count in licenses.items() if token not in names)
    remedy = (
        f"`scontrol update reservationname={name} licenses={rest}`"
        if rest
        else f"`scontrol delete reservationname={name}`"
    )
    text = f"{name} reserves {', '.join(ours)}, so the gate lets out fewer, or cannot be closed"
    yield Finding("FAIL", "reservations", text, f"leave Sluice's tokens out of it: {remedy}")


def strangers(site: Site) -> Iterator[Finding]:
    """Find jobs with tokens that Sluice never gave them: other jobs wait for these."""
    if site.config is None or site.controller is None:
        return
    if hidden(os.geteuid(), site.controller, ("jobs",)):
        return  # `gates` says so
    names = token_names(policy_in_use(site.config))
    try:
        queue = site.queue()
    except SlurmError:
        return
    found, licenses = holdings(queue.jobs.values(), names), queue.licenses
    taken = [holding for holding in found if any(count > 1 for _, count in holding.counts)]
    others = [holding for holding in found if holding not in taken]
    history, cluster = Path(site.config.history), site.controller.cluster
    unknown, ungranted = _by_history(history, cluster, others)
    taken += ungranted
    if taken:
        yield Finding(
            "FAIL",
            "tokens of users",
            f"{len(taken)} jobs have tokens that Sluice did not give them: {_jobs(taken)}",
            _commands(taken, licenses),
        )
    if unknown:
        yield Finding(
            "WARN",
            "tokens without a decision",
            f"{len(unknown)} jobs have tokens, and no decision of theirs is known: "
            f"{_jobs(unknown)}",
            "nothing, if they were submitted just now; else their records were lost, and "
            f"{_commands(unknown, licenses)}",
        )


def _by_history(
    path: Path, cluster: str, found: list[Holding]
) -> tuple[list[Holding], list[Holding]]:
    """Return those of which no decision is known, and those whose decisions gave no tokens."""
    unknown: list[Holding] = []
    ungranted: list[Holding] = []
    if not found or not may_read(path):
        return unknown, ungranted
    try:
        with Store(path, read_only=True) as store:
            for holding in found:
                given = _given(store, holding, cluster)
                if given is None:
                    unknown.append(holding)
                elif not given:
                    ungranted.append(holding)
    except HistoryError:
        return [], []  # `history` says so
    return unknown, ungranted


def _given(store: Store, holding: Holding, cluster: str) -> bool | None:
    """Whether a decision gave the job tokens of its class; None: none is known."""
    decisions = store.decisions.decisions_for_job(holding.job.submission_id, cluster)
    decisions += store.decisions.second_decisions(holding.job.submission_id, since=0)
    classes = set()
    for decision in decisions:
        try:
            classes.add(Record.parse(decision.record).to_dict()["grant"]["tokens"]["klass"])
        except CoreError:
            return True  # of another version: unknown
    return holding.klass in classes if classes else None


def _jobs(found: list[Holding]) -> str:
    shown = [
        f"{one.job.submission_id} ({', '.join(f'{name}:{count}' for name, count in one.counts)})"
        for one in found[:SHOWN]
    ]
    return ", ".join(shown) + (", …" if len(found) > SHOWN else "")


def _commands(found: list[Holding], licenses: Mapping[str, object]) -> str:
    """Return what takes the tokens off, job by job."""
    commands = dict.fromkeys(release_of(one, licenses).command for one in found[:SHOWN])
    return "take them off: " + ", ".join(f"`scontrol {command}`" for command in commands)
