"""Everything that is known of one job, and its decision made again.

The result is what `sluice why --json` prints; `job_explanation.py` makes words of it.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sluice.history_db.errors import NoSuchValueError
from sluice.policies.bundle import HEAD_BYTES, Bundle, name_of, policy_in
from sluice.policies.core import CoreError, reading_share
from sluice.policies.record import Record, Situation, replay, replay_place
from sluice.policies.review import Selector
from sluice.policies.snapshot import Snapshot
from sluice.prediction.submission_features import SCORED, SLACK, predicted_in
from sluice.slurm.queue import queued_job
from sluice.slurm.records import SlurmError, UnknownJobError
from sluice.slurm.views.formatting import known, tells_size
from sluice.slurm.views.reviews import facts_behind
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from sluice.history_db.records import Decision, HeldBurst, Job, Profile, Run
    from sluice.history_db.store import Store
    from sluice.policies.core import Config
    from sluice.prediction.submission_features import Predicted
    from sluice.slurm.records import QueuedJob
    from sluice.slurm.visibility import Viewer

OF_READS = ("read_chunk_bytes", "read_sequential_share", "read_cached_share")
"""Numbers of a profile that nothing is compared by."""
LEAST_READS = 0.1
"""Of a job's bytes: fewer are not worth a word."""


def replay_decision(store: Store, record: Record, config: Config) -> dict[str, Any]:
    """Decide again and compare: `equal` is None where an input is no longer there.

    Exemptions come from sluice.conf, which is not kept: where it has changed since, that is said.
    """
    situation = None
    if record.bundle_checksum:
        bundle = store.models.bundle(record.bundle_checksum)
        if bundle is None:
            return _impossible(f"the history has no bundle {record.bundle_checksum:016x}")
        snapshot = None
        if record.snapshot_checksum:
            stored = store.decisions.snapshot(record.snapshot_checksum)
            if stored is None:
                return _impossible(f"the history has no snapshot {record.snapshot_checksum:016x}")
            snapshot = Snapshot.parse(stored.content)
        situation = Situation(Bundle.parse(bundle.content), snapshot)
    is_equal = (
        replay(record, situation, config) == record.decision.bytes
        and replay_place(record, situation, config) == record.place.bytes
    )
    is_same_config = record.config_checksum == config.checksum
    verdict = (
        "Bundle and snapshot from the history give the same bits."
        if is_equal
        else "The decision made again is NOT the same."
    )
    caution = "" if is_same_config else " sluice.conf has changed since the decision."
    return {"equal": is_equal, "same_config": is_same_config, "text": verdict + caution}


def _impossible(why: str) -> dict[str, Any]:
    return {"equal": None, "same_config": None, "text": f"It cannot be made again: {why}."}


LOGS_SHOWN = 8
SLURM_TIMEOUT = 3.0  # seconds; without Slurm the story is told from the history


@dataclass(frozen=True, slots=True)
class Found:
    """The decision about a job, as far as it can be told."""

    decision: Decision | None
    tied_with: int = 0
    """Decisions of the same user, name and second, from which it cannot be told apart."""
    array: int | None = None
    """The array that the job is a task of, where the decision is about that."""


MOST_DIGITS = 10
"""Of the number of a job, which has 32 bits."""


@dataclass(frozen=True, slots=True)
class JobNumber:
    """A job as users name it."""

    number: int
    """As sbatch prints it."""
    task: int | None = None
    """Of an array."""

    @classmethod
    def parse(cls, text: str) -> JobNumber | None:
        """Parse 4711, 4711_3 (task of an array) or 4711+1 (component); None: neither.

        Raises NoSuchValueError for a number that no job can have.
        """
        match = re.fullmatch(r"([0-9]+)(?:_([0-9]+)|\+([0-9]+))?", text)
        if match is None:
            return None
        if any(len(digits) > MOST_DIGITS for digits in match.groups("")):
            raise NoSuchValueError(
                "nothing in a history has such a name or number: that of a job has at most "
                f"{MOST_DIGITS} digits"
            )
        number, task, offset = (int(digits) if digits else None for digits in match.groups())
        # Slurm numbers the components of a heterogeneous job one after the other
        return cls((number or 0) + (offset or 0), task)

    def __str__(self) -> str:
        return str(self.number) if self.task is None else f"{self.number}_{self.task}"


def gather(
    store: Store,
    name: JobNumber,
    cluster: str | None,
    *,
    viewer: Viewer,
    replay_with: Config | None = None,
    is_live: bool = True,
) -> dict[str, Any]:
    """Collect what the viewer may know of the latest job with this number.

    With a configuration the decision is also made again. Unless is_live, Slurm is not asked.
    """
    queued, reason = _ask_slurm(name) if is_live else (None, "")
    jobs = store.jobs.jobs_with_id(
        queued.job_id if name.task is not None and queued else name.number, cluster
    )
    found = find_decision(store, name, jobs, cluster)
    record = Record.parse(found.decision.record) if found.decision else None
    owner = record.submission.uid if record else jobs[0].uid if jobs else None
    if not (record or jobs) or not viewer.sees(owner):
        raise UnknownJobError(
            f"no job {name} is known{f' on cluster {cluster}' if cluster else ''}"
            f"{'' if viewer.sees_all else ' of yours (PrivateData)'}; "
            "`sluice decisions` lists those with a decision, and `sluice doctor` says whether "
            "sluiced follows the controller"
        )
    job = jobs[0] if jobs else None
    facts = {
        "job": _job(name, job, record),
        "other_jobs_with_this_number": [
            {"cluster": other.cluster, "submitted": other.submit, "name": other.name}
            for other in _others(jobs)
            if viewer.sees(other.uid)
        ],
        "array": found.array,
        "joined_by": found.decision.joined_by if found.decision else None,
        "tied_with": found.tied_with,
        "record": shown(record, store, viewer) if record else None,
        "interference_model": _interference_model(record, store) if record else None,
        "reads_measured": _reads_measured(record, store) if record else None,
        "evidence": _evidence(record, store, viewer) if record else None,
        "reviews": _reviews(record, store, viewer) if record else [],
        "lanes": _lanes(record, store) if record else [],
        "slow_lanes": _slow_lanes(record, store) if record else {},
        "decided_again": _decided_again(found.decision, store, viewer),
        "releases": _releases(found.decision, store),
        "turns": _turns(job, store, viewer),
        "slurm": _slurm(job, queued, reason),
        "outcome": _outcome(job, record, store),
    }
    if record and replay_with:
        facts["replay"] = replay_decision(store, record, replay_with)
    return facts


def prediction_of(store: Store, job: str, cluster: str | None = None) -> tuple[Selector, str]:
    """Return which jobs a job's prediction is about, and the pattern.

    Those of its user with its name; where it has none, with its script. Raises UnknownJobError.
    """
    number = JobNumber.parse(job)
    if number is None:
        raise UnknownJobError(f"{job} is no job number; write 4711, 4711_3 or 4711+1")
    jobs = store.jobs.jobs_with_id(number.number, cluster)
    decision = find_decision(store, number, jobs, cluster).decision
    if decision is None:
        raise no_decision(job)
    record = Record.parse(decision.record)
    asked = record.submission
    script = 0 if asked.name else asked.script_signature
    of = Selector(uid=asked.uid, name=asked.name, script=script)
    return of, record.prediction.profile.pattern


def no_decision(job: str) -> UnknownJobError:
    """Return the error for a job on which nothing was decided, or that the viewer may not see."""
    return UnknownJobError(
        f"no decision on job {job} is known; `sluice decisions` lists those that are"
    )


def find_decision(store: Store, name: JobNumber, jobs: list[Job], cluster: str | None) -> Found:
    """Find the decision about the latest job with a number, which may have been used before."""
    latest = jobs[0] if jobs else None
    number = (latest and latest.array_job) or name.number
    is_task = name.task is not None or number != name.number
    for decision in store.decisions.decisions_for_job(number, cluster):
        if latest is None or latest.restarts > 0 or abs(latest.submit - decision.now) <= SLACK:
            return Found(decision, array=number if is_task else None)
    if latest is None or latest.uid is None:
        return Found(None)
    near = [
        (decision, Record.parse(decision.record))
        for decision in store.decisions.decisions_of_user(
            latest.uid, since=latest.submit - 1, until=latest.submit + 1
        )
        if decision.cluster == latest.cluster
    ]
    same_name = [
        (decision, record) for decision, record in near if _is_named(record, latest.name or "")
    ]
    arrays = [
        decision
        for decision, record in same_name
        if "array" in record.submission.flags and decision.job_id is not None
    ]
    if len(arrays) == 1:
        return Found(arrays[0], array=arrays[0].job_id)
    tied = [decision for decision, _ in same_name if decision.joined_by == "tie"]
    return Found(tied[0], tied_with=len(tied)) if tied else Found(None)


def _is_named(record: Record, name: str) -> bool:
    return name.encode(errors="surrogateescape").startswith(
        record.submission.name.encode(errors="surrogateescape")
    )


def _others(jobs: list[Job]) -> list[Job]:
    """Other jobs that had the number: on other clusters, or before slurmctld lost its count."""
    return [
        job
        for job in jobs[1:]
        if job.cluster != jobs[0].cluster
        or (job.name, job.uid) != (jobs[0].name, jobs[0].uid)
        or (jobs[0].restarts == 0 and job.submit != jobs[0].submit)
    ]


def _ask_slurm(name: JobNumber) -> tuple[QueuedJob | None, str]:
    """Return the job as Slurm knows it, if it does, and why it waits."""
    try:
        return queued_job(str(name), timeout=SLURM_TIMEOUT) or (None, "")
    except SlurmError:
        return None, ""


def _job(name: JobNumber, job: Job | None, record: Record | None) -> dict[str, Any]:
    submission = record.to_dict()["submission"] if record else {}
    uid = submission.get("uid", job.uid if job else None)
    return {
        "job": str(name),
        "job_id": job.job_id if job else name.number,
        "cluster": record.cluster if record else job.cluster if job else None,
        "name": (job.name if job else None) or submission.get("name"),
        "uid": uid,
        "user": None if uid is None else user_text(uid),
        "nodes": (job.nodes if job else None) or submission.get("nodes"),
        "submitted": job.submit if job else record.now if record else None,
    }


def _slurm(job: Job | None, queued: QueuedJob | None, reason: str) -> dict[str, Any] | None:
    """Say what Slurm did: as it says now, else as sluiced or accounting saw it last."""
    if job is None:
        return None
    seen: dict[str, Any] = {
        "state": job.state,
        "reason": None,
        "submitted": job.submit,
        "started": job.start,
        "ended": job.end,
        "exit_code": job.exit_code,
        "restarts": job.restarts,
        "is_live": False,
    }
    if queued is not None and queued.submit == job.submit:
        seen |= {
            "state": queued.state,
            "reason": reason if queued.is_pending else None,
            "started": None if queued.is_pending else queued.start,
            "ended": queued.end if queued.has_ended else None,
            "exit_code": queued.exit_code if queued.has_ended else None,
            "is_live": True,
        }
    start, end = seen["started"], seen["ended"]
    seen["waited_seconds"] = None if start is None else start - job.submit
    seen["ran_seconds"] = None if start is None or end is None else end - start
    return seen


def _outcome(job: Job | None, record: Record | None, store: Store) -> dict[str, Any] | None:
    """Say what the job did to storage, alongside what was predicted; None while it runs."""
    if job is None or job.start is None or job.end is None:
        return None
    runs = [
        run
        for run in store.runs.runs_of_job(job.job_id, job.cluster)
        if run.job and (run.job.submit, run.job.restarts) == (job.submit, job.restarts)
    ]
    counted = job.write_bytes is not None or job.read_bytes is not None
    if not runs and not counted:
        return {"logs": [], "source": None}
    did = _profile_of(job, runs)
    predicted = predicted_in(record) if record else None
    return {
        "logs": [run.log.path for run in runs],
        "source": "logs" if runs else "accounting",
        "pattern": did.pattern,
        "confidence": did.confidence,
        **{name: did.numbers.get(name) for name in (*SCORED, *OF_READS)},
        "predicted": _alongside(predicted, did, job.end - job.start) if predicted else None,
        "advice": _advice(runs),
    }


def _advice(runs: list[Run]) -> list[dict[str, str]]:
    """Return what the owner could change, by the log that wrote most."""
    from sluice.patterns.advice import advice  # noqa: PLC0415 - numpy is large

    most = max(runs, key=lambda run: run.profile.numbers.get("write_bytes", 0.0), default=None)
    return [] if most is None else [asdict(one) for one in advice(most.profile, most.features)]


def _profile_of(job: Job, runs: list[Run]) -> Profile:
    """Return what the job did in all its logs, else what was counted of it."""
    from sluice.patterns.job_profile import profile_of  # noqa: PLC0415 - numpy is large
    from sluice.prediction.jobs import coarse_profile  # noqa: PLC0415

    return profile_of(runs) if runs else coarse_profile(job)


def _alongside(predicted: Predicted, did: Profile, ran: int) -> dict[str, Any]:
    """Compare: factors are what was, as a multiple of what was predicted."""
    sized = {
        name: value
        for name, value in predicted.numbers.items()
        if tells_size(predicted.spread.get(name))
    }
    alone, rate = sized.get("runtime_seconds"), sized.get("rate")
    own_rate = did.numbers.get("rate")
    return {
        "pattern": predicted.pattern,
        "confidence": predicted.confidence,
        "is_answered": predicted.is_answered,
        "pattern_right": predicted.is_right(did),
        "came_true": predicted.came_true(did),
        "factors": {
            name: factor
            for name in SCORED
            if name in sized and (factor := predicted.factor(did, name)) is not None
        },
        "in_interval": {
            name: inside
            for name in SCORED
            if name in sized and (inside := predicted.is_within(did, name)) is not None
        },
        "alone_seconds": alone,
        "alone_rate": rate,
        "slowdown": ran / alone if alone else None,
        "io_slowdown": rate / own_rate if rate and own_rate else None,
    }


def _decided_again(first: Decision | None, store: Store, viewer: Viewer) -> list[dict[str, Any]]:
    """Collect what sluiced decided on the job near its start, and acted on."""
    if first is None or first.job_id is None:
        return []
    records = [
        Record.parse(decision.record)
        for decision in store.decisions.second_decisions(first.job_id, since=first.now)
        if decision.cluster == first.cluster
    ]
    return [shown(record, store, viewer) for record in records]


def shown(record: Record, store: Store, viewer: Viewer) -> dict[str, Any]:
    """Describe a record; of jobs that the viewer may not see, numbers and sizes are left out."""
    described = record.to_dict()
    prediction = described["decision"]["prediction"]
    prediction["profile"] = known(prediction["profile"])
    place = described.pop("place")
    if place["is_asked"]:
        del place["since"]  # others' jobs
        described["place"] = place
    if not viewer.sees_all:
        for corun in described["decision"]["coruns"]:
            job = store.jobs.job(corun["job_id"], record.cluster)
            if job is None or not viewer.sees(job.uid):
                corun |= {"job_id": None, "nodes": None}
    return described


def _releases(first: Decision | None, store: Store) -> list[dict[str, Any]]:
    """Collect when and why sluiced took tokens off the job."""
    if first is None or first.job_id is None:
        return []
    return [
        {
            "released": release.released,
            "tokens": release.tokens,
            "reason": release.reason,
            "waited": release.waited,
        }
        for release in store.gates.releases(since=first.now, job_id=first.job_id)
        if release.cluster == first.cluster
    ]


def _turns(job: Job | None, store: Store, viewer: Viewer) -> list[dict[str, Any]]:
    """Collect the bursts of this run of the job that were held, or would have been."""
    if job is None or job.start is None:
        return []
    rows = store.gates.held_bursts(
        job.job_id, job.cluster, since=job.start - SLACK, until=job.end and job.end + SLACK
    )
    return [_held_burst(row, store, viewer) for row in rows]


def _held_burst(row: HeldBurst, store: Store, viewer: Viewer) -> dict[str, Any]:
    described = asdict(row) | {"node_seconds": row.held * row.nodes}
    if row.first_job is not None and not viewer.sees_all:
        first = store.jobs.job(row.first_job, row.cluster)
        if first is None or not viewer.sees(first.uid):
            described |= {"first_job": None, "first_nodes": None}
    return described


def _evidence(record: Record, store: Store, viewer: Viewer) -> dict[str, Any]:
    """Collect the earlier runs behind a prediction."""
    application = store.models.application(record.prediction.application)
    runs = store.models.runs_behind(record.prediction.application) if application else []
    return {
        "label": application.label if application and viewer.sees_all else None,
        "runs": application.runs if application else 0,
        "logs": [
            _run(run)
            for run in runs
            if viewer.sees(run.log.uid) and (run.log.end or 0) <= record.now
        ][:LOGS_SHOWN],
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "log": run.log.path,
        "started": run.log.start,
        "exe": run.log.exe,
        "job_id": run.log.jobid,
        "nprocs": run.log.nprocs,
        "pattern": run.profile.pattern,
        "chunk_bytes": run.profile.numbers.get("chunk_bytes"),
        "write_bytes": run.profile.numbers.get("write_bytes"),
        "read_bytes": run.profile.numbers.get("read_bytes"),
    }


def _lanes(record: Record, store: Store) -> list[str]:
    """Names of the lanes that the decision chose among, by their bit in lane masks."""
    policy = policy_in(store.models.bundle_head(record.bundle_checksum, HEAD_BYTES))
    return [lane.name for lane in policy.lanes] if policy else []


def _reviews(record: Record, store: Store, viewer: Viewer) -> list[dict[str, Any]]:
    """Return the reviews that stood when it was decided and are about the job."""
    if not store.administration.reviews():
        return []  # a bundle is megabytes
    bundle = store.models.bundle(record.bundle_checksum)
    if bundle is None:
        return []
    return facts_behind(store, Bundle.parse(bundle.content), record, sees_all=viewer.sees_all)


def _interference_model(record: Record, store: Store) -> dict[str, str | None]:
    """Say by which model its costs were computed; without a name if the bundle is not kept."""
    used = store.models.publication(record.bundle_checksum)
    name = name_of(used.path, used.published_at) if used else None
    return {"source": "bundle", "name": name}


def _reads_measured(record: Record, store: Store) -> bool | None:
    """Return whether the site itself said what reads lose; None: the job hardly reads."""
    if reading_share(record.decision.prediction.profile) < LEAST_READS:
        return None
    from sluice.interference.cost import basis_told  # noqa: PLC0415 - numpy

    bundle = store.models.bundle(record.bundle_checksum)
    basis = basis_told(Bundle.parse(bundle.content).text) if bundle else None
    return bool(basis and (basis.reads or basis.busy_reads))


def _slow_lanes(record: Record, store: Store) -> dict[str, float]:
    """Speeds of the slow lanes by the snapshot of the decision, where that was kept."""
    stored = store.decisions.snapshot(record.snapshot_checksum)
    if stored is None:
        return {}
    try:
        snapshot = Snapshot.parse(stored.content)
    except CoreError:
        return {}  # of another version of Sluice
    speeds = {lane: snapshot.lane_speed(lane) for lane in _lanes(record, store)}
    return {lane: speed for lane, speed in speeds.items() if speed < 1}
