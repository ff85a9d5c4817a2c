"""What users and operators do to jobs meanwhile; each is kept with the job that it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workload import USERS, Job

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from lab import ChaosLab
    from workload import Workload

    Action = Callable[["Actions", Job], str]

TOKENS = ("all_stream", "all_flush", "all_meta")


class Actions:
    def __init__(self, lab: ChaosLab, workload: Workload, rng: Random) -> None:
        self.lab = lab
        self.workload = workload
        self.rng = rng

    def one(self, pending: list[int], running: list[int]) -> str:
        """Do one thing to a job that waits, or runs."""
        action, on_running = self.rng.choice(ALL)
        known = [n for n in (running if on_running else pending) if n in self.workload.jobs]
        if not known:
            return ""
        job = self.workload.jobs[self.rng.choice(known)]
        return action(self, job)

    def update(
        self, job: Job, text: str, *, uid: int = 0, expect: tuple[str, str] = ("", "")
    ) -> str:
        """Change a job; where Slurm does it, the job is expected to show it."""
        done = self.lab.as_user(uid, "scontrol", "update", f"jobid={job.job_id}", text)
        if done.returncode == 0:
            job.changes.append(text)
            if expect[0]:
                job.expected[expect[0]] = expect[1]
        elif job.is_array:  # some of its tasks may have been changed, others had ended
            job.expected.pop(expect[0], None)
        return f"{USERS[uid]}: {text}"

    def scancel(self, job: Job) -> str:
        self.lab.slurm.run("scancel", "--quiet", str(job.job_id), check=False)
        return "scancel"

    def requeue(self, job: Job) -> str:
        """It may start again after cred_expire, or at once when told so."""
        self.lab.scontrol("requeue", str(job.job_id))
        if self.rng.random() < 0.5:
            self.lab.scontrol("update", f"jobid={job.job_id}", "starttime=now")
        return "requeue"

    def hold(self, job: Job) -> str:
        job.is_held = True
        job.expected.pop("Nice", None)
        self.lab.scontrol("hold", str(job.job_id))
        return "hold"

    def release(self, _: Job) -> str:
        held = [job for job in self.workload.jobs.values() if job.is_held]
        for other in held:
            other.expected.pop("Nice", None)
            self.lab.scontrol("release", str(other.job_id))
        return f"release of {len(held)}"

    def suspend(self, job: Job) -> str:
        """Slurm takes its priority away, and a job that it then requeues is held."""
        job.is_held = True
        self.lab.scontrol("suspend", str(job.job_id))
        return "suspend"

    def resume(self, _: Job) -> str:
        rows = self.lab.slurm.run("squeue", "-h", "-t", "S", "-o", "%A", check=False).stdout.split()
        for job_id in rows:
            self.lab.scontrol("resume", job_id)
        return f"resume of {len(rows)}"

    def user_drops_licences(self, job: Job) -> str:
        return self.update(job, "licenses=", uid=job.uid, expect=("Licenses", ""))

    def user_asks_for_tokens(self, job: Job) -> str:
        """The plugin makes that no change at all, so a job's own licences stay.

        But for a job of root: what an administrator asks for is done.
        """
        text = f"licenses={self.rng.choice(TOKENS)}:500000"
        if job.uid == 0:
            return self.update(job, text, expect=("Licenses", ""))
        own = job.expected.get("Licenses")
        expect = ("", "") if own is None else ("Licenses", own)
        return self.update(job, text, uid=job.uid, expect=expect)

    def user_renames_comment(self, job: Job) -> str:
        return self.update(job, "comment=changed", uid=job.uid, expect=("Comment", "changed"))

    def user_shortens(self, job: Job) -> str:
        return self.update(job, "timelimit=29", uid=job.uid, expect=("TimeLimit", "00:29:00"))

    def operator_adds_token(self, job: Job) -> str:
        return self.update(job, f"licenses={self.rng.choice(TOKENS)}:2", expect=("Licenses", ""))

    def operator_drops_licences(self, job: Job) -> str:
        return self.update(job, "licenses=", expect=("Licenses", ""))

    def operator_prolongs(self, job: Job) -> str:
        return self.update(job, "timelimit=75", expect=("TimeLimit", "01:15:00"))

    def operator_gives_priority(self, job: Job) -> str:
        job.expected.pop("Nice", None)  # Slurm takes a job's nice away with that
        return self.update(job, f"priority={self.rng.randint(1, 2**31)}")

    def operator_makes_nice(self, job: Job) -> str:
        is_known = "Nice" in job.expected
        return self.update(job, "nice=7", expect=("Nice", "7") if is_known else ("", ""))


ALL: tuple[tuple[Action, bool], ...] = (
    (Actions.scancel, False),
    (Actions.scancel, True),
    (Actions.requeue, True),
    (Actions.hold, False),
    (Actions.release, False),
    (Actions.suspend, True),
    (Actions.resume, False),
    (Actions.user_drops_licences, False),
    (Actions.user_asks_for_tokens, False),
    (Actions.user_renames_comment, False),
    (Actions.user_shortens, False),
    (Actions.operator_adds_token, False),
    (Actions.operator_drops_licences, False),
    (Actions.operator_drops_licences, True),
    (Actions.operator_prolongs, False),
    (Actions.operator_gives_priority, False),
    (Actions.operator_makes_nice, False),
)
