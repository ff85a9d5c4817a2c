"""The lab of `make demo`: two real programs on slow targets, under a real Slurm with Sluice.

A job's first node does the I/O, with one process a target that it writes to. Root gets throttled
targets, jobs of a user, and turns. Without root, targets are a model and no job takes turns.
"""

import json
import os
import pwd
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "loop"))

import turns_daemons
import turns_page
from accounted_slurm import AccountedSlurm
from darshan_runtime import find_runtime
from plugin_harness import PluginFiles
from private_slurm import free_ports
from sluiced import Sluiced, wait_for
from storage_targets import StorageTargets
from synthesised_logs import log_of
from target_kinds import MIB, Limits
from turns_daemons import Agent, Daemon
from turns_lab import Sampled
from up_and_down import UpAndDown

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "build" / "plugins"
PROGRAMS = ROOT / "tests" / "loop" / "programs"
LANES = ("sl0", "sl1")
SPARE = tuple((f"a{i}", f"b{i}") for i in range(8))
"""Pairs of targets, each like the two lanes: runs alone go there at the same time."""
LIMITS = Limits(bandwidth=10_000_000, operations=0, dirty=4 * MIB, size=512 * MIB)
RUNS = 20  # of each program, alone
HEAD_START = 0.7  # seconds, about as long as Sluice needs to hear of a job
PATIENCE = 120.0  # seconds for any job
TURNS_LATENCY = 10  # ms, the least: bursts here last for a second
JOB_OF_NO_PROGRAM = 1_000_000
SETTINGS = {
    "Lane": "\nLane=".join(f"{lane} Targets=1 Bandwidth={LIMITS.bandwidth}" for lane in LANES),
    # Jobs here run for seconds, not for hours, and no other job would use the nodes of one that
    # waits.
    "MinSaving": 2,
    "WaitPrice": 1,
    "Tolerance": 3,  # on one target of two, a job that streams takes twice as long
    "LeaseSeconds": 5,
    "FollowInterval": 200,
    "TurnsGain": 0.5,  # docs/evidence/turns-measured.md
}


@dataclass(frozen=True)
class Program:
    """A job's name, its nodes, and what each of its processes does."""

    name: str
    nodes: int
    targets: int
    does: str
    command: str


SWEEP = Program(
    *("sweep", 8, 1, "commits to SQLite on sl0"),
    "/usr/bin/python3 {place}/python_programs.py results 8 --bursts 3 --pause 0.9",
)
ARCHIVE = Program(
    *("archive", 1, 2, "streams tars to sl0 and sl1"),
    "tar -b 2048 -cf out.tar -C {place}/inputs .",
)
INPUTS, INPUT = 24, 5 * MIB // 2  # files that tar reads, and bytes of each

SCRIPT = """\
#!/bin/sh
stamp() {{ date +%s.%N > {place}/jobs/$SLURM_JOB_ID.new
           mv {place}/jobs/$SLURM_JOB_ID.new {place}/jobs/$SLURM_JOB_ID.$1; }}
traced() {{ {trace} "$@"; }}
stamp start
for output in $OUTPUT; do
    number=$((number + 1)) output=${{SLUICE_DIR:-$output}}
    mkdir $output/$SLURM_JOB_ID.$number
    (cd $output/$SLURM_JOB_ID.$number && traced {command}) & processes="$processes $!"
done
for process in $processes; do wait $process || status=$?; done
stamp end
exit $status
"""


class DemoError(Exception):
    """A step failed; the text says why."""


@dataclass(frozen=True)
class Job:
    """One job that has ended. Seconds since the epoch."""

    program: Program
    job_id: int
    submitted: float
    started: float
    ended: float
    logs: tuple[Path, ...]

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    @property
    def wait(self) -> float:
        return self.started - self.submitted


@dataclass(frozen=True)
class CoRun:
    """Both programs together, SWEEP first."""

    sweep: Job
    archive: Job
    decision: Mapping[str, Any] = field(default_factory=dict)
    """On the archive, where there was a model."""
    holds: Sequence[tuple[float, float]] = ()
    """When the archive was held."""

    @property
    def jobs(self) -> tuple[Job, Job]:
        return self.sweep, self.archive

    def lost(self, alone: Mapping[str, float]) -> float:
        """Node-seconds by which both were slower than alone."""
        return sum(job.program.nodes * (job.seconds - alone[job.program.name]) for job in self.jobs)


class _Slurm(AccountedSlurm):
    """One whose jobs run where the targets are slow."""

    slow: Callable[..., list[str]]

    def start_node(self, name: str) -> None:
        command = self.slow("slurmd", "-f", self.slurm_conf, "-N", name)
        self._launch(f"slurmd.{name}", command)


class DemoLab(UpAndDown):
    """Everything below one directory, which every user must be able to enter."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.has_turns = os.geteuid() == 0
        self.user = pwd.getpwnam("games") if self.has_turns else pwd.getpwuid(os.geteuid())
        self.runtime = find_runtime()
        lanes = [*LANES, *(lane for pair in SPARE for lane in pair)]
        self.targets = StorageTargets(place / "storage", lanes=lanes, limits=LIMITS)
        self.files = PluginFiles(place / "sluice")
        classes = ("stream", "flush", "meta")
        self.slurm = _Slurm(
            place / "slurm",
            nodes=SWEEP.nodes + 2,
            plugin_dir=PLUGINS,
            settings={
                "JobSubmitPlugins": "sluice",
                "Licenses": ",".join(f"{one}_{name}:1000000" for one in LANES for name in classes),
                "SchedulerParameters": "batch_sched_delay=0,sched_interval=1,bf_interval=1",
            },
            environment={"SLUICE_CONF": str(self.files.config)},
        )
        self.slurm.partitions = {"main": f"Default=YES OverSubscribe=FORCE:{2 * len(SPARE)}"}
        self.sluiced = Sluiced(self.slurm, self.files)
        self.port = free_ports(1)[0]
        self._turns_conf = place / "sluice" / "turns.conf"
        self._stack = ExitStack()

    def up(self) -> None:
        self.place.mkdir(mode=0o755)
        for name in ("jobs", "logs", "later", "calls", "inputs", "sluice"):
            (self.place / name).mkdir()
            (self.place / name).chmod(0o755 if name in {"inputs", "sluice"} else 0o1777)
        for number in range(INPUTS):
            file = self.place / "inputs" / f"part{number:02}.dat"
            file.write_bytes(bytes(range(256)) * (INPUT // 256))
        with ExitStack() as stack:
            stack.enter_context(self.targets)
            is_model = self.targets.kind == "simulated"
            self.slurm.slow = lambda *words: (
                list(words) if is_model else self.targets.command(*words)
            )
            for program in (SWEEP, ARCHIVE):
                self.add(program)
            self._configure("off")
            stack.enter_context(self.slurm)
            self.sluiced.start()
            stack.callback(self._stop_sluiced)
            if self.has_turns:
                self._start_turns(stack)
            wait_for(self.files.snapshot.exists)
            self._stack = stack.pop_all()

    def down(self) -> None:
        self._stack.close()

    # -- programs -------------------------------------------------------------------

    def add(self, program: Program) -> None:
        """Write its script."""
        for name in ("python_programs.py", "trace.sh"):
            shutil.copy(PROGRAMS / name, self.place)
        command = program.command.format(place=self.place)
        (self.place / program.name).write_text(
            SCRIPT.format(place=self.place, trace=self._trace(), command=command)
        )

    def _trace(self) -> str:
        """The words in front of a program that leave a log, and without root slow it."""
        slow = self.targets.command() if self.targets.kind == "simulated" else []
        if self.runtime is None:
            return " ".join([*slow, "sh", f"{self.place}/trace.sh", f"{self.place}/calls"])
        library = shutil.copy(self.runtime.plain, self.place)
        preload = "".join(f":{word.partition('=')[2]}" for word in slow if "PRELOAD" in word)
        return (
            f"env {' '.join(word for word in slow[1:] if 'PRELOAD' not in word)} "
            f"DARSHAN_ENABLE_NONMPI=1 DARSHAN_LOGPATH=$LOGS "
            f'LD_PRELOAD="${{LD_PRELOAD:+$LD_PRELOAD:}}{library}{preload}"'
        )

    # -- Sluice ---------------------------------------------------------------------

    def _configure(self, mode: str, **settings: str) -> None:
        self.files.configure(Mode=mode, **SETTINGS, **settings)
        conf = self.files.config.read_text()
        draft = self._turns_conf.with_suffix(".new")
        draft.write_text(f"{conf}TurnsPort={self.port}\nTurnsLatency={TURNS_LATENCY}\n")
        draft.rename(self._turns_conf)

    def _start_turns(self, stack: ExitStack) -> None:
        """A coordinator and an agent, which speak by the cluster's own munged."""
        munge = self.slurm.directory / "munge" / "socket"
        place = self.place / "turns"
        place.mkdir()
        library = shutil.copy(turns_page.build(), self.place)
        options = ("--config", self._turns_conf, "--address", "127.0.0.1", "--munge-socket", munge)
        turns = Daemon(place / "turns.log", turns_daemons.build() / "sluice-turns", *options)
        stack.callback(turns.start().kill)
        self.agent = Agent("node", place, self.port, munge)
        stack.callback(self.agent.start().kill)
        mounts = [self.targets.path(lane) for lane in LANES]
        # a job of no program: an agent with none has no connection, and takes a moment to make it
        stack.callback(self.agent.register(JOB_OF_NO_PROGRAM, *mounts, slots=0).close)
        words = [
            *(f"lane={lane}:{path}:1" for lane, path in zip(LANES, mounts, strict=True)),
            f"turns={library}",
            *(f"turns_on={path}" for path in mounts),
            f"turns_socket={self.agent.socket}",
        ]
        plugstack = self.slurm.directory / "etc" / "plugstack.conf"
        plugstack.write_text(f"optional {PLUGINS / 'spank_sluice.so'} {' '.join(words)}\n")

    def switch(self, mode: str, **settings: str) -> None:
        """Change the mode, and wait until all parts of Sluice have taken it up."""
        self._configure(mode, **settings)
        files = ("bundle", "snapshot")
        self.files.wait_for(
            lambda seen: seen["mode"] == mode and all(seen[file]["loaded"] for file in files)
        )
        is_leased = mode == "enforce"
        wait_for(
            lambda: all(
                (gate["lease_seconds"] is not None) == is_leased
                for gate in self.sluiced.sluice("gates")["gates"]
            )
        )
        if self.has_turns:
            wait_for(lambda: self._turns_facts() == (mode, True))

    def _turns_facts(self) -> tuple[str, bool]:
        """The coordinator's mode, and whether it hears the agent."""
        status = self.files.snapshot.with_name(f"{self.files.snapshot.name}.turns.status")
        facts = json.loads(status.read_text())["facts"] if status.exists() else {}
        return facts.get("mode", ""), facts.get("agents", 0) > 0

    def _stop_sluiced(self) -> None:
        if self.sluiced.process.poll() is None:
            self.sluiced.stop()

    def kill_sluiced(self) -> None:
        self.sluiced.stop(signal.SIGKILL)

    def learn(self) -> None:
        """Logs and accounting into the history, a model out of it, and the model to slurmctld."""
        sacct = self.place / "sacct.txt"
        shown = ("sacct", "--parsable2", "--allusers", "--format=ALL")
        wait_for(lambda: self._accounted() >= 2 * RUNS)
        sacct.write_text(self.slurm.run(*shown, timeout=60).stdout)
        self.sluiced.command("history", "ingest", str(self.place / "logs"), "--sacct", str(sacct))
        self.sluiced.command("model", "train", "--publish")

    def _accounted(self) -> int:
        """How many jobs slurmdbd knows to have ended."""
        words = ("sacct", "--noheader", "--allocations", "--allusers", "--format=State")
        return self.slurm.run(*words).stdout.split().count("COMPLETED")

    # -- jobs -----------------------------------------------------------------------

    def submit(
        self, program: Program, output: Sequence[str] = LANES, *options: str, logs: str = "later"
    ) -> tuple[int, float]:
        """Return the job's id, and when it was submitted."""
        user = (f"--uid={self.user.pw_uid}", f"--gid={self.user.pw_gid}") if self.has_turns else ()
        now = time.time()
        job = self.slurm.run(
            *("sbatch", "--parsable", *user, "--chdir=/", f"--job-name={program.name}"),
            *(f"--output={self.place}/jobs/%j.out", f"--nodes={program.nodes}", "--time=60"),
            *(*options, self.place / program.name),
            environment={
                "OUTPUT": " ".join(
                    str(self.targets.path(lane)) for lane in output[: program.targets]
                ),
                "LOGS": str(self.place / logs),
            },
        )
        return int(job.stdout), now

    def has_ended(self, job_id: int) -> bool:
        return (self.place / "jobs" / f"{job_id}.end").exists()

    def finish(self, program: Program, job_id: int, submitted: float, logs: str = "later") -> Job:
        """Wait for its end, and remove what it wrote."""
        deadline = time.monotonic() + PATIENCE
        while not self.has_ended(job_id):
            if time.monotonic() > deadline:
                said = self.place / "jobs" / f"{job_id}.out"
                raise DemoError(
                    f"job {job_id} ({program.name}) has not ended after {PATIENCE:.0f} s: "
                    f"{said.read_text() if said.exists() else 'it did not start'}"
                )
            time.sleep(0.05)
        state = self.slurm.wait_for_job(job_id, "COMPLETED", "FAILED", timeout=PATIENCE)["JobState"]
        if state != "COMPLETED":
            said = (self.place / "jobs" / f"{job_id}.out").read_text()
            raise DemoError(f"job {job_id} ({program.name}) ended as {state}: {said}")
        started, ended = (
            float((self.place / "jobs" / f"{job_id}.{end}").read_text()) for end in ("start", "end")
        )
        for calls in (self.place / "calls").glob(f"{job_id}.*.calls"):
            log_of(calls, self.place / logs, uid=self.user.pw_uid, jobid=job_id)
        for lane in self.targets.lanes:
            for output in self.targets.path(lane).glob(f"**/{job_id}.[12]"):
                shutil.rmtree(output)
        found = tuple((self.place / logs).glob(f"*_id{job_id}-*.darshan"))
        return Job(program, job_id, submitted, started, ended, found)

    def run_alone(self) -> dict[str, list[float]]:
        """Run each program so often, the first time with nothing else on the machine."""
        seconds: dict[str, list[float]] = {SWEEP.name: [], ARCHIVE.name: []}
        for program in (SWEEP, ARCHIVE):
            job = self.finish(program, *self.submit(program, LANES, logs="logs"), logs="logs")
            seconds[program.name].append(job.seconds)
        deck = [ARCHIVE, SWEEP] * (RUNS - 1)
        running: dict[tuple[str, str], tuple[Program, int, float]] = {}
        while deck or running:
            for pair in SPARE:
                if pair in running and self.has_ended(running[pair][1]):
                    job = self.finish(*running.pop(pair), logs="logs")
                    seconds[job.program.name].append(job.seconds)
                if pair not in running and deck:
                    program = deck.pop()
                    running[pair] = (program, *self.submit(program, pair, logs="logs"))
            time.sleep(0.05)
        return seconds

    def run_together(self, *, in_turns: bool = False) -> CoRun:
        """Run SWEEP, and ARCHIVE as soon as Sluice knows of it. in_turns: both ask for turns."""
        self.targets.settle()
        options = ("--io-turns",) if in_turns else ()
        sweep = self.submit(SWEEP, LANES, *options)
        self.slurm.wait_for_job(sweep[0], "RUNNING")
        tokens = self.slurm.job(sweep[0])["Licenses"].split(",")
        if len(tokens) > 1:  # an operator says to which target it writes
            self.slurm.run("scontrol", "update", f"jobid={sweep[0]}", f"licenses={tokens[0]}")
        if self.knows_programs:
            self.sluiced.wait_for_snapshots(2)
            self.sluiced.wait_until_loaded()
        else:
            time.sleep(HEAD_START)
        archive = self.submit(ARCHIVE, LANES, *options)
        holds = self._watch(archive[0]) if in_turns else ()
        jobs = self.finish(SWEEP, *sweep), self.finish(ARCHIVE, *archive)
        if not self.knows_programs:
            return CoRun(*jobs)
        self.sluiced.wait_until_joined(archive[0])
        decision = self.sluiced.sluice("why", str(archive[0]))["record"]["decision"]
        return CoRun(*jobs, decision, holds)

    @property
    def knows_programs(self) -> bool:
        return self.files.bundle.exists()

    def _watch(self, job_id: int) -> Sequence[tuple[float, float]]:
        """When the job is held, until it has ended."""
        mounts = [self.targets.path(lane) for lane in LANES]
        page = self.agent.register(job_id, *mounts, nodes=ARCHIVE.nodes, slots=0)
        sampled = Sampled(page)
        deadline = time.monotonic() + PATIENCE
        while not self.has_ended(job_id) and time.monotonic() < deadline:
            sampled.look(time.time())
            time.sleep(0.05)
        page.close()
        return [(start, end) for start, end in sampled.holds]
