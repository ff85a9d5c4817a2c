"""The loop, live: a private Slurm with accounting, real programs, throttled storage, Sluice.

First every program runs with co-runners, again and again, and Sluice learns of it by itself.
Then the truth, of which Sluice learns nothing: each program alone, and pairs of them on one
lane. `loop.py` drives it; `comparison.py` lays next to each other what was learned and what is so.
"""

import json
import pwd
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from accounted_slurm import AccountedSlurm
from darshan_runtime import DarshanRuntime
from plugin_harness import PluginFiles
from programs import HERE, Program, all_programs, make_programs, make_samples
from sluiced import BIN, Sluiced, wait_for
from storage_targets import StorageTargets
from synthesised_logs import log_of
from target_kinds import MIB, Limits
from truth import Run
from up_and_down import UpAndDown

ROOT = Path(__file__).resolve().parents[2]
TRACE = HERE / "trace.sh"
PLUGINS = ROOT / "build" / "plugins"
NODES = 8
BANDWIDTH = 60_000_000  # B/s of a lane
LIMITS = Limits(bandwidth=BANDWIDTH, operations=400, size=8192 * MIB)
LANES = ("busy", "other")  # jobs with co-runners share the first; the truth is found on both
IN_FLIGHT = 5  # jobs at a time
HEAD_START = 1.0  # seconds that the other of a pair runs before
FILLS = 100  # MiB that a program writes or reads to be good co-runners
KEPT = 20.0  # seconds that a job's output stays, so that it reaches the storage
SETTINGS = {
    "Lane": f"all Targets=1 Bandwidth={BANDWIDTH}",
    # jobs here run for seconds, not for hours
    "MinSaving": 0.5,
    "FollowInterval": 500,
}
ENDED = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY")


@dataclass
class _Job:
    program: Program
    job_id: int
    lane: str
    size: int | None = None
    alongside: str = ""
    phase: str = "contended"


@dataclass
class _Meeting:
    """One program of a pair while the other runs."""

    lane: str
    program: Program
    other: Program
    partner: _Job | None = None
    victim: _Job | None = None
    has_victim: bool = False

    def __str__(self) -> str:
        return f"{self.program.name} alongside {self.other.name}"


class LoopLab(UpAndDown):
    """Everything below one directory that all users can enter."""

    def __init__(
        self,
        place: Path,
        runtime: DarshanRuntime | None,
        *,
        names: Sequence[str] = (),
        seed: int = 1,
        say: Callable[[str], None] = lambda _: None,
        settings: Mapping[str, str | float] | None = None,
    ) -> None:
        """runtime: None, logs are synthesised. names: the programs that run; none: all of them."""
        self.place = place
        self.runtime = runtime
        self.say = say
        self.rng = random.Random(seed)
        self.all_programs = [
            p for p in all_programs(place) if not p.is_mpi or (runtime and runtime.mpi)
        ]
        self.programs = [p for p in self.all_programs if not names or p.name in names]
        self.targets = StorageTargets(
            place / "storage", lanes=LANES, limits=LIMITS, kinds=("queue", "blkio", "io.max")
        )
        self.files = PluginFiles(place / "sluice")
        self.slurm = AccountedSlurm(
            place / "slurm",
            nodes=NODES,
            plugin_dir=PLUGINS,
            settings={
                "JobSubmitPlugins": "sluice",
                "SchedulerParameters": "batch_sched_delay=0,sched_interval=1,bf_interval=1",
            },
            environment={"SLUICE_CONF": str(self.files.config)},
        )
        self.sluiced = Sluiced(self.slurm, self.files)
        self.logs = place / "logs"  # of the runs with co-runners, which Sluice follows
        self.truth_logs = place / "truth-logs"
        self.stamps = place / "stamps"
        self.calls = place / "calls"  # of programs that strace saw, where there is no Darshan
        self.settings = SETTINGS | dict(settings or {})
        self.runs: list[Run] = []
        self._outputs: list[tuple[float, Path]] = []
        self._stack = ExitStack()

    def up(self) -> None:
        for name in ("logs", "truth-logs", "stamps", "calls", "scripts"):
            directory = self.place / name
            directory.mkdir()
            directory.chmod(0o1777)
        make_programs(self.place, with_mpi=any(p.is_mpi for p in self.programs))
        for program in self.programs:
            (self.place / "scripts" / program.name).write_text(program.script())
        self.files.directory.mkdir()
        self.files.configure(**self.settings)
        with ExitStack() as stack:
            stack.enter_context(self.targets)
            for lane in LANES:
                make_samples(self.targets.path(lane))
            stack.enter_context(self.slurm)
            self._stack = stack.pop_all()

    def down(self) -> None:
        self._stack.close()

    # -- phases -----------------------------------------------------------------

    def contended(self, rounds: int) -> None:
        """Run each program so often, in a drawn order, always with co-runners."""
        some = self.programs
        deck = [p for _ in range(rounds) for p in self.rng.sample(some, len(some))]
        fillers = [p for p in some if p.mib >= FILLS]  # the last ones want co-runners, too
        flying: list[_Job] = []
        while deck or any(job.phase == "contended" for job in flying):
            flying = list(self._landed(flying))
            if len(flying) < IN_FLIGHT and deck:
                flying.append(self._submit(deck.pop(), LANES[0]))
                self.say(f"with co-runners: {flying[-1].program.name}, {len(deck)} left")
            elif len(flying) < IN_FLIGHT:
                flying.append(self._submit(self.rng.choice(fillers), LANES[0], phase="filler"))
            time.sleep(0.3)
        for job in flying:
            self.slurm.run("scancel", str(job.job_id))

    def alone(self, times: int) -> None:
        """Run each program, with each of its sizes, on a lane that nobody else uses."""
        deck = [
            (p, size) for p in self.programs for size in (p.sizes or (None,)) for _ in range(times)
        ]
        self.rng.shuffle(deck)
        jobs: dict[str, _Job | None] = dict.fromkeys(LANES)
        while deck or any(jobs.values()):
            for lane in LANES:
                jobs[lane] = self._if_flying(jobs[lane])
                if deck and jobs[lane] is None:
                    self.targets.settle()
                    program, size = deck.pop()
                    jobs[lane] = self._submit(program, lane, phase="alone", size=size)
                    self.say(f"alone: {program.name}, {len(deck)} left")
            time.sleep(0.2)

    def pairs(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Run each program of each pair while the other runs, again and again, on its lane."""
        deck = [pair for one, two in pairs for pair in ((one, two), (two, one))]
        meetings: dict[str, _Meeting | None] = dict.fromkeys(LANES)
        while deck or any(meetings.values()):
            for lane in LANES:
                meeting = meetings[lane]
                if meeting is not None and self._goes_on(meeting):
                    continue
                meetings[lane] = None
                if deck:
                    self.targets.settle()
                    meetings[lane] = _Meeting(lane, *map(self._named, deck.pop()))
                    self.say(f"pair: {meetings[lane]}, {len(deck)} left")
            time.sleep(0.2)

    def _goes_on(self, meeting: "_Meeting") -> bool:
        """See to it that the other runs before the victim starts, and until it ends."""
        meeting.partner = self._if_flying(meeting.partner)
        victim = self._if_flying(meeting.victim)
        if meeting.has_victim and victim is None:
            if meeting.partner is not None:
                self.slurm.run("scancel", str(meeting.partner.job_id))
            return False
        if meeting.partner is None:
            meeting.partner = self._submit(
                meeting.other,
                meeting.lane,
                phase="partner",
                size=max(meeting.other.sizes, default=None),
            )
        elif not meeting.has_victim and self._runs_since(meeting.partner, HEAD_START):
            meeting.has_victim = True
            victim = self._submit(
                meeting.program, meeting.lane, phase="pair", alongside=meeting.other.name,
                size=max(meeting.program.sizes, default=None),
            )  # fmt: skip
        meeting.victim = victim
        return True

    def _runs_since(self, job: _Job, seconds: float) -> bool:
        stamp = self.stamps / f"{job.job_id}.start"
        return stamp.exists() and time.time() - stamp.stat().st_mtime >= seconds

    def _if_flying(self, job: _Job | None) -> _Job | None:
        return next(self._landed([job]), None) if job is not None else None

    def knows(self, *names: str) -> bool:
        return {program.name for program in self.programs} >= set(names)

    def _named(self, name: str) -> Program:
        return next(program for program in self.programs if program.name == name)

    # -- Sluice -----------------------------------------------------------------

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Let Sluice decide, follow logs and accounting, learn and publish, by itself."""
        with (self.place / "learn.log").open("a") as log:
            self.sluiced.start()
            process = subprocess.Popen(
                [BIN / "sluice-learn", self.logs],
                env=self.environment(),
                stdout=log,
                stderr=log,
            )
            try:
                wait_for(self.files.snapshot.exists)
                yield
            finally:
                process.terminate()
                process.wait()
                self.sluiced.stop()

    def environment(self) -> dict[str, str]:
        return self.slurm.client_environment() | {"SLUICE_CONF": str(self.files.config)}

    # -- jobs -------------------------------------------------------------------

    def _submit(
        self,
        program: Program,
        lane: str,
        *,
        phase: str = "contended",
        size: int | None = None,
        alongside: str = "",
    ) -> _Job:
        if program.sizes and size is None:
            size = self.rng.choice(program.sizes)
        user = pwd.getpwnam(program.user)
        environment = {
            "LOOP_LANE": str(self.targets.path(lane)),
            "LOOP_STAMPS": str(self.stamps),
            **self._traced(self._logs_of(phase)),
        }
        words = [
            "sbatch", "--parsable", f"--uid={user.pw_uid}", f"--gid={user.pw_gid}", "--chdir=/",
            "--output=/dev/null", f"--job-name={program.name}", "--exclusive", "--time=10",
            *program.options, str(self.place / "scripts" / program.name),
            *([str(size)] if size is not None else []),
        ]  # fmt: skip
        job_id = int(self.slurm.run(*words, environment=environment).stdout)
        return _Job(program, job_id, lane, size, alongside, phase)

    def _logs_of(self, phase: str) -> Path:
        return self.logs if phase in {"contended", "filler"} else self.truth_logs

    def _traced(self, logs: Path) -> dict[str, str]:
        """The words in front of a program that leave a log of what it does."""
        if self.runtime is None:
            return {"LOOP_TRACE": f"sh {TRACE} {self.calls}"}
        to = f"DARSHAN_LOGPATH={logs} LD_PRELOAD"
        plain = f"DARSHAN_ENABLE_NONMPI=1 {to}={self.runtime.plain}"
        return {"LOOP_TRACE": plain, "LOOP_TRACE_MPI": f"{to}={self.runtime.mpi}"}

    def _synthesise(self, job_id: int, uid: int, logs: Path) -> None:
        for calls in sorted(self.calls.glob(f"{job_id}.*.calls")):
            log_of(calls, logs, uid=uid, jobid=job_id)

    def _landed(self, flying: Sequence[_Job]) -> Iterator[_Job]:
        """Yield the jobs that go on; keep the runs of those that have ended."""
        self._tidy()
        if not flying:
            return
        ids = ",".join(str(job.job_id) for job in flying)
        rows = self.slurm.run(
            "squeue", "-h", "-t", "all", "-o", "%F|%A|%T", "-j", ids, check=False
        ).stdout
        states: dict[int, dict[int, str]] = {}
        for row in rows.splitlines():
            array, job, state = row.split("|")
            states.setdefault(int(array), {})[int(job)] = state
        for job in flying:
            seen = states.get(job.job_id, {job.job_id: "COMPLETED"})
            if all(state in ENDED for state in seen.values()):
                for job_id, state in seen.items():
                    self._keep(job, job_id, state)
            else:
                yield job

    def _keep(self, job: _Job, job_id: int, state: str) -> None:
        uid = pwd.getpwnam(job.program.user).pw_uid
        if state != "CANCELLED":
            self._synthesise(job_id, uid, self._logs_of(job.phase))
        try:
            started, ended = (
                float((self.stamps / f"{job_id}.{name}").read_text()) for name in ("start", "end")
            )
        except (OSError, ValueError):
            started = ended = float("nan")
        self.runs.append(
            Run(
                job.phase, job.program.name, job.program.user, job_id, job.lane, job.size,
                job.alongside, started, ended, state, job.program.has_log,
            )
        )  # fmt: skip
        self._outputs.append((time.monotonic(), self.targets.path(job.lane) / str(job_id)))

    def _tidy(self) -> None:
        """Remove what ended jobs wrote, once it has reached the storage."""
        while self._outputs and self._outputs[0][0] < time.monotonic() - KEPT:
            shutil.rmtree(self._outputs.pop(0)[1], ignore_errors=True)

    def save(self) -> None:
        """Keep runs and accounting, for truth.py."""
        rows = "".join(json.dumps(asdict(run)) + "\n" for run in self.runs)
        (self.place / "runs.jsonl").write_text(rows)
        sacct = self.slurm.run("sacct", "--parsable2", "--allusers", "--format=ALL", timeout=60)
        (self.place / "sacct.txt").write_text(sacct.stdout)
