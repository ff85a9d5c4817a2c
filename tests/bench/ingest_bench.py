"""How fast logs are read and kept, against the bare record loop of libdarshan-util.

`ingest_bench.py 32 1024` measures logs of 32 and of 1,024 records alone.

The loop is the simplest reader of every format: in C, it opens a log, reads job and records of the
same modules, and forgets them. `read` is the C reader: streams at once, checks, one row a file,
names. `measure` adds what C makes of the rows. The others add what Python does: the digest of the
file, profiles of as many logs at a time as a worker takes, SQLite. Rates are logs by processor
time, whichever process spent it. Each is compared with the loop in pairs of runs, one behind the
other, by turns the one first and the other: what else the machine does then slows both alike.
Medians of the pairs are printed.

The loop reads no names, which is what logs cost most whose files have random names: a name of 30
random signs does not pack, while small records alike pack to a few bytes each.
"""

import random
import resource
import statistics
import string
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "lab"))

from made_logs import MadeLog

from sluice.darshan import log as darshan_log
from sluice.darshan._reader import ffi, lib
from sluice.history_db.store import Store
from sluice.ingest.ingest import ingest
from sluice.ingest.workers import BATCH
from sluice.patterns.profile import measured, readings

ROUNDS = 16
LOGS = Path(__file__).parents[1] / "data" / "darshan"
SIZES = {1: 3000, 32: 3000, 1024: 300}  # records in a log: logs
NAMED, NAME = 20, 30  # logs full of names; random signs of a name
SIGNS = string.ascii_letters + string.digits + "-_"


def make(directory: Path, records: int, count: int) -> list[Path]:
    """Make logs that differ, so that none is skipped as known."""
    paths = []
    for number in range(count):
        log = MadeLog(nprocs=records, jobid=number + 1)
        for rank in range(records):
            counters = {
                "OPENS": 1,
                "WRITES": 10,
                "BYTES_WRITTEN": 10 << 20,
                "MAX_BYTE_WRITTEN": (10 << 20) - 1,
                "SEQ_WRITES": 9,
                "ACCESS1_ACCESS": 1 << 20,
                "ACCESS1_COUNT": 10,
                "F_WRITE_START_TIMESTAMP": 1.0,
                "F_WRITE_END_TIMESTAMP": 2.0,
                "F_WRITE_TIME": 0.5,
            }
            log.add("POSIX", file=rank + 1, rank=rank, counters=counters)
            log.names[rank + 1] = f"/scratch/project/run{number:05}/out.{rank:06}"
        paths.append(log.write(directory / f"{records}-{number}.darshan"))
    return paths


def make_named(directory: Path, module: str) -> list[Path]:
    """Make logs of as many records as a runtime keeps, read from files with random names."""
    dice = random.Random(1)
    counters = {"OPENS": 1, "READS": 10, "BYTES_READ": 10 << 20, "F_READ_TIME": 0.5}
    paths = []
    for number in range(NAMED):
        log = MadeLog(jobid=number + 1)
        for _ in range(max(SIZES)):
            file = dice.getrandbits(64)
            log.add(module, file=file, rank=0, counters=counters)
            log.names[file] = "/scratch/" + "".join(dice.choices(SIGNS, k=NAME))
        paths.append(log.write(directory / f"{module}-{number}.darshan"))
    return paths


def bare_loop(paths: list[Path]) -> None:
    library = darshan_log.load_library()
    for path in paths:
        lib.sluice_log_scan(library, bytes(path))


def read(paths: list[Path], *, measured: bool = False) -> None:
    library, error = darshan_log.load_library(), ffi.new("struct sluice_error *")
    log, out = ffi.new("struct sluice_log *"), ffi.new("struct sluice_measurement *")
    for path in paths:
        lib.sluice_log_read(library, bytes(path), log, error)
        if measured:
            lib.sluice_log_measure(log, out, error)
        lib.sluice_log_free(log)


def measure(paths: list[Path]) -> None:
    read(paths, measured=True)


def profile(paths: list[Path]) -> None:
    for start in range(0, len(paths), BATCH):
        readings([measured(path) for path in paths[start : start + BATCH]])


def processor_seconds() -> float:
    """Of this process and of its workers that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def rate(work: Callable[[list[Path]], None], paths: list[Path]) -> float:
    """Logs a second of one core."""
    before = processor_seconds()
    work(paths)
    return len(paths) / (processor_seconds() - before)


def ingest_rate(paths: list[Path]) -> float:
    """Likewise, into a new history; to make it is no part of the work."""
    with tempfile.TemporaryDirectory() as place, Store(f"{place}/h.db", create=True) as store:
        return rate(lambda new: ingest(store, new, workers=1), paths)


STEPS = {
    "bare loop": partial(rate, bare_loop),
    "read": partial(rate, read),
    "measure": partial(rate, measure),
    "profile": partial(rate, profile),
    "ingest": ingest_rate,
}


def pair(
    step: Callable[[list[Path]], float], paths: list[Path], *, first: bool
) -> tuple[float, float]:
    """The rates of one run of the step and one of the loop, and which comes first."""
    if first:
        own = step(paths)
        return own, rate(bare_loop, paths)
    loop = rate(bare_loop, paths)
    return step(paths), loop


def compare(name: str, paths: list[Path]) -> dict[str, float]:
    """Print the rate of each step; return its share of the loop's."""
    profile(paths[:3])  # load what is loaded once
    shares = {}
    for name_of_step, step in STEPS.items():
        pairs = [pair(step, paths, first=number % 2 == 0) for number in range(ROUNDS)]
        logs = statistics.median(own for own, _ in pairs)
        shares[name_of_step] = statistics.median(own / loop for own, loop in pairs)
        print(f"{name:14} {name_of_step:10} {logs:9.0f}/s  {shares[name_of_step]:6.1%}", flush=True)
    return shares


def skip_known(name: str, paths: list[Path]) -> None:
    with tempfile.TemporaryDirectory() as place, Store(f"{place}/h.db", create=True) as store:
        ingest(store, paths, workers=1)
        speed = rate(lambda known: ingest(store, known, workers=1), paths)
    print(f"{name:14} {'skip':10} {speed:9.0f}/s  known ones")


def main() -> int:
    print("logs a second on one core, and as a share of the bare record loop (medians)")
    alone = [int(argument) for argument in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as place:
        for records in alone or SIZES:
            paths = make(Path(place), records, SIZES.get(records, 300))
            compare(f"{records} records", paths)
            skip_known(f"{records} records", paths)
        if alone:
            return 0
        for module in ("POSIX", "STDIO"):
            compare(f"{module} names", make_named(Path(place), module))
    compare("example logs", sorted(LOGS.glob("*.darshan")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
