"""The programs of the loop: real ones, of several users, each as a job script.

A script is the same in every phase, so its runs are one application to Sluice. What differs
between phases (the lane, where logs and stamps go) comes by the environment: LOOP_*.
`traced` runs a program under the Darshan runtime; nothing else in a script is.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent / "programs"
PYTHON = f"/usr/bin/python3 {HERE / 'python_programs.py'}"
SAMPLES = "samples.dat"  # on each lane, for the programs that read
SAMPLES_MIB = 80
READERS = ("training", "convert")  # programs that read them
USERS = ("games", "man", "news")  # that every Debian has, and nobody uses

HEADER = """\
#!/bin/sh
out=$LOOP_LANE/$SLURM_JOB_ID
mkdir "$out" && cd "$out" || exit 3
stamp() { date +%s.%N > "$LOOP_STAMPS/$SLURM_JOB_ID.$1"; }
traced() { env $LOOP_TRACE "$@"; }
stamp start
"""
FOOTER = """
status=$?
stamp end
exit $status
"""


@dataclass(frozen=True)
class Program:
    """A job's name, user, options of sbatch, and what its script does.

    mib is what a run writes or reads; sizes are those of the script's argument, one drawn for
    each run.
    """

    name: str
    user: str
    body: str
    mib: int
    options: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    has_log: bool = True
    is_mpi: bool = False

    def script(self) -> str:
        return HEADER + self.body + FOOTER


def all_programs(place: Path) -> tuple[Program, ...]:
    """The programs; what they read and run is made below the place."""
    games, man, news = USERS
    mpi = f"mpiexec.mpich -launcher fork -n 2 env $LOOP_TRACE_MPI {place}/mpi_blocks"
    two, three = ("--ntasks=2",), ("--ntasks=3",)
    fio = (
        "traced fio --name=job --rw=write --bs=256k --size=96m --fsync=8 --ioengine=psync --thread"
        " --thinktime=1s --thinktime_blocks=96 --thinktime_blocks_type=issue >/dev/null"
    )
    convert = f"sleep 1; traced dd if=$LOOP_LANE/{SAMPLES} iflag=direct bs=4M of=new conv=fsync"
    copy = "dd if=/dev/zero of=copy conv=fsync 2>/dev/null"
    compiles = (
        "for i in 1 2 3 4 5 6; do"
        f" traced gcc -O2 -c -D_GNU_SOURCE {HERE.parents[1]}/lab/writer.c -o $i.o; sleep 1; done"
    )
    steps = (
        f"srun env $LOOP_TRACE {PYTHON} farm 32; sleep 1; srun env $LOOP_TRACE {PYTHON} stream 96"
    )
    return (
        Program("fio", games, fio, mib=96),
        Program("arrays", man, f"traced {PYTHON} arrays 40", mib=160),
        Program("series", news, f"traced {PYTHON} series 8", mib=64),
        Program("results", games, f"traced {PYTHON} results 40", mib=40),
        Program("farm", man, f"traced {PYTHON} farm 112", mib=112),
        Program("stream", news, f"traced {PYTHON} stream 200", mib=200),
        Program("archive", games, f"sleep 2; traced tar cf a.tar -C {place}/inputs .", mib=100),
        Program("copy", news, f"sleep 1; traced {copy} bs=4M count=40; sleep 3", mib=160),
        Program("blocks", man, f"{mpi} 4 20", mib=160, is_mpi=True, options=two),
        Program("collective", games, f"{mpi} 3 16 collective", mib=96, is_mpi=True, options=two),
        Program("unformatted", news, f"traced {place}/unformatted", mib=115),
        Program("compile", man, compiles, mib=0),
        Program("tasks", games, f"srun env $LOOP_TRACE {PYTHON} stream 40", mib=120, options=three),
        Program("steps", news, steps, mib=128),
        Program("sweep", man, f'traced {PYTHON} stream "$1"', mib=100, sizes=(8, 100)),
        Program("array", games, f"traced {PYTHON} stream 60", mib=60, options=("--array=0-1",)),
        Program("crash", news, f"traced {PYTHON} crash 60", mib=60),
        Program("untraced", man, f"sleep 1; {copy} bs=1M count=100", mib=100, has_log=False),
        Program("training", games, f"traced {PYTHON} training 40", mib=160),
        Program("convert", man, f"{convert} 2>/dev/null; sleep 2", mib=160),
        Program("idle", news, f"traced {PYTHON} idle 1", mib=0),
    )


def make_programs(place: Path, *, with_mpi: bool) -> None:
    """Compile what has to be, and make what is read."""
    inputs = place / "inputs"
    inputs.mkdir()
    for number in range(40):
        (inputs / f"part{number:02}.dat").write_bytes(bytes(range(256)) * (10 << 10))
    _compile("gfortran", HERE / "unformatted.f90", place / "unformatted")
    if with_mpi:
        _compile("mpicc.mpich", HERE / "mpi_blocks.c", place / "mpi_blocks")


def make_samples(lane: Path) -> None:
    """Make what programs read on a lane."""
    (lane / SAMPLES).write_bytes(bytes(range(256)) * (SAMPLES_MIB << 12))


def _compile(compiler: str, source: Path, program: Path) -> None:
    subprocess.run([compiler, "-O2", source, "-o", program], check=True)
