"""What Sluice's gates gain, measured: a private Slurm in front of two throttled targets.

The plugin, sluiced and spank_sluice.so are the real ones, and jobs write real files.
`run` submits a case (enforce_cases.py) in `observe` or `enforce` and returns what became
of each job; `prediction` is what the core had expected of it.
"""

import json
import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import made_model
from core_calls import write_bundle
from enforce_cases import BYSTANDER, COMPUTING, WIDE, Case, Outcome, Prediction, Run
from measured_programs import STREAM, VICTIM, Lesson, MeasurementError, Program, learn
from plugin_harness import PluginFiles
from private_slurm import PrivateSlurm
from sluiced import Sluiced, wait_for
from storage_targets import StorageTargets
from target_kinds import LABELS, Limits
from up_and_down import UpAndDown

from sluice.cli.report import EXIT_CODES
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.record import Record, Situation, decide, token_names
from sluice.policies.snapshot import Snapshot
from sluice.policies.structs import View

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "build" / "plugins"
LIMITS = Limits(bandwidth=60_000_000, operations=240)
PASS = 1.0  # seconds: the most that a job waits for Slurm's pass over the queue
FIRST_ASKED = 1.0 + PASS  # seconds: likewise with a new token, for sluiced's look before that
JOB_SECONDS = 180.0  # no job of a case takes longer, whatever happens

# Slurm passes over the queue each second, and sluiced looks each 0.2 s: jobs here take
# seconds, not hours.
SCHEDULER = "batch_sched_delay=0,sched_interval=1,bf_interval=1"
SETTINGS = {"FollowInterval": 200}
LANES = ("sl0", "sl1")
UNREPLACED = 0.2  # share of what a wait avoids that no other job brings back
POLICY = """\
# The nodes of a job that waits stay idle here, so they count in full; but no job comes that
# would replace one that was avoided, as a prediction expects of all but a fifth: so a fifth.
WaitPrice=0.2
# Node-seconds: jobs here run for seconds.
MinSaving=2
MaxDelay=120
"""


class EnforceLab(UpAndDown):
    """Targets, cluster and daemon below one directory, which everybody must be able to enter.

    Coming up takes the half minute in which the programs are measured.
    """

    lesson: Lesson

    def __init__(self, place: Path, *, kinds: Sequence[str] = tuple(LABELS)) -> None:
        self.place = place
        self.targets = StorageTargets(place / "storage", lanes=LANES, limits=LIMITS, kinds=kinds)
        self.files = PluginFiles(place / "sluice")
        self.slurm = PrivateSlurm(
            place / "slurm",
            nodes=WIDE.victim_nodes + 2,
            plugin_dir=PLUGINS,
            settings={
                "JobSubmitPlugins": "sluice",
                "Licenses": ",".join(f"{token}:1000000" for token in token_names(_policy())),
                "SchedulerParameters": SCHEDULER,
            },
            environment={"SLUICE_CONF": str(self.files.config)},
        )
        self.sluiced = Sluiced(self.slurm, self.files)
        self._stack = ExitStack()

    def up(self) -> None:
        with ExitStack() as stack:
            stack.enter_context(self.targets)
            self.lesson = learn(self.targets)
            self.files.directory.mkdir()
            self._configure("observe")
            self._publish(self.files.bundle)
            stack.enter_context(self.slurm)
            self._write_plugstack()
            stack.enter_context(self._daemon())
            self._stack = stack.pop_all()

    def down(self) -> None:
        self._stack.close()

    def run(self, case: Case, mode: str) -> Run:
        """Submit a case's jobs in that mode and wait for their end."""
        self._switch(mode)
        self.targets.settle()
        output = self.place / f"{case.name}-{mode}-{time.monotonic_ns()}".replace(" ", "-")
        output.mkdir()
        victim = self._submit(VICTIM.name, case.victim_nodes, output, self._writing(VICTIM, output))
        wait_for(lambda: self._is_known(victim[0]))
        others = [
            self._submit(STREAM.name, 1, output, self._writing(STREAM, output)),
            self._submit(BYSTANDER, 1, output, f"sleep {COMPUTING}"),
        ]
        submitted = [victim, *others]
        for job_id, _ in submitted:
            self.slurm.wait_for_job(job_id, "COMPLETED", "FAILED", timeout=JOB_SECONDS)
        self.sluiced.wait_until_joined(*(job_id for job_id, _ in submitted))
        return Run(case, mode, tuple(self._outcome(*job, output) for job in submitted))

    def prediction(self, run: Run) -> Prediction:
        """What the core expects of the decision on the stream.

        Expected is at the median of its model; low and high, where the weights of both
        programs are off to either side by as much as the policy's quantile allows. What
        the core does not price is that every job waits for Slurm's next pass, and in
        enforce for sluiced's look before that: low counts the longest such wait of each job
        in enforce, high the one in observe.
        """
        z = core.normal_quantile(core.QUANTILE)
        off = 2 * z * self.lesson.interference["log_sd"]
        low, expected, high = (self._fall(run, shift) for shift in (off, 0.0, -off))
        nodes = sum(job.nodes for job in run.jobs if job.writes)
        return Prediction(low - FIRST_ASKED * nodes, expected, high + PASS * nodes)

    def report(self, since: float) -> dict[str, Any]:
        """What `sluice report` says of the jobs submitted since (UTC seconds)."""
        moment = datetime.fromtimestamp(since, UTC).astimezone().strftime("%Y-%m-%dT%H:%M:%S")
        done = self.sluiced.run("report", "--no-levers", "--json", "--since", moment)
        if done.returncode not in EXIT_CODES.values():
            raise MeasurementError(done.stderr)
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    # -- cluster and daemon -----------------------------------------------------

    def _configure(self, mode: str) -> None:
        self.files.configure(Mode=mode, **SETTINGS)

    def _write_plugstack(self) -> None:
        lanes = " ".join(f"lane={lane}:{self.targets.path(lane)}:1" for lane in self.targets.lanes)
        plugstack = self.slurm.directory / "etc" / "plugstack.conf"
        plugstack.write_text(f"optional {PLUGINS / 'spank_sluice.so'} {lanes}\n")

    @contextmanager
    def _daemon(self) -> Iterator[None]:
        self.sluiced.start()
        try:
            wait_for(self.files.snapshot.exists)
            yield
        finally:
            self.sluiced.stop()

    def _switch(self, mode: str) -> None:
        """Wait until plugin and sluiced have taken up the mode, and every gate its lease."""
        self._configure(mode)
        self.files.wait_for(
            lambda seen: (
                seen["mode"] == mode and all(seen[f]["loaded"] for f in ("bundle", "snapshot"))
            )
        )
        leased = mode == "enforce"
        wait_for(
            lambda: all(
                (gate["lease_seconds"] is not None) == leased
                for gate in self.sluiced.sluice("gates")["gates"]
            )
        )

    def _publish(self, path: Path, *, shift: float = 0.0, **certainty: float) -> bytes:
        """Write a bundle that knows the programs; shift is added to the victim's ln w."""
        model = self.lesson.interference | certainty
        return write_bundle(
            path,
            policy=_policy(self.lesson.bandwidth),
            interference=model | {"stream_level": model["stream_level"] - shift},
            applications=[
                made_model.own_application(name, os.geteuid(), i, profile)
                for i, (name, profile) in enumerate(self._profiles().items(), start=1)
            ],
            text=json.dumps({"interference": "measured on the targets of the lab"}),
            created=int(time.time()),
        )

    def _profiles(self) -> dict[str, dict[str, Any]]:
        computes = {"pattern": "none", "share": {"none": 1.0}, "confidence": 0.95, "io_share": 0.0}
        return self.lesson.profiles | {BYSTANDER: computes}

    # -- one job ------------------------------------------------------------------

    def _writing(self, program: Program, output: Path) -> str:
        """The command line of a program: on its own lane if it has one, else on all."""
        words = shlex.join(program.command(self.targets, []))
        everywhere = shlex.join(str(self.targets.path(lane)) for lane in self.targets.lanes)
        return f"{words} ${{SLUICE_DIR:-{everywhere}}} > {output}/{program.name}.json"

    def _submit(self, name: str, nodes: int, output: Path, command: str) -> tuple[int, float]:
        """Submit; return the job's id, and when that was."""
        stamp = f"date +%s.%N > {output}/{name}"
        script = f"{stamp}.start; {command}; status=$?; {stamp}.end; exit $status"
        now = time.time()
        job = self.slurm.submit(
            f"--job-name={name}", f"--nodes={nodes}", "--exclusive", "--time=2", f"--wrap={script}"
        )
        return job, now

    def _is_known(self, job: int) -> bool:
        """Whether the plugin's next decision knows that the job runs."""
        snapshot = self.sluiced.snapshot()
        return (
            any(other.job_id == job for other in snapshot.corunners())
            and self.files.stats()["snapshot"]["checksum"] == f"{snapshot.checksum:016x}"
        )

    def _outcome(self, job_id: int, submitted: float, output: Path) -> Outcome:
        seen = self.slurm.job(job_id)
        name = seen["JobName"]
        if seen["JobState"] != "COMPLETED":
            raise MeasurementError(f"job {job_id} ({name}) ended as {seen['JobState']}")
        started, ended = (float((output / f"{name}.{end}").read_text()) for end in ("start", "end"))
        report = output / f"{name}.json"
        wrote = json.loads(report.read_text()) if report.exists() else None
        decision = self._record(job_id).decision
        return Outcome(
            job_id=job_id,
            name=name,
            nodes=int(seen["NumNodes"]),
            action=decision.action,
            lanes=self._lanes(seen["Licenses"]),
            submitted=submitted,
            started=started,
            ended=ended,
            io=wrote["io_seconds"] if wrote else 0.0,
            alone=self.lesson.alone.get(name, COMPUTING),
        )

    def _lanes(self, licenses: str) -> tuple[str, ...]:
        return tuple(lane for lane in self.targets.lanes if f"{lane}_" in licenses)

    def _record(self, job_id: int) -> Record:
        """What was decided when the job was submitted."""
        with Store(self.sluiced.history, read_only=True) as store:
            rows = store.decisions.decisions_for_job(job_id)
        return next(Record.parse(row.record) for row in rows if row.joined_by in {"mark", "key"})

    def _fall(self, run: Run, shift: float) -> float:
        """Node-seconds between sharing and what was decided, under a shifted model."""
        action = run.job(STREAM.name).action
        costs = self._costs(run, shift)
        fall = costs["colocate"] - costs[action]
        return fall / UNREPLACED if action == "delay" else fall

    def _costs(self, run: Run, shift: float) -> dict[str, float]:
        """Node-seconds of each way to run the stream, by the median of a shifted model."""
        record = self._record(run.job(STREAM.name).job_id)
        with Store(self.sluiced.history, read_only=True) as store:
            stored = store.decisions.snapshot(record.snapshot_checksum)
        content = self._publish(self.place / "shifted.bundle", shift=shift, log_sd=0.0)
        situation = Situation(Bundle.parse(content), Snapshot.parse(stored.content))
        return _costs(
            decide(situation, core.default_config(), record.submission, record.now).decision
        )


def _costs(decision: View) -> dict[str, float]:
    """Node-seconds of the cheapest way of each action."""
    costs: dict[str, float] = {}
    for option in decision.alternatives:
        costs[option.action] = min(option.cost, costs.get(option.action, option.cost))
    return costs


def _policy(bandwidth: float = LIMITS.bandwidth) -> View:
    """The settings that decide, for lanes of so many bytes per second."""
    lanes = "".join(f"Lane={lane} Targets=1 Bandwidth={bandwidth:.0f}\n" for lane in LANES)
    return core.parse_config("policy", (lanes + POLICY).encode()).policy
