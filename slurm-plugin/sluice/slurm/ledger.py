"""Which decision belongs to which job that the controller knows at the moment.

Keeps in memory only what concerns jobs in the queue and submissions of the last minutes; the
rest is in the history, from which a new sluiced fills the ledger again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.history_db.records import Job
from sluice.policies.core import NAME_SIZE, CoreError
from sluice.policies.record import Record
from sluice.slurm import slurm_commands
from sluice.slurm.joiner import (
    WINDOW,
    JobTraits,
    RecordKey,
    RecordTraits,
    Submitted,
    Tie,
    fits,
    marks_in,
    match,
)
from sluice.slurm.troubles import log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.history_db.records import Decision
    from sluice.history_db.store import Store
    from sluice.policies.core import View
    from sluice.slurm.records import QueuedJob

SETTLED = 3  # seconds after which no member of a tie can still be missing
HOPE = 600  # seconds after which a record without a job stays one: it was rejected
UNSURE = frozenset({"unknown_job", "low_confidence", "others_only"})

SubmissionKey = tuple[int, int]
"""Number that sbatch printed, and uid."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the ledger keeps of a record."""

    key: RecordKey
    traits: RecordTraits
    submission: View
    prediction: View | None
    """None where Sluice abstained for lack of knowledge: too unsure to judge others by."""
    script_signature: int
    has_note: bool
    """It was made in advise or enforce: the job may carry its number."""


@dataclass(slots=True)
class Submission:
    """A submission with jobs in the queue."""

    submit: int
    known: Known | None = None
    is_settled: bool = False
    """Joined or tied: nothing more will be found out."""
    is_looked_up: bool = False
    """The history was asked, as after a restart of sluiced."""
    marks: tuple[RecordKey, ...] | None = None
    """Record numbers in its admin comment; None: not read yet."""


class Ledger:
    """Joins records and jobs as they appear."""

    def __init__(self, cluster: str, started: int) -> None:
        """Make an empty ledger; what was submitted up to `started` may be in the history."""
        self.cluster = cluster
        self._started = started
        self._boot = 0
        """The life of slurmctld that the latest record comes from."""
        self._booted = 0
        """When the first record of that life was made."""
        self._tied: dict[tuple[int, int], list[Known]] = {}
        self.joined = 0
        self.tied = 0
        self._unjoined: dict[RecordKey, Known] = {}
        self._submissions: dict[SubmissionKey, Submission] = {}
        self._written: dict[int, tuple[QueuedJob, Known | None]] = {}

    def load(self, store: Store, now: int) -> None:
        """Take up what an earlier sluiced left without a job."""
        for decision in store.unjoined_decisions(since=now - HOPE):
            record = readable(decision)
            if record and decision.cluster == self.cluster:
                self.add(record)

    def add(self, record: Record) -> None:
        """Take up a record that was stored just now."""
        if record.boot != self._boot:
            self._boot, self._booted = record.boot, record.now
        if "test_only" not in record.submission.flags:
            self._unjoined[record.key] = known_of(record)

    def update(self, jobs: list[QueuedJob], store: Store, now: int) -> None:
        """Join what can be joined, and tell the history what became of the jobs."""
        self._follow(jobs, store)
        self._read_marks(jobs, now)
        self._join(jobs, store, now)
        self._write_jobs(jobs, store)
        self._unjoined = {
            key: known for key, known in self._unjoined.items() if known.traits.now >= now - HOPE
        }

    def prediction(self, job: QueuedJob) -> View | None:
        submission = self._submissions.get(key_of(job))
        return submission.known.prediction if submission and submission.known else None

    def submission(self, job: QueuedJob) -> View | None:
        """Return what was known of a job when it was submitted."""
        submission = self._submissions.get(key_of(job))
        return submission.known.submission if submission and submission.known else None

    def _follow(self, jobs: list[QueuedJob], store: Store) -> None:
        """Notice new submissions, and forget those that the controller forgot."""
        before = self._submissions
        self._submissions = {}
        for job in jobs:
            key = key_of(job)
            submission = self._submissions.get(key) or before.get(key)
            if submission is None or self._is_another(job, submission):
                submission = Submission(submit=job.submit)
            self._submissions[key] = submission
        for job in jobs:
            submission = self._submissions[key_of(job)]
            if not submission.is_looked_up and job.submit <= self._started:
                submission.known = self._from_history(job, store)
                submission.is_settled = submission.known is not None
            submission.is_looked_up = True
        self._tied.clear()

    def _is_another(self, job: QueuedJob, submission: Submission) -> bool:
        """Whether a number stands for another job than before.

        slurmctld loses its last seconds in a crash and counts them again. Where that took less
        than a second, only the record that the new job left can tell.
        """
        if job.restarts > 0:
            return False
        if job.submit != submission.submit:
            return True
        known = submission.known
        if known is None or known.key[0] == self._boot or job.submit < self._booted - WINDOW:
            return False
        traits = job_traits(job)
        return not fits(known.traits, traits) and any(
            fits(other.traits, traits) for other in self._unjoined.values()
        )

    def _from_history(self, job: QueuedJob, store: Store) -> Known | None:
        """Return what an earlier sluiced found out about a job."""
        for decision in store.decisions_for_job(job.submission_id, self.cluster):
            record = readable(decision)
            if record and _is_about(decision, job):
                return known_of(record)
        name = job_traits(job).name
        return _if_same([k for k in self._ties_of(job, store) if k.traits.name == name])

    def _ties_of(self, job: QueuedJob, store: Store) -> list[Known]:
        """Return a user's tied records of a second; thousands of jobs may ask for the same."""
        key = (job.uid, job.submit)
        if key not in self._tied:
            near = store.decisions_of_user(
                job.uid, since=job.submit - WINDOW, until=job.submit + WINDOW
            )
            self._tied[key] = [
                known_of(record)
                for decision in near
                if decision.joined_by == "tie" and decision.cluster == self.cluster
                if (record := readable(decision))
            ]
        return self._tied[key]

    def _candidates(self, jobs: Iterable[QueuedJob], now: int) -> dict[SubmissionKey, QueuedJob]:
        """Return a job of each recent submission that is not settled, an original if there is."""
        found: dict[SubmissionKey, QueuedJob] = {}
        for job in jobs:
            key = key_of(job)
            if self._submissions[key].is_settled or job.submit < now - HOPE:
                continue
            if key not in found or job.restarts < found[key].restarts:
                found[key] = job
        return found

    def _read_marks(self, jobs: list[QueuedJob], now: int) -> None:
        """Read the notes of new jobs, if records that make notes wait for their job."""
        if not any(known.has_note for known in self._unjoined.values()):
            return
        unread = {
            job.job_id: self._submissions[key]
            for key, job in self._candidates(jobs, now).items()
            if self._submissions[key].marks is None
        }
        comments = slurm_commands.admin_comments(unread)
        for job_id in comments.keys() & unread.keys():
            unread[job_id].marks = marks_in(comments[job_id])

    def _join(self, jobs: list[QueuedJob], store: Store, now: int) -> None:
        matching = match(
            {key: known.traits for key, known in self._unjoined.items()},
            [
                Submitted(
                    key, job_traits(job), self._submissions[key].marks or (), job.restarts > 0
                )
                for key, job in self._candidates(jobs, now).items()
            ],
        )
        for join in matching.joins:
            submission = self._submissions[join.job]
            store.join_decision(*join.record, join.job[0], join.by)
            submission.known = self._unjoined.pop(join.record)
            submission.is_settled = True
            self.joined += 1
        settled = [tie for tie in matching.ties if tie.latest <= now - SETTLED]
        for tie in settled:
            self._settle(tie, store)
        if settled:
            log.info(
                "%d records cannot be told apart: same user, name and second (jobs %s, …)",
                sum(len(tie.records) for tie in settled),
                ", ".join(str(job_id) for job_id, _uid in settled[0].jobs[:3]),
            )

    def _settle(self, tie: Tie[SubmissionKey], store: Store) -> None:
        """Report a tie. If all its records predict the same, each job is known all the same."""
        members = [self._unjoined[key] for key in tie.records]
        for key in tie.records:
            store.mark_tie(*key)
        same = _if_same(members)
        for key in tie.jobs:
            self._submissions[key].known = same
            self._submissions[key].is_settled = True
        for member in members:
            del self._unjoined[member.key]
        self.tied += len(tie.records)

    def _write_jobs(self, jobs: list[QueuedJob], store: Store) -> None:
        """Write what is new; the queue hands out the same object while a job does not change."""
        seen = {job.job_id: (job, self._submissions[key_of(job)].known) for job in jobs}
        changed = [
            self._row(job, known)
            for job_id, (job, known) in seen.items()
            if not _is_same(self._written.get(job_id), job, known)
        ]
        if changed:
            store.upsert_jobs(changed)
        self._written = seen

    def _row(self, job: QueuedJob, known: Known | None) -> Job:
        return Job(
            cluster=self.cluster,
            job_id=job.job_id,
            submit=job.submit,
            restarts=job.restarts,
            name=job.name.encode(errors="surrogateescape").decode(errors="replace"),
            user=None,
            uid=job.uid,
            account=job.account,
            partition=job.partition,
            qos=job.qos,
            nodes=job.nodes,
            tasks=job.tasks,
            cpus=job.cpus,
            time_limit=job.time_limit,
            start=None if job.is_pending else job.start,
            end=job.end if job.has_ended else None,
            state=job.state,
            exit_code=job.exit_code if job.has_ended else None,
            submit_line=None,
            script_signature=(known.script_signature or None) if known else None,
            source="sluiced",
            array_job=job.submission_id if job.is_array else None,
        )


def key_of(job: QueuedJob) -> SubmissionKey:
    return (job.submission_id, job.uid)


def readable(decision: Decision) -> Record | None:
    """Return the record of a decision; None for one of another version of Sluice."""
    try:
        return Record.parse(decision.record)
    except CoreError:
        return None


def known_of(record: Record) -> Known:
    return Known(
        key=record.key,
        traits=record_traits(record),
        submission=record.submission,
        prediction=None if record.decision.reason in UNSURE else record.prediction,
        script_signature=record.submission.script_signature,
        has_note=record.mode in ("advise", "enforce"),
    )


def record_traits(record: Record) -> RecordTraits:
    submission = record.submission
    flags = submission.flags
    return RecordTraits(
        uid=submission.uid,
        now=record.now,
        name=submission.name,
        is_array="array" in flags,
        component=(1 if "het_later" in flags else 0) if "het" in flags else None,
        nodes=submission.nodes,
        time_limit=submission.time_limit,
        account=submission.account.lower(),
        partitions=tuple(filter(None, submission.partition.split(","))),
        submit_line_hash=submission.submit_line_hash,
    )


def cut_name(name: str) -> str:
    """Return as much of a job's name as a record keeps."""
    kept = name.encode(errors="surrogateescape")[: NAME_SIZE - 1]
    return kept.decode(errors="surrogateescape")


def job_traits(job: QueuedJob) -> JobTraits:
    return JobTraits(
        uid=job.uid,
        submit=job.submit,
        name=cut_name(job.name),
        is_array=job.is_array,
        component=job.component,
        nodes=job.nodes,
        time_limit=job.time_limit,
        account=job.account and job.account.lower(),
        partitions=tuple(job.partition.split(",")),
    )


def _is_about(decision: Decision, job: QueuedJob) -> bool:
    """Whether a decision joined with the job's number is about it, not an earlier one."""
    if decision.uid != job.uid:
        return False
    return job.restarts > 0 or abs(job.submit - decision.now) <= SETTLED


def _is_same(
    written: tuple[QueuedJob, Known | None] | None, job: QueuedJob, known: Known | None
) -> bool:
    return written is not None and written[0] is job and written[1] is known


def _if_same(members: list[Known]) -> Known | None:
    """Any of the records, if all of them predict the same."""
    if members and all(member.prediction == members[0].prediction for member in members):
        return members[0]
    return None
