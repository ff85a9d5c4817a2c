"""Real programs that take turns: jobs that run them under the Darshan runtime, behind the shim.

What is known of a program beforehand is what Sluice reads from the logs of its run alone.
"""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from darshan_runtime import DarshanRuntime, find_runtime
from measured_programs import MeasurementError
from turns_cases import (
    LANES,
    MIB,
    UNKNOWN,
    Alone,
    AnyProgram,
    Burst,
    Draw,
    Job,
    Run,
    Workload,
)
from turns_lab import Bench

from sluice.history_db.records import Run as KnownRun
from sluice.patterns.job_profile import profile_of
from sluice.patterns.profile import read_profile
from sluice.prediction.jobs import profile_members

SOURCES = Path(__file__).resolve().parents[1] / "loop" / "programs"
PYTHON = f"traced /usr/bin/python3 {SOURCES / 'python_programs.py'}"
INPUTS, INPUT = 24, 5 * MIB // 2  # files that tar reads, and bytes of each
NEEDED = {
    "lmp": ("lmp", "-help"),
    "mpicc.mpich": ("mpicc.mpich", "-v"),
    "python3-netcdf4": ("/usr/bin/python3", "-c", "import netCDF4"),
}


@dataclass(frozen=True)
class RealProgram:
    """A job's name and what its script does: so many bursts, computing before each."""

    name: str
    body: str
    bursts: int
    pause: float
    processes: int = 1
    lanes: tuple[str, ...] = LANES[:1]


def program(name: str, body: str, bursts: int, pause: float, **options: Any) -> RealProgram:
    return RealProgram(name, body.format(bursts=bursts, pause=pause), bursts, pause, **options)


IN_PYTHON = "--bursts {bursts} --pause {pause} --at $at"
PROGRAMS = Workload(
    "programs",
    (
        program("lammps", "traced lmp -log none -screen none -in $place/checkpoints", 3, 28),
        program("arrays", f"{PYTHON} arrays 30 {IN_PYTHON}", 3, 22),
        program("series", f"{PYTHON} series 25 {IN_PYTHON}", 4, 20),
        program("results", f"{PYTHON} results 20 {IN_PYTHON}", 3, 24),
        program(
            "collective",
            "mpiexec.mpich -launcher fork -n 2 preloading $mpi"
            " $place/mpi_blocks {bursts} 25 collective {pause} $at",
            3,
            32,
            processes=2,
        ),
        program(
            "archive",
            "$place/until_at; traced tar cf a.tar -C $place/inputs .; sleep {pause}; "
            "traced tar cf b.tar -C $place/inputs .",
            2,
            40,
        ),
    ),
)
"""All write to one lane, as files of one stripe do, and fill it nearly all of the time."""

CHECKPOINTS = """\
units lj
lattice fcc 0.8442
region box block 0 48 0 48 0 48
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
run 1
shell {place}/until_at
variable burst loop {bursts}
label burst
write_restart checkpoint.*
run 1
if "${{burst}} < {bursts}" then "shell sleep {pause}"
next burst
jump SELF burst
"""
"""For LAMMPS: 442,368 atoms, whose checkpoint has 39 MB."""

UNTIL_AT = """\
#!/bin/sh
unset LD_PRELOAD
exec sleep $(awk -v at="$at" -v now="$(date +%s.%N)" 'BEGIN { print (at > now ? at - now : 0) }')
"""
PRELOADING = """\
#!/bin/sh
# behind the shim, which is there already
export LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$1"
shift
exec "$@"
"""

SCRIPT = """\
export at place={place} mpi={mpi} TMPDIR={logs} DARSHAN_LOGPATH={logs}
export HDF5_USE_FILE_LOCKING=FALSE PATH={place}:$PATH
traced() {{ DARSHAN_ENABLE_NONMPI=1 preloading {plain} "$@"; }}
mkdir {directory}/$SLURM_JOB_ID && cd {directory}/$SLURM_JOB_ID || exit 3
( {body} ) > {told}.out 2>&1
status=$?
ended=$(date +%s.%N)
[ $status = 0 ] || {{ cat {told}.out > {told}.err; exit 1; }}
echo "{{\\"started\\": $at, \\"ended\\": $ended}}" > {told}.new && mv {told}.new {told}.json
"""


def missing() -> str:
    """What the programs need and is not here, or nothing."""
    runtime = find_runtime()
    if runtime is None or runtime.mpi is None:
        return "no Darshan runtime: set DARSHAN_RUNTIME to its folder"
    for name, command in NEEDED.items():
        if (
            not shutil.which(command[0])
            or subprocess.run(command, check=False, capture_output=True).returncode
        ):
            return f"{name} is not installed"
    return ""


class ProgramBench(Bench):
    """One whose jobs run real programs."""

    between = 8.0
    """Programs need some of it to start."""

    def up(self) -> None:
        super().up()
        try:
            self._make_programs()
        except BaseException:
            self.down()
            raise

    def _make_programs(self) -> None:
        self.programs = self.place / "programs"
        self.logs = self.place / "logs"
        inputs = self.programs / "inputs"
        inputs.mkdir(parents=True)
        for number in range(INPUTS):
            (inputs / f"part{number:02}.dat").write_bytes(bytes(range(256)) * (INPUT // 256))
        lammps = PROGRAMS.programs[0]
        assert isinstance(lammps, RealProgram)
        (self.programs / "checkpoints").write_text(
            CHECKPOINTS.format(place=self.programs, bursts=lammps.bursts, pause=lammps.pause)
        )
        for name, script in (("until_at", UNTIL_AT), ("preloading", PRELOADING)):
            (self.programs / name).write_text(script)
            (self.programs / name).chmod(0o755)
        command = ("mpicc.mpich", "-O2", SOURCES / "mpi_blocks.c", "-o")
        subprocess.run([*command, self.programs / "mpi_blocks"], check=True)
        runtime = find_runtime()
        assert runtime is not None
        self.runtime = _copied(runtime, self.programs)

    def alone(self, program: AnyProgram) -> Alone:
        assert isinstance(program, RealProgram)
        nothing = Alone(0.0, (), 0.0, UNKNOWN)
        lone = Draw(-1, (Job(program, 1, 0.0),))
        run = self.run(lone, "off", {program.name: nothing})
        profile = self._learned(program.name)
        seconds = run.jobs[0].seconds
        burst = (seconds - program.pause * (program.bursts - 1)) / program.bursts
        return Alone(seconds, (burst,) * program.bursts, profile["write_bytes"], profile)

    def _learned(self, name: str) -> Mapping[str, Any]:
        """What the logs of its run say of a program."""
        logs = sorted((self.logs / name).glob("*.darshan"))
        if not logs:
            raise MeasurementError(f"{name} left no log")
        readings = [read_profile(log) for log in logs]
        runs = [
            KnownRun(number, one.log, one.profile, one.features, None)
            for number, one in enumerate(readings)
        ]
        return profile_members(profile_of(runs))

    def run(self, draw: Draw, mode: str, alone: Mapping[str, Alone]) -> Run:
        for job in draw.jobs:
            logs = self.logs / job.program.name
            shutil.rmtree(logs, ignore_errors=True)
            logs.mkdir(parents=True)
            logs.chmod(0o1777)
        done = super().run(draw, mode, alone)
        for lane in LANES:
            for output in self.path(lane, 0).glob("[0-9]*"):
                shutil.rmtree(output)
        return done

    def _script(self, program: AnyProgram, directories: Sequence[Path], output: Path) -> str:
        assert isinstance(program, RealProgram)
        return SCRIPT.format(
            body=program.body,
            place=self.programs,
            logs=self.logs / program.name,
            plain=self.runtime.plain,
            mpi=self.runtime.mpi,
            directory=directories[0],
            told=output / program.name,
        )

    def _bursts(self, told: Mapping[str, Any]) -> tuple[Burst, ...]:
        """From the first to the last: programs do not tell when they write."""
        return (Burst(told["started"], told["ended"]),)


def _copied(runtime: DarshanRuntime, place: Path) -> DarshanRuntime:
    """Where every user can read it."""
    assert runtime.mpi is not None
    plain, mpi = (Path(shutil.copy(one, place)) for one in (runtime.plain, runtime.mpi))
    return replace(runtime, plain=plain, mpi=mpi)
