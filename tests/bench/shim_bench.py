"""What the preloaded shim adds to a write of 1 KiB, and to the start of a program.

    python tests/bench/shim_bench.py

Time of the processor. One process writes both ways, round by round, because machines are noisy.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))

import turns_page
from compile_c import compiled
from turns_page import TurnsPage

GOAL_NS = 100
"""A write to a file that counts costs at most so much more, in the median."""
ROUNDS, PARTS, STARTS = 1000, 9, 40
MEMORY = Path("/dev/shm")  # noqa: S108 -- the fastest file system: the shim's share is largest


def run(job: TurnsPage | None, *command: str | Path) -> str:
    given = job.environment() if job else {}
    return subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **given},
        pass_fds=job.descriptors if job else (),
    ).stdout


def write_times(program: Path, file: Path, job: TurnsPage) -> tuple[float, float]:
    """A write without the shim, and what the shim adds: medians over rounds, ns."""
    rows = [line.split() for line in run(job, program, file, str(ROUNDS)).splitlines()]
    plain = [float(row[0]) for row in rows]
    more = [float(row[1]) - float(row[0]) for row in rows]
    return statistics.median(plain), statistics.median(more)


def seconds_of_start(job: TurnsPage | None) -> float:
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(STARTS):
        run(job, "true")
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime) / STARTS


def main() -> int:
    turns_page.build()
    program = compiled(Path(__file__).with_name("shim_writes.c"), "-ldl")
    with tempfile.TemporaryDirectory(dir=MEMORY) as place:
        file = Path(place) / "file"
        counts, elsewhere = TurnsPage(Path(place)), TurnsPage(Path("/proc"))
        plain, more = write_times(program, file, counts)
        _, more_elsewhere = write_times(program, file, elsewhere)
    print(f"a write of 1 KiB to a file system in memory: {plain:,.0f} ns")
    print(f"  through the shim: {more:+.0f} ns; to a device that does not count ", end="")
    print(f"{more_elsewhere:+.0f} ns")
    starts = [(seconds_of_start(None), seconds_of_start(counts)) for _ in range(PARTS)]
    without, loaded = (statistics.median(column) * 1e3 for column in zip(*starts, strict=True))
    print(f"start and end of a program: {without:.2f} ms, with the shim {loaded:.2f} ms")
    print(f"  goal: at most {GOAL_NS} ns more a write")
    return 0 if more <= GOAL_NS else 1


if __name__ == "__main__":
    sys.exit(main())
