"""What Slurm says of itself, as frozen records, and what can go wrong in asking.

Times are UTC seconds, 0 or None where Slurm knows none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class SlurmError(Exception):
    """Slurm or the plugin in it cannot be asked."""


class CommandFailedError(SlurmError):
    """A command of Slurm failed, took too long, or is not installed."""


class FeedError(SlurmError):
    """sluice-feed is missing, ended, hung, or was refused an answer by Slurm."""


class PluginUnreachableError(SlurmError):
    """The plugin's socket is not served."""


class PluginAnswerError(SlurmError):
    """The plugin's answer makes no sense to this version."""


class AnotherDaemonError(SlurmError):
    """Another sluiced writes the same snapshot."""


class UnknownJobError(SlurmError):
    """No job of this number is known, or none that the asking user may see."""


class QueryError(SlurmError):
    """sluiced cannot be asked, or does not answer this user."""


ENDED = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "TIMEOUT",
    }
)
"""States in which a job record stays."""


RUNNING = frozenset({"CONFIGURING", "RUNNING"})

HOLDING = frozenset({"COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED"})
"""States, besides those of running jobs, in which licences are held."""

STATES = frozenset(
    {
        *(*ENDED, *RUNNING, *HOLDING, "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD"),
        *("SPECIAL_EXIT", "RESV_DEL_HOLD", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL"),
        *("POWER_UP_NODE", "EXPEDITING"),
    }
)
"""All of every version."""


class QueuedJob(NamedTuple):
    """One job record of the controller: a job, a task of an array, or its tasks that wait.

    A tuple: each poll compares those that Slurm told with those before, which tuples do in C.
    """

    job_id: int
    """Its own number, also of an array task."""
    submission_id: int
    """The number that sbatch printed: the array's; a component's own in a heterogeneous job."""
    component: int | None
    """Of a heterogeneous job, from 0; None: no such job."""
    is_array: bool
    tasks_waiting: int
    """Of an array, those that its record stands for while they wait; else 1."""
    restarts: int
    uid: int
    submit: int
    """Of the first start only while restarts is 0: a requeue changes it."""
    eligible: int | None
    """When nothing but resources kept it waiting any more."""
    start: int | None
    end: int | None
    """While it runs: by its time limit."""
    state: str
    account: str | None
    partition: str
    """A list while a job waits that named several."""
    qos: str | None
    nodes: int
    tasks: int
    cpus: int
    time_limit: int | None
    """Minutes; None: unlimited or not set yet."""
    licenses: str
    """As asked for, `a:2,b`; empty: none."""
    exit_code: str | None
    """`exit:signal`."""
    name: str
    marks: tuple[tuple[int, int], ...] = ()
    """Boot and number of decision records, as the notes on the job have them."""
    block: tuple[int, int] = (0, 0)
    """First target and how many, as the note has them; (0, 0): all of its lanes."""

    @property
    def is_running(self) -> bool:
        return self.state in RUNNING

    @property
    def holds_licenses(self) -> bool:
        """Slurm counts its licences as used: also while it is suspended or its epilog runs."""
        return self.is_running or self.state in HOLDING

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def is_pending(self) -> bool:
        return self.state == "PENDING"


@dataclass(frozen=True, slots=True)
class LicenseChange:
    """What a job's licences are to become, if it is still as it was seen.

    An array that waits is changed as a whole, because a change of some of its tasks would split its
    record; so its tasks that run are changed as well.
    """

    job: QueuedJob
    licenses: str

    @property
    def target(self) -> int:
        """The job, or the array."""
        return self.job.submission_id if self.job.is_pending else self.job.job_id

    @property
    def command(self) -> str:
        """What an administrator would tell scontrol."""
        return f"update jobid={self.target} licenses={self.licenses}"


@dataclass(frozen=True, slots=True)
class License:
    """What the controller counts of a licence."""

    name: str
    total: int
    used: int
    reserved: int


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation, as far as it can be one of ours."""

    name: str
    end: int
    nodes: int
    licenses: str
    start: int = 0
    flags: int = 0
    """RESERVE_FLAG_* of slurm.h."""


@dataclass(frozen=True, slots=True)
class Room:
    """How much a partition could start now; what is in doubt counts as free."""

    nodes: int
    """With at least one processor free."""
    cpus: int
    """Free on them."""
    is_unlimited: bool
    """It may oversubscribe its nodes."""


@dataclass(frozen=True, slots=True)
class Partition:
    name: str
    is_default: bool
    qos: str | None
    """The partition's own QoS."""
    tier: int
    """PriorityTier."""
    preempt_mode: str
    """What happens to its jobs when others preempt them; OFF: nothing."""


@dataclass(frozen=True, slots=True)
class UserDefaults:
    """What Slurm fills in where a user gives nothing."""

    uid: int
    account: str
    qos: str = ""
    is_operator: bool = False
    """By the accounting: what PrivateData hides from users, operators see."""


@dataclass(frozen=True, slots=True)
class Controller:
    """The settings of the controller that matter to Sluice."""

    cluster: str
    slurm_version: str
    slurm_uid: int
    """Of SlurmUser."""
    job_submit_plugins: tuple[str, ...]
    plugin_dirs: tuple[str, ...]
    preempt_type: str
    accounting: str
    priority_flags: tuple[str, ...]
    scheduler_parameters: tuple[str, ...]
    private_data: tuple[str, ...] = ()
    """What users may not see of others: jobs, reservations, …"""
