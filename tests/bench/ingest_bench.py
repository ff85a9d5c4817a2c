"""How fast logs are read and kept, against the bare record loop of libdarshan-util.

The loop is the floor for a reader that must read every format. Ratios of rates measured in
turns within this run, per core, by records in a log.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sluice.classifier import darshan_log
from sluice.classifier.darshan_writer import MadeLog
from sluice.classifier.ingest import ingest
from sluice.classifier.profile import read_profile
from sluice.history_db.store import Store

ROUNDS = 5
SIZES = {1: 600, 32: 300, 1024: 30}  # records in a log: logs


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
        paths.append(log.write(directory / f"{records}-{number}.darshan"))
    return paths


def bare_loop(paths: list[Path]) -> None:
    """Open each log and read its job and its POSIX records, nothing else."""
    ffi, lib = darshan_log.ffi, darshan_log.lib
    job, record = ffi.new("struct darshan_job *"), ffi.new("struct darshan_posix_file *")
    cursor = ffi.new("void **")
    for path in paths:
        handle = lib.darshan_log_open(bytes(path))
        lib.darshan_log_get_job(handle, job)
        cursor[0] = record
        while lib.darshan_log_get_record(handle, 1, cursor) > 0:
            cursor[0] = record
        lib.darshan_log_close(handle)


def read_only(paths: list[Path]) -> None:
    for path in paths:
        darshan_log.read_log(path)


def profile(paths: list[Path]) -> None:
    for path in paths:
        read_profile(path)


def whole_ingest(paths: list[Path]) -> None:
    with tempfile.TemporaryDirectory() as place, Store(f"{place}/h.db", create=True) as store:
        ingest(store, paths, workers=1)


def rate(work: Callable[[list[Path]], None], paths: list[Path]) -> float:
    """Logs a second of wall-clock, one core busy."""
    start = time.perf_counter()
    work(paths)
    return len(paths) / (time.perf_counter() - start)


def main() -> int:
    steps = {"bare loop": bare_loop, "read": read_only, "profile": profile, "ingest": whole_ingest}
    print("logs a second on one core, and as a share of the bare record loop (medians)")
    with tempfile.TemporaryDirectory() as place:
        for records, count in SIZES.items():
            paths = make(Path(place), records, count)
            profile(paths[:3])  # load what is loaded once
            rounds = [
                {name: rate(step, paths) for name, step in steps.items()} for _ in range(ROUNDS)
            ]
            for name in steps:
                logs = statistics.median(each[name] for each in rounds)
                share = statistics.median(each[name] / each["bare loop"] for each in rounds)
                print(f"{records:5} records  {name:10} {logs:9.0f}/s  {share:6.1%}")
            with Store(f"{place}/{records}.db", create=True) as store:
                ingest(store, paths, workers=1)
                start = time.perf_counter()
                ingest(store, paths, workers=1)
                seconds = time.perf_counter() - start
                print(f"{records:5} records  {'skip':10} {len(paths) / seconds:9.0f}/s  known ones")
    return 0


if __name__ == "__main__":
    sys.exit(main())
