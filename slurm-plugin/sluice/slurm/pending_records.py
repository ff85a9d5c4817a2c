"""Decision records whose jobs the controller still knows, and those jobs.

Keeps in memory only what concerns jobs in the queue and submissions of the last minutes; the
rest is in the history, from which a new sluiced fills the ledger again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sluice.history_db.records import Job
from sluice.policies.core import NAME_SIZE, CoreError
from sluice.policies.record import Record
from sluice.prediction.submission_features import UNSURE
from sluice.slurm.record_matching import (
    WINDOW,
    JobTraits,
    Join,
    RecordKey,
    RecordTraits,
    Submitted,
    Tie,
    fits,
    join_by_mark,
    match,
)
from sluice.slurm.status import log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice.history_db.records import Decision
    from sluice.history_db.store import Store
    from sluice.policies.core import View
    from sluice.slurm.queue import Changes
    from sluice.slurm.records import QueuedJob

SETTLED = 3  # seconds after which no member of a tie can still be missing
HOPE = 600  # seconds after which a record without a job stays one: it was rejected
LOOKED_UP = 2000  # jobs that the history is asked about at once, after a restart of sluiced
UNWRITTEN = 200_000  # jobs that are kept for a history that cannot be written
SHARED = 10_000  # predictions that are kept once for all jobs

SubmissionKey = tuple[int, int]
"""Number that sbatch printed, and uid."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the ledger keeps of a record."""

    key: RecordKey
    now: int
    submission: View
    prediction: View | None
    """None where Sluice abstained for lack of knowledge: too unsure to judge others by."""
    is_granted: bool
    """The decision gave the job tokens."""
    mode: str
    """How far Sluice goes with the job."""

    @property
    def script_signature(self) -> int:
        return int(self.submission.script_signature)

    @property
    def traits(self) -> RecordTraits:
        submission = self.submission
        flags = submission.flags
        return RecordTraits(
            uid=submission.uid,
            now=self.now,
            name=submission.name,
            is_array="array" in flags,
            component=(1 if "het_later" in flags else 0) if "het" in flags else None,
            nodes=submission.nodes,
            time_limit=submission.time_limit,
            account=submission.account.lower(),
            partitions=tuple(filter(None, submission.partition.split(","))),
            submit_line_hash=submission.submit_line_hash,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the history is to be told of a record."""

    boot: int
    number: int
    job_id: int | None
    by: str
    """`mark`, `key` or `tie`."""


@dataclass(slots=True)
class Submission:
    """A submission with jobs in the queue."""

    submit: int
    candidate: QueuedJob
    """The job by which its record is sought: an original, if there is one."""
    jobs: int = 0
    """In the queue: tasks of an array have records of their own."""
    known: Known | None = None
    is_settled: bool = False
    """Joined or tied: nothing more will be found out."""


@dataclass(slots=True)
class Place:
    """Where a job in the queue belongs."""

    key: SubmissionKey
    written: int = 0
    """Hash of what the history was told of it."""


class Ledger:
    """Joins records and jobs as they appear.

    `take`, `add` and `join` work in memory: what is known of jobs must not hang on a disk.
    `look_up` and `write` need the history; what it does not take is kept for the next time.
    Everything costs by what is new, not by how long the queue is.
    """

    def __init__(self, cluster: str, started: int) -> None:
        """Make an empty ledger; what was submitted up to `started` may be in the history."""
        self.cluster = cluster
        self._started = started
        self._boot = 0
        """The life of slurmctld that the latest record comes from."""
        self._booted = 0
        """When the first record of that life was made."""
        self.joined = 0
        self.tied = 0
        self._unjoined: dict[RecordKey, Known] = {}
        self._is_loaded = False
        self._early: set[RecordKey] = set()
        """Records that were taken up before the history was read; then, those from it."""
        self._submissions: dict[SubmissionKey, Submission] = {}
        self._places: dict[int, Place] = {}
        self._unsettled: dict[SubmissionKey, Submission] = {}
        self._not_looked_up: dict[SubmissionKey, Submission] = {}
        self._is_due = False
        """There are new records or submissions to match."""
        self._ties_due = math.inf
        """When members of ties cannot be missing any more."""
        self._unwritten: dict[int, tuple[QueuedJob, Submission]] = {}
        """Jobs of which the history may not have heard, the oldest change first."""
        self._verdicts: list[Verdict] = []
        """Joins and ties that the history has not heard of."""
        self._predictions: dict[bytes, View] = {}
        self._learned: set[SubmissionKey] = set()
        """Submissions of which something else is known than at the last `learned`."""

    def _load(self, store: Store, now: int) -> None:
        """Take up what an earlier sluiced left without a job."""
        found = [
            record
            for decision in store.decisions.unjoined_decisions(since=now - HOPE)
            if decision.cluster == self.cluster
            if (record := readable(decision)) and record.key not in self._early
        ]
        self._is_loaded = True
        for record in found:
            self.add(record)
        self._early = {record.key for record in found}  # they may be about to arrive

    def add(self, record: Record) -> None:
        """Take up a record, once: what is stored just now may be found in the history, too."""
        if record.key in self._early:
            return
        if not self._is_loaded:
            self._early.add(record.key)
        if record.boot != self._boot:
            self._boot, self._booted = record.boot, record.now
        if "test_only" not in record.submission.flags:
            self._unjoined[record.key] = self._known_of(record)
            self._is_due = True

    def take(self, changes: Changes) -> None:
        """Take up what changed in the queue."""
        for job in changes.changed:
            self._follow(job)
        # only now: the last task of an array may go as its next one comes
        for job in changes.gone:
            place = self._places.pop(job.job_id, None)
            if place is not None:
                self._leave(place.key)

    def known(self, job: QueuedJob) -> Known | None:
        """Return what is known of a job's submission."""
        submission = self._submissions.get(key_of(job))
        return submission.known if submission else None

    def learned(self) -> set[SubmissionKey]:
        """Return the submissions of which something else is known than at the last call."""
        learned, self._learned = self._learned, set()
        return learned

    def prediction(self, job: QueuedJob) -> View | None:
        known = self.known(job)
        return known.prediction if known else None

    def submission(self, job: QueuedJob) -> View | None:
        """Return what was known of a job when it was submitted."""
        known = self.known(job)
        return known.submission if known else None

    # Which jobs there are

    def _follow(self, job: QueuedJob) -> None:
        key = key_of(job)
        place = self._places.get(job.job_id)
        if place is not None and place.key != key:
            self._leave(place.key)
            place = None
        submission = self._submissions.get(key)
        if submission is None or self._is_another(job, submission):
            submission = self._begin(key, job, submission.jobs if submission else 0)
        elif job.restarts <= submission.candidate.restarts:
            submission.candidate = job
        if place is None:
            place = self._places[job.job_id] = Place(key)
            submission.jobs += 1
        self._note(job, submission)

    def _begin(self, key: SubmissionKey, job: QueuedJob, jobs: int) -> Submission:
        submission = Submission(submit=job.submit, candidate=job, jobs=jobs)
        before = self._submissions.get(key)
        if before is not None and before.known is not None:
            self._learned.add(key)
        self._submissions[key] = self._unsettled[key] = submission
        if job.submit <= self._started:
            self._not_looked_up[key] = submission
        self._is_due = True
        return submission

    def _leave(self, key: SubmissionKey) -> None:
        submission = self._submissions[key]
        submission.jobs -= 1
        if submission.jobs == 0:
            del self._submissions[key]
            self._unsettled.pop(key, None)
            self._not_looked_up.pop(key, None)

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

    def _begin_others(self, now: int) -> None:
        """Notice, after slurmctld started, numbers that stand for other jobs than before."""
        if now > self._booted + HOPE:
            return
        others = [
            (key, submission)
            for key, submission in self._submissions.items()
            if submission.is_settled
            and submission.submit >= self._booted - WINDOW
            and self._is_another(submission.candidate, submission)
        ]
        for key, before in others:
            job = before.candidate
            self._note(job, self._begin(key, job, before.jobs))

    # Which record is about them

    def join(self, now: int, *, is_drained: bool = True) -> None:
        """Join what can be joined; is_drained: the records of all jobs in the queue are here."""
        if self._is_due or now >= self._ties_due:
            self._begin_others(now)
            self._match(now, is_drained=is_drained)
            self._is_due = not is_drained
        old = now - HOPE
        # made anew: a dictionary keeps the room of all that it ever had
        self._unjoined = {k: one for k, one in self._unjoined.items() if one.now >= old}
        self._unsettled = {k: one for k, one in self._unsettled.items() if one.submit >= old}

    def _match(self, now: int, *, is_drained: bool) -> None:
        self._ties_due = math.inf
        # first by what is at hand: traits of a whole queue take more memory than all else
        self._take_joins(
            join_by_mark(
                self._uid_of, ((key, job.uid, job.marks) for key, job in self._candidates())
            )
        )
        matching = match(
            {key: known.traits for key, known in self._unjoined.items()},
            [
                Submitted(key, job_traits(job), job.marks, job.restarts > 0 or not is_drained)
                for key, job in self._candidates()
            ],
        )
        self._take_joins(matching.joins)
        settled = [tie for tie in matching.ties if tie.latest <= now - SETTLED]
        for tie in settled:
            self._settle(tie)
        if settled:
            log.info(
                "%d records cannot be told apart: same user, name and second (jobs %s, …)",
                sum(len(tie.records) for tie in settled),
                ", ".join(str(job_id) for job_id, _uid in settled[0].jobs[:3]),
            )
        open_ties = [tie.latest for tie in matching.ties if tie.latest > now - SETTLED]
        self._ties_due = min(open_ties, default=math.inf) + SETTLED

    def _candidates(self) -> Iterator[tuple[SubmissionKey, QueuedJob]]:
        """Yield the jobs whose records are sought."""
        for key, submission in self._unsettled.items():
            if key not in self._not_looked_up:
                yield key, submission.candidate

    def _uid_of(self, key: RecordKey) -> int | None:
        """Return whose a record without a job is."""
        known = self._unjoined.get(key)
        return int(known.submission.uid) if known else None

    def _take_joins(self, joins: Iterable[Join[SubmissionKey]]) -> None:
        for join in joins:
            self._learn(join.job, self._unjoined.pop(join.record))
            self._verdicts.append(Verdict(*join.record, join.job[0], join.by))
            self.joined += 1

    def _learn(self, key: SubmissionKey, known: Known | None) -> None:
        submission = self._submissions[key]
        if submission.known is not known:
            self._learned.add(key)
        submission.known = known
        submission.is_settled = True
        self._unsettled.pop(key, None)
        self._note(submission.candidate, submission)

    def _settle(self, tie: Tie[SubmissionKey]) -> None:
        """Report a tie. If all its records predict the same, each job is known all the same."""
        members = [self._unjoined.pop(key) for key in tie.records]
        self._verdicts.extend(Verdict(*key, None, "tie") for key in tie.records)
        same = _if_same(members)
        for key in tie.jobs:
            self._learn(key, same)
        self.tied += len(tie.records)

    # What the history knows and is told

    def look_up(self, store: Store, now: int) -> None:
        """Ask the history what an earlier sluiced found out, of so many jobs at a time.

        Those that may have tokens come first: of a job of which nothing is known they are taken.
        """
        if not self._is_loaded:
            self._load(store, now)
        asked = dict(sorted(self._not_looked_up.items(), key=_has_no_licenses)[:LOOKED_UP])
        if not asked:
            return
        decisions: dict[int, list[Decision]] = {}
        for decision in store.decisions.decisions_for_jobs((key[0] for key in asked), self.cluster):
            decisions.setdefault(decision.job_id or 0, []).append(decision)
        ties: dict[tuple[int, int], list[Known]] = {}
        for key, submission in asked.items():
            job = submission.candidate
            known = self._from_decisions(decisions.get(key[0], ()), job)
            known = known or self._from_ties(job, store, ties)
            del self._not_looked_up[key]
            if known is not None:
                self._learn(key, known)
        self._is_due = True

    def _from_decisions(self, decisions: Iterable[Decision], job: QueuedJob) -> Known | None:
        for decision in decisions:
            record = readable(decision)
            if record and _is_about(decision, job):
                return self._known_of(record)
        return None

    def _from_ties(
        self, job: QueuedJob, store: Store, ties: dict[tuple[int, int], list[Known]]
    ) -> Known | None:
        """Use a user's tied records of a second; thousands of jobs may ask for the same."""
        key = (job.uid, job.submit)
        if key not in ties:
            near = store.decisions.decisions_of_user(
                job.uid, since=job.submit - WINDOW, until=job.submit + WINDOW
            )
            ties[key] = [
                self._known_of(record)
                for decision in near
                if decision.joined_by == "tie" and decision.cluster == self.cluster
                if (record := readable(decision))
            ]
        name = job_traits(job).name
        return _if_same([known for known in ties[key] if known.traits.name == name])

    def write(self, store: Store) -> None:
        """Tell the history what became of records and jobs."""
        if self._verdicts:
            store.decisions.join_decisions(
                (v.boot, v.number, v.job_id, v.by) for v in self._verdicts
            )
            self._verdicts.clear()
        if self._unwritten:
            store.jobs.upsert_jobs(
                self._row(job, submission.known) for job, submission in self._unwritten.values()
            )
            for job, submission in self._unwritten.values():
                place = self._places.get(job.job_id)
                if place is not None:
                    place.written = _digest(job, submission.known)
            self._unwritten.clear()

    def _note(self, job: QueuedJob, submission: Submission) -> None:
        """Remember to tell the history of a job, unless nothing changed that it keeps."""
        place = self._places.get(job.job_id)
        if place is None or place.written == _digest(job, submission.known):
            return
        self._unwritten[job.job_id] = (job, submission)
        if len(self._unwritten) > UNWRITTEN:
            del self._unwritten[next(iter(self._unwritten))]

    def _known_of(self, record: Record) -> Known:
        """Describe a record; jobs of an application share one prediction."""
        known = known_of(record)
        if known.prediction is None:
            return known
        if len(self._predictions) >= SHARED:
            self._predictions.clear()
        shared = self._predictions.setdefault(known.prediction.bytes, known.prediction)
        return replace(known, prediction=shared)

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


def _has_no_licenses(item: tuple[SubmissionKey, Submission]) -> bool:
    return not item[1].candidate.licenses


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
        now=record.now,
        submission=record.submission,
        prediction=None if record.decision.reason in UNSURE else record.prediction,
        is_granted=record.grant.outcome == "taken",
        mode=record.mode,
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


def _digest(job: QueuedJob, known: Known | None) -> int:
    """Return a hash of what the history keeps of a job, some of it from its record."""
    return hash(
        (
            *(job.submit, job.restarts, job.name, job.uid, job.account, job.partition, job.qos),
            *(job.nodes, job.tasks, job.cpus, job.time_limit, job.state),
            None if job.is_pending else job.start,
            (job.end, job.exit_code) if job.has_ended else None,
            known.key if known else None,
        )
    )


def _if_same(members: list[Known]) -> Known | None:
    """Any of the records, if all of them predict the same and gave tokens or none."""
    answers = [(member.prediction, member.is_granted) for member in members]
    return members[0] if members and all(one == answers[0] for one in answers) else None
