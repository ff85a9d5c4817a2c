"""What `sluice doctor` finds, and what daemons say is wrong with themselves."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sluice.history_db.errors import HistoryError
from sluice.history_db.store import Store
from sluice.policies.core import CoreError, takes_turns
from sluice.policies.record import Record
from sluice.policies.snapshot import CLOCK_DIFFERENCE
from sluice.slurm.queue import Queue
from sluice.slurm.records import SlurmError
from sluice.slurm.service import may_read
from sluice.slurm.slurm_commands import configured_slurm_uid
from sluice.slurm.status import (
    LEASES,
    NOT_RENEWED,
    REFUSED,
    is_locked,
    learner_path,
    lock_path,
    read_status,
    status_path,
    turns_path,
)
from sluice.slurm.turns import LOST, UNSEEN, covered
from sluice.slurm.views.formatting import (
    COUNT,
    UNCONFIRMED,
    claims_text,
    duration_text,
    one_line,
    share_text,
    time_text,
)
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sluice.history_db.records import Decision
    from sluice.policies.core import Config
    from sluice.slurm.records import Controller
    from sluice.slurm.status import Status, Trouble


@dataclass(frozen=True, slots=True)
class Finding:
    level: str
    """OK, WARN, FAIL, or SKIP: this user may not see what it takes to judge."""
    topic: str
    text: str
    remedy: str = ""


@dataclass(slots=True)
class Site:
    """What the checks know; the first ones fill it for the others."""

    config_path: Path
    is_named: bool = False
    """Whether the configuration was named, so that it must be there."""
    config: Config | None = None
    controller: Controller | None = None
    stats: dict[str, Any] = field(default_factory=dict)
    sluiced_runs: bool = False
    _queue: Queue | SlurmError | None = None
    polled: int = 0
    """When the queue was, UTC seconds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if isinstance(self._queue, Queue):
            self._queue.close()

    def queue(self) -> Queue:
        """Return the queue, polled once for all that ask; or raise why it could not be."""
        if self._queue is None:
            polled = Queue()
            try:
                polled.poll()
                self._queue, self.polled = polled, int(time.time())
            except SlurmError as error:
                polled.close()
                self._queue = error
        if isinstance(self._queue, SlurmError):
            raise self._queue
        return self._queue

    @property
    def is_service(self) -> bool:
        """Whether this user may ask the plugin and change Sluice's files."""
        return os.geteuid() in {0, self.slurm_uid}

    @property
    def slurm_uid(self) -> int | None:
        """Whose files slurmctld believes, besides root's; None where nothing tells."""
        return self.controller.slurm_uid if self.controller else configured_slurm_uid()

    def trusted_uid(self, path: Path) -> int:
        """Whose file this may be besides root's: its owner's where it is not known."""
        return path.stat().st_uid if self.slurm_uid is None else self.slurm_uid


def skipped(topic: str, text: str) -> Finding:
    return Finding("SKIP", topic, text, "run this as root, as SlurmUser, or in the service group")


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long a file is good for, and what to say once it is not."""

    seconds: float
    level: str
    """WARN or FAIL: of a file that is too old or from the future."""
    remedy: str
    writer: str
    """The command that writes the file."""

    def judge(self, topic: str, text: str, written: float) -> Finding:
        """Say whether a file is well, by its age.

        One from the future is not: once its time has come it would look younger than it is.
        """
        age = time.time() - written
        if age < -CLOCK_DIFFERENCE:
            ahead = f"{text}; dated {duration_text(-age)} in the future"
            return Finding(self.level, topic, ahead, self._clocks())
        text = f"{text}; {duration_text(max(0.0, age))} old"
        if age > self.seconds:
            return Finding(self.level, topic, f"{text}: too old", self.remedy)
        return Finding("OK", topic, text)

    def _clocks(self) -> str:
        return (
            f"compare `date -u` here and on the machine where {self.writer} ran, set the clock "
            f"that is wrong, then let {self.writer} write the file anew"
        )


SETTLED = 30
"""Seconds after its start by which a node has registered a job."""
MOST_CHECKED = 200
"""Running jobs whose decisions are read."""
SHOWN = 5
"""Jobs or tokens that a finding names."""
HISTORY = (
    "make room, or let the user of sluiced write there; until then nothing is learned, and "
    "slurmctld keeps the latest 4,096 decisions"
)
TOPICS = {
    "configuration": "repair it, then `sluice config check`; the last good one is in use",
    "controller": "`scontrol ping`; sluiced runs as SlurmUser, as root, or as an operator",
    "plugin": "see slurmctld's log for `sluice`, and compare Socket with sluice.conf",
    "history": HISTORY,
    "targets": HISTORY,
    "gates": "do what the text says; `sluice off` opens all gates meanwhile",
    "releases": "do what the text says; `sluice off` opens all gates meanwhile",
    "turns": "let the user of sluiced read what sluice-turns writes next to Snapshot",
    "snapshot": "let the user of sluiced write the directory of Snapshot; jobs are left alone",
    "status": "let the user of sluiced write the directory of Snapshot",
    "metrics": "let the user of sluiced write the directory of Snapshot",
    "queries": "let the user of sluiced write the directory of Socket; users cannot ask until then",
}
"""What to do where sluiced fails, by topic."""
SEE_LOG = "see the log of sluiced"
NAMED = {
    REFUSED: (
        "Slurm does not let sluiced take the tokens off these jobs",
        (
            "put back into slurm.conf what the text misses, or `scontrol update jobid=… licenses=` "
            "with the job's other licences; `sluice off` opens all gates meanwhile"
        ),
    ),
    LEASES: (
        "these leases cannot be kept, so their gates are open",
        (
            "`scontrol show reservation`: take the token out of other reservations, and rename or "
            "delete one that has the lease's name"
        ),
    ),
    NOT_RENEWED: (
        "these gates are left open, because a job has waited for too long",
        (
            "see why the jobs do not start: `scontrol show job`, `sluice why`; the gates close "
            "again once they run"
        ),
    ),
}
"""What is the matter with those that sluiced names, and what to do."""


def troubles(site: Site) -> Iterator[Finding]:
    """Say what fails in a sluiced that runs: to start it would repair nothing."""
    if site.config is None or not site.sluiced_runs:
        return
    path = status_path(Path(site.config.snapshot))
    if not may_read(path):
        yield skipped("sluiced", f"{path} is not readable for {user_text(os.geteuid())}")
        return
    status = read_status(Path(site.config.snapshot))
    if status is None:
        yield Finding(
            "WARN",
            "sluiced",
            f"{path} does not say how it fares",
            "restart sluiced, which may be of another version; its log says if it cannot write",
        )
        return
    for topic, trouble in status.failing.items():
        text = f"sluiced fails since {time_text(trouble.since)}: {one_line(trouble.text)}"
        yield Finding("FAIL", topic, text, TOPICS.get(topic, SEE_LOG))
    yield from _programs(status)
    yield from named(status)


RESTARTED = 3600
"""Seconds for which the end of a program is named."""
ITS_LOG = "the log of sluiced has its last words; sluiced starts it again by itself"


def _programs(status: Status) -> Iterator[Finding]:
    """Say which programs do not run that sluiced is to run, or ended within the last hour."""
    found = [*_ended_programs(status)]
    if status.children and not found:
        found = [Finding("OK", "programs", f"running: {', '.join(status.children)}")]
    yield from found


def _ended_programs(status: Status) -> Iterator[Finding]:
    for name, row in status.children.items():
        why = one_line(row["last_exit"] or "it was not started yet")
        if row["since"] is None:
            yield Finding("FAIL", name, f"does not run: {why}", ITS_LOG)
        elif row["ended"] is not None and row["ended"] > time.time() - RESTARTED:
            text = f"ended at {time_text(row['ended'])} ({why}); it runs again"
            yield Finding("WARN", name, f"{text}, after {row['restarts']} restarts", ITS_LOG)


def learning(site: Site) -> Iterator[Finding]:
    """Say what fails in a sluice-learn that runs here, or did."""
    if site.config is None:
        return
    path = learner_path(Path(site.config.history))
    if not may_read(status_path(path)) or (status := read_status(path)) is None:
        return  # a site may train by hand
    with suppress(OSError):
        if not is_locked(path):
            yield Finding(
                "WARN",
                "sluice-learn",
                "does not run, so nothing is learned from the jobs that end",
                "sluiced starts it where DarshanLogs is set; its log says why it ended",
            )
            return
    for topic, trouble in status.failing.items():
        yield Finding(
            "WARN",
            f"sluice-learn, {topic}",
            f"fails since {time_text(trouble.since)}: {one_line(trouble.text)}",
            "see `sluice status`, and the log of sluiced",
        )
    if not status.failing:
        yield Finding("OK", "sluice-learn", "runs; `sluice status` says how far it is")


CLAIM_AGE = 30 * 86400  # seconds


def evidence(site: Site) -> Iterator[Finding]:
    """Say how many predictions wait for a counter, and which jobs' logs claim too much."""
    if site.config is None or not may_read(Path(site.config.history)):
        return
    with suppress(HistoryError), Store(Path(site.config.history)) as store:
        model = store.models.model_in_use()
        metrics = next((one.metrics for one in store.models.trainings() if one.id == model), {})
        claims = store.runs.claims_beyond_counts(since=int(time.time()) - CLAIM_AGE, limit=SHOWN)
        status = read_status(learner_path(Path(site.config.history)))
        facts = status.facts if status else {}
        count = facts.get("unconfirmed", metrics.get("unconfirmed", 0))
        if count:
            yield Finding("WARN", "evidence", f"{count} {UNCONFIRMED}", COUNT)
        if claims:
            yield Finding("WARN", "evidence", claims_text(claims), "ask the owners of these jobs")


UNSEEN_SECONDS = 600
"""After so long a job that takes turns should have written, or is not seen."""
SILENT_SECONDS = 10
"""sluice-turns writes its status every second."""
UNCOVERED = 0.1
"""Share of the bytes written in ways that are not held, from which that is named."""
ON_A_NODE = "/usr/share/doc/sluice/guide/turns.md#when-a-job-takes-no-turns"


def turns(site: Site) -> Iterator[Finding]:
    """Say what is wrong with turns, where the site has a coordinator of them."""
    config = site.config
    if config is None or config.turns_port == 0 or "off" in {config.mode, config.turns}:
        return
    yield from _turns_settings(config)
    path = turns_path(Path(config.snapshot))
    try:
        is_running = is_locked(path)
    except FileNotFoundError:
        is_running = False
    except OSError:
        yield skipped("turns", f"{lock_path(path)} is not readable for {user_text(os.geteuid())}")
        return
    status = read_status(path)
    if not is_running:
        yield Finding(
            "FAIL",
            "turns",
            "sluice-turns does not run, so all bursts go",
            "sluiced starts it on this host; its log says why it ended",
        )
    elif status is None or time.time() - status_path(path).stat().st_mtime > SILENT_SECONDS:
        yield Finding(
            "FAIL",
            "turns",
            f"sluice-turns has not written {status_path(path)} for {SILENT_SECONDS} s",
            "see the log of sluiced; make room in the directory of Snapshot",
        )
    else:
        yield from _turns_status(site, status)


def _turns_settings(config: Config) -> Iterator[Finding]:
    unknown = [lane.name for lane in config.policy.lanes if not lane.bandwidth]
    if unknown or not config.policy.lanes:
        which = f"of lane {', '.join(unknown)}" if unknown else "as no lane is defined,"
        yield Finding(
            "WARN",
            "turns",
            f"{which} the Bandwidth is not known, so no job is held for it",
            "give each lane in sluice.conf a Bandwidth=, as in Lane=sl0 Targets=4 Bandwidth=20G",
        )


def _turns_status(site: Site, status: Status) -> Iterator[Finding]:
    found = [*_turns_troubles(status), *_turns_on_nodes(site, status)]
    share = covered(status)
    if not found:
        facts = status.facts
        text = f"{facts['mode']}; {facts['agents']} agents, {facts['jobs']} jobs"
        ways = "" if share is None else f"; {share_text(share)} of the bytes can be held"
        found = [Finding("OK", "turns", text + ways)]
    yield from found


def _turns_troubles(status: Status) -> Iterator[Finding]:
    for topic, trouble in status.failing.items():
        text = f"{topic}, since {time_text(trouble.since)}: {one_line(trouble.text)}"
        yield Finding("WARN", "turns", text, "repair that file; the last good one is in use")
    for count, text, remedy in (
        (
            status.facts.get("refused_agents", 0),
            "connections of agents were refused",
            (
                "the log of sluiced says why: same MUNGE key and clock on all nodes, and an "
                "agent that runs as root or SlurmUser"
            ),
        ),
        (
            status.facts.get("unkept", 0),
            "held bursts were not kept",
            "make room in the directory of Snapshot",
        ),
        (
            status.counts.get("refused", 0),
            "processes found no room in their job's page: they are not held",
            "nothing, if jobs start more processes than twice the CPUs of a node",
        ),
        (
            status.counts.get("no_room", 0),
            "parts of jobs found no room in sluice-turns",
            "see its limits in /usr/share/doc/sluice/reference/turns-protocol.md",
        ),
    ):
        if count:
            yield Finding("WARN", "turns", f"{count} {text}", remedy)
    share = covered(status)
    if share is not None and share < 1 - UNCOVERED:
        yield Finding(
            "WARN",
            "turns",
            f"only {share_text(share)} of the bytes are written in ways that can be held",
            "/usr/share/doc/sluice/guide/turns-support.md#what-it-does-not-see lists the others",
        )


def _turns_on_nodes(site: Site, status: Status) -> Iterator[Finding]:
    if lost := status.named.get(LOST):
        yield Finding(
            "WARN",
            "turns",
            f"agents with jobs are not heard of: {_listed(lost, 0)}",
            "`systemctl status sluice-agent` there, and the network; their jobs go",
        )
    before = time.time() - UNSEEN_SECONDS
    unseen = {job: row for job, row in status.named.get(UNSEEN, {}).items() if row.since < before}
    if unseen:
        yield Finding(
            "WARN",
            "turns",
            f"of jobs that take turns no write was seen: {_listed(unseen, 0)}",
            f"they do not write on turns_on=, are statically linked, or run in containers that "
            f"do not have the library: {ON_A_NODE}",
        )
    if missing := _without_a_page(site, status):
        yield Finding(
            "WARN",
            "turns",
            f"no node has registered jobs that are to take turns: {', '.join(missing[:SHOWN])}"
            + (f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""),
            "slurmd's log there says why in a line with --io-turns: the library (turns=), the "
            f"mount point (turns_on=) or sluice-agent is missing; {ON_A_NODE}",
        )


def _without_a_page(site: Site, status: Status) -> list[str]:
    """Return running jobs that are to take turns, where sluice-turns knows of no job at all."""
    if site.config is None or site.controller is None or status.facts.get("jobs"):
        return []
    before = int(time.time()) - SETTLED
    try:
        running = [
            job.submission_id
            for job in site.queue().jobs.values()
            if job.is_running and job.start and job.start < before
        ][:MOST_CHECKED]
        with Store(Path(site.config.history), read_only=True) as store:
            made = store.decisions.decisions_for_jobs(running, site.controller.cluster)
    except (SlurmError, HistoryError):
        return []  # other checks say so
    return [str(one.job_id) for one in made if _is_to_take_turns(one)]


def _is_to_take_turns(decision: Decision) -> bool:
    try:
        return takes_turns(Record.parse(decision.record).grant.in_turns)
    except CoreError:
        return False  # of another version


def named(status: Status) -> Iterator[Finding]:
    """Say which jobs and gates sluiced has trouble with."""
    for topic, (what, remedy) in NAMED.items():
        rows = status.named.get(topic)
        if rows:
            text = f"{what}: {_listed(rows, status.counts.get(topic, 0))}"
            yield Finding("FAIL", topic, text, remedy)


def _listed(rows: Mapping[str, Trouble], count: int) -> str:
    shown = [
        f"{name} (since {time_text(row.since)}: {one_line(row.text)})"
        for name, row in list(rows.items())[:SHOWN]
    ]
    more = max(count, len(rows)) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")
