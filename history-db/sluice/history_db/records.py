"""What the history keeps, as frozen records: the border between SQL and everything else.

Times are UTC seconds, sizes bytes; None means unknown or unlimited.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

NUMBERS = (
    "chunk_bytes",
    "nprocs",
    "write_bytes",
    "read_bytes",
    "files",
    "rate",
    "metadata_rate",
    "burst_seconds",
    "period_seconds",
    "io_share",
    "runtime_seconds",
    "bytes_per_flush",
    "creates_per_mib",
    "unflushed_bytes",
    "direct_share",
    "collective_share",
    "shared_share",
    "targets",
    "async_io",
    "read_chunk_bytes",
    "read_sequential_share",
    "read_cached_share",
)
"""The numeric fields of a profile, as policies/core/profile.h names them (a test compares)."""


@dataclass(frozen=True, slots=True)
class Log:
    """A Darshan log that was offered to `sluice history ingest`, read or quarantined."""

    digest: bytes
    """BLAKE2b-128 of the file: the same log under two names is one log."""
    path: str
    size: int
    mtime_ns: int
    reason: str | None
    """Why it is quarantined; None for a log that was read."""
    jobid: int | None
    uid: int | None
    exe: str | None
    start: int | None
    end: int | None
    nprocs: int | None
    partial: bool
    """Darshan ran out of records: what it says is incomplete."""
    format: str | None
    """Log format version, e.g. `3.41`."""
    osts: tuple[int, ...] | None = None
    """Lustre storage targets that its files lie on; None: not known, or many."""
    heatmap: bytes | None = None
    """When it moved how many bytes, packed (classifier/timeline.py); None: not known."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The I/O profile of one run. Field names and units are those of policies/core/profile.h."""

    pattern: str
    confidence: float
    shares: dict[str, float]
    """Share of the bytes by pattern name."""
    numbers: dict[str, float]
    """Profile fields that are known, by name."""
    log_sd: float
    runs: int = 1
    spread: dict[str, float] = field(default_factory=dict)
    """Standard deviation of ln (value of the next run), by number; what is not there is unknown."""


# By which a claim may exceed a count: Slurm takes no sample as a process ends, so the last burst
# may be missing.
COUNT_MARGIN = 2.0
COUNT_SLACK = 1 << 20  # bytes that need no count


def is_borne_out(claimed: float, counted: float | None) -> bool:
    """Whether a system counter bears out that a job moved so many bytes."""
    return claimed <= COUNT_MARGIN * (counted or 0) + COUNT_SLACK


@dataclass(frozen=True, slots=True)
class Job:
    """One job as Slurm accounts for it."""

    cluster: str
    job_id: int
    submit: int
    restarts: int
    name: str | None
    user: str | None
    uid: int | None
    account: str | None
    partition: str | None
    qos: str | None
    nodes: int | None
    tasks: int | None
    cpus: int | None
    time_limit: int | None
    """Minutes."""
    start: int | None
    end: int | None
    state: str | None
    exit_code: str | None
    submit_line: str | None
    script_signature: int | None
    source: str
    """`sacct` or `sluiced`."""
    array_task: int = -1
    """Only where `12_3` is known and the raw job id is not: job_id is then 12."""
    write_bytes: int | None = None
    """As its steps were accounted for, or as the file system's servers counted."""
    read_bytes: int | None = None
    metadata_operations: int | None = None
    array_job: int | None = None
    """The number that sbatch printed for the array that it is a task of; None: of none."""
    array_index: int | None = None
    """Its number in that array."""
    accounted_write_bytes: int | None = None
    """By Slurm's accounting alone, which no user can write."""
    accounted_read_bytes: int | None = None
    served_uid: int | None = None
    """The user that the file system's servers name next to their counts of this job."""

    @property
    def submission_id(self) -> int:
        """The job id under which the decision about it is kept: the array's, or its own."""
        return self.array_job or self.job_id


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs a list is of; an empty tuple stands for all."""

    uids: tuple[int, ...] = ()
    accounts: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    """As Slurm names them, in capitals."""
    since: int = 0
    """UTC seconds."""
    before: tuple[int, int] | None = None
    """Only decisions before this one, by time and number; None: up to the latest."""

    def until(self, before: tuple[int, int] | None) -> Selection:
        """Return the same, before another decision."""
        return replace(self, before=before)


@dataclass(frozen=True, slots=True)
class DecisionCounts:
    """How many decisions were made in a span of time, and found no job."""

    all: int
    without_job: int


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision record as the plugin made it; `record` is the bytes of struct sluice_record."""

    boot: int
    number: int
    now: int
    cluster: str
    uid: int
    job_id: int | None
    """None until sluiced has joined it."""
    joined_by: str | None
    """`mark` or `key`: how the job id was found; `tie`: several jobs fit equally well."""
    record: bytes
    bundle: int = 0
    """Checksum of the bundle it was made with; 0: none."""
    snapshot: int = 0
    """Checksum of the snapshot it was made with; 0: none."""
    is_second: bool = False
    """sluiced made it when the job came near its start, and acted on it."""


@dataclass(frozen=True, slots=True)
class LogKey:
    """What tells without reading a file that it was ingested before."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Run:
    """One log that was read, its profile, and the job it belongs to where that is known."""

    log_id: int
    log: Log
    profile: Profile
    features: bytes
    """float32, little-endian: the pattern classifier's input."""
    job: Job | None


@dataclass(frozen=True, slots=True)
class Application:
    """What was learned about one key of the application table."""

    evidence: str
    key: int
    label: str
    """The key in words."""
    runs: int
    logs: tuple[int, ...]
    """The latest logs behind it."""
    id: int = 0
    """Given by the history; the bundle's application table carries it."""


@dataclass(frozen=True, slots=True)
class Known:
    """An application that a model knows, in a word, without the list of its runs."""

    id: int
    evidence: str
    label: str
    runs: int
    uid: int | None
    """Of a run behind it; None: none is kept any more."""


@dataclass(frozen=True, slots=True)
class Training:
    """What is told of a trained model; the model itself is megabytes."""

    id: int
    created: int
    metrics: dict[str, object]


@dataclass(frozen=True, slots=True)
class Model(Training):
    """A trained model, as the history keeps it."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Publication:
    """What is told of a bundle that was published; the file itself is megabytes."""

    checksum: int
    model: int | None
    path: str
    published_at: int


@dataclass(frozen=True, slots=True)
class StoredReview:
    """What an administrator ruled, as it was written down."""

    name: str
    source: str
    """`command`, `page` or `file`: there it stands in a file that the site keeps."""
    made_at: int
    """UTC seconds."""
    content: dict[str, Any]
    undone_at: int | None = None
    undone_by: str | None = None


@dataclass(frozen=True, slots=True)
class Bundle(Publication):
    """A bundle that was published."""

    content: bytes
    """The whole file."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cluster snapshot that decisions were made with."""

    checksum: int
    sequence: int
    taken: int
    content: bytes
    """The whole file."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A running job as the gates saw it."""

    job_id: int
    submit: int
    klass: str
    """Empty: it held no token, and counted as background."""
    lane_mask: int


@dataclass(frozen=True, slots=True)
class RunningSet:
    """Jobs that ran together, from one poll of the controller until the set changed."""

    cluster: str
    taken: int
    holders: tuple[Holder, ...]
    gates: dict[str, int]
    """Tokens that each gate let out after that poll."""


@dataclass(frozen=True, slots=True)
class Release:
    """A waiting job whose tokens sluiced took off."""

    cluster: str
    job_id: int
    submit: int
    released: int
    tokens: str
    reason: str
    """One of SLUICE_RELEASES (policies/core/control.h)."""
    waited: float


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A change of a setting, of the switch, of the bundle in use, or of a review."""

    at: int
    """UTC seconds."""
    uid: int | None
    """Its author; None: unknown."""
    cluster: str
    """Empty for bundles and reviews."""
    subject: str
    """A key of sluice.conf, `switch`, the file of a bundle, or `review` and its name."""
    before: str
    after: str
    reason: str

    @classmethod
    def of_review(
        cls,
        at: int,
        uid: int | None,
        name: str,
        summary: str,
        reason: str,
        *,
        is_undone: bool = False,
    ) -> AuditEntry:
        """Say that a review was made or undone."""
        sides = (summary, "") if is_undone else ("", summary)
        return cls(at, uid, "", f"review {name}", *sides, reason)


@dataclass(frozen=True, slots=True)
class ReportTitle:
    """A report that `sluice report` made: of what, and what it advised."""

    made_at: int
    """UTC seconds."""
    since: int
    """From when on; UTC seconds."""
    verdict: str


@dataclass(frozen=True, slots=True)
class StoredReport(ReportTitle):
    """A report as it was told, and for programs."""

    sections: Sequence[Any]
    """JSON: heading, sentences, tables."""
    facts: dict[str, Any]
    """As `sluice report --json`."""


@dataclass(frozen=True, slots=True)
class HeldBurst:
    """A burst of a running job that was held in turns, or would have been (`is_held`)."""

    cluster: str
    source: str
    """A run of sluice-turns; with the number, what tells it from all others."""
    number: int
    job_id: int
    nodes: int
    first_job: int | None
    """The job that it was last held for."""
    first_nodes: int
    lane_mask: int
    """0: all lanes."""
    began: int
    """UTC seconds."""
    lasted: float
    """Seconds, those held included."""
    held: float
    holds: int
    bytes: float
    saving: float | None
    """Node-seconds that holding it was expected to save."""
    is_held: bool
    """False: only in thought, as observe does."""
    ended: str
    """Why it was released: turn, budget, stretch, trial, no_help, off; burst: it ended held."""


@dataclass(frozen=True, slots=True)
class HeldTotals:
    """Held bursts of some time, added up."""

    bursts: int
    holds: int
    seconds: float
    node_seconds: float
    budgets: int
    """Bursts released because their budget was used up."""
    saving: float
    """Node-seconds, of those bursts of which it is known."""


@dataclass(frozen=True, slots=True)
class ObservedInterference:
    """What one application did to the rate of another's I/O, seen in the logs of some time."""

    victim: str
    aggressor: str
    found: int
    """UTC seconds."""
    rho: float
    """Rate as a share of the undisturbed one; above 1 is a speed-up."""
    log_sd: float
    """Standard deviation of log(rho)."""
    p_value: float
    disturbed: int
    """Slices of time of the victim under the aggressor."""
    undisturbed: int
    since: int = 0
    """Start of the first run among all whose logs were read, and of the last one; UTC seconds.
    Both 0: not recorded."""
    until: int = 0
    false_rate: float = 0.05
    """Share of what is called interference that may be wrong, as it was asked for."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of what ran the logs tell of."""

    jobs: int
    """Of the accounting, that have started."""
    logged_jobs: int
    node_seconds: float
    logged_node_seconds: float
    bytes: float
    """Written and read, as far as logs, sacct or the file system's servers counted them."""
    logged_bytes: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """One measurement of a site's storage with sluice-probe."""

    id: int
    created: int
    site: str
    """What was measured, as `--site` had it."""
    settings: dict[str, object]
    """How it was measured; with them it can be resumed."""
    finished: bool


@dataclass(frozen=True, slots=True)
class CoRun:
    """Programs of sluice-probe alongside each other: the first is the probe, the others signals."""

    started: int
    mode: str
    """`rates`: bytes a second in a common window; `capacity`: bytes a second of programs that are
    all the same to each other."""
    members: tuple[str, ...]
    """As `owc:1M:2`."""
    targets: tuple[str, ...]
    """Of each member."""
    alone: tuple[float, ...]
    """Of the probe, each time it ran alone; in mode `capacity` none."""
    together: tuple[float, ...]
    """Of each member; more than alone where co-runners helped."""
    foreign_share: float
    dropped: str
    """Why it does not count; empty: it does."""


@dataclass(frozen=True, slots=True)
class TargetProbe:
    """What one run of sluice-probe alone got from a storage target."""

    target: str
    program: str
    """As `aw:1M:2`."""
    observed: int
    rate: float
    """B/s that reached the target."""


@dataclass(frozen=True, slots=True)
class ServerCount:
    """What the servers counted on one storage target for some time."""

    target: str
    start: float
    """UTC seconds."""
    seconds: float
    read_bytes: float
    write_bytes: float

    @property
    def bytes(self) -> float:
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True, slots=True)
class TargetCounts:
    """What all counts of the servers come to by target."""

    targets: int
    """That have any."""
    bytes: float
    busiest: float
    """Bytes of the target that moved most in each time, added up over all times."""
    seconds: float
    """That a count lasts in the mean."""
    best_rate: float
    """B/s of a target in its best time, in the mean of targets."""


@dataclass(frozen=True, slots=True)
class PlacedRun:
    """A run of a program by a job, of which it is known where its files were."""

    job: str
    """What other runs of the same job have in common with it."""
    uid: int
    exe: str
    """Without arguments."""
    nprocs: int
    observed: int
    """When it began."""
    ended: int
    moved: float
    """Bytes read and written; 0 where nothing says how many."""
    rate: float
    """B/s while it did I/O; the mean of its logs."""
    lane: int | None
    """Place in the policy of the only lane of which its job held tokens."""
    osts: tuple[int, ...] | None
    with_corunners: bool
    """sluiced saw another job on its job's lanes."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How much the history holds."""

    logs: int
    quarantined: int
    linked: int
    """Logs whose job is known."""
    jobs: int
    decisions: int
    models: int
    bundles: int


@dataclass(frozen=True, slots=True)
class WeekSum:
    """What the runs of one user, job name and program moved in a week."""

    uid: int
    user: str | None
    name: str | None
    exe: str | None
    runs: int
    write_bytes: float
    read_bytes: float
    metadata: float
    """Opens, stats and unlinks."""


@dataclass(frozen=True, slots=True)
class Total:
    """What an application of a user did, in a week or since one."""

    uid: int
    application: str
    user: str | None
    """By the accounting."""
    runs: int
    write_bytes: float
    read_bytes: float
    metadata: float
    """Opens, stats and unlinks."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """How much was forgotten."""

    logs: int
    jobs: int
    decisions: int


@dataclass(frozen=True, slots=True)
class Column:
    """A column of flat rows."""

    name: str
    type: str
    """TEXT, INTEGER or REAL."""


# The interesting name is that of the script they run.
INTERPRETERS = ("python", "perl", "bash", "sh", "Rscript", "julia", "java", "ruby", "lua")


@lru_cache(maxsize=4096)
def program_name(exe: str) -> str:
    """Return what a command line runs: `md.py` of `/usr/bin/python3 -u md.py 7`."""
    words = exe.split()
    name = PurePosixPath(words[0]).name if words else ""
    if name.rstrip("0123456789.") in INTERPRETERS:
        scripts = (word for word in words[1:] if not word.startswith("-"))
        return PurePosixPath(next(scripts, name)).name
    return name
