"""Ingest at the scale of a site: bounded memory, damaged logs by the thousand, kill -9."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from made_logs import MadeLog

from sluice.history_db.records import Run
from sluice.history_db.store import Store
from sluice.ingest.ingest import ingest

DATA = Path(__file__).parents[1] / "data" / "darshan"
CALL = "from sluice.cli.main import main; main()"
MIB = 1 << 20
LIMIT = 256 * MIB  # of memory, all processes of an ingest together


def command(history: Path, *paths: Path) -> list[str]:
    return [
        *(sys.executable, "-c", CALL, "history", "ingest", "--workers", "2"),
        *("--history", str(history), *map(str, paths)),
    ]


def family(pid: int) -> list[int]:
    """A process and its descendants, as far as they are there."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []
    return [pid, *(member for child in children for member in family(int(child)))]


def proportional_memory(pid: int) -> int:
    """Bytes of a process, pages that several share by its part."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def peak_of(arguments: list[str]) -> tuple[int, str]:
    """Run a command; return the most memory it was seen to hold, and its last line."""
    peak = 0
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(proportional_memory, family(process.pid))))
            time.sleep(0.1)
        assert process.stdout is not None
        last = process.stdout.read().strip().splitlines()[-1]
    return peak, last


def make_logs(directory: Path, count: int) -> None:
    """Logs that differ in job, time, size and pattern, in a directory a day."""
    sizes = np.random.default_rng(1)
    for number in range(count):
        day = directory / f"{number // 5000:02}"
        day.mkdir(parents=True, exist_ok=True)
        start = 1_700_000_000 + 20 * number
        log = MadeLog(jobid=number + 1, start=start, end=start + 100)
        for file in range(1 + number % 4):
            counters = {"OPENS": 1, "WRITES": 4, "BYTES_WRITTEN": int(sizes.integers(1, 1 << 30))}
            log.add("POSIX", file=file + 1, rank=0, counters=counters)
        log.write(day / f"{number}.darshan")


@pytest.mark.acceptance
@pytest.mark.parametrize("count", [10_000, 100_000])
def test_memory_does_not_grow_with_the_number_of_logs(tmp_path, count, record_property):
    make_logs(tmp_path / "logs", count)
    peak, last = peak_of(command(tmp_path / "h.db", tmp_path / "logs"))
    print(f"\n{count} logs: {peak / MIB:.0f} MiB at the most, all processes together")
    record_property("peak_mib", peak / MIB)
    assert last.startswith(f"read {count}, skipped 0")
    assert peak <= LIMIT
    shutil.rmtree(tmp_path / "logs")


@pytest.mark.acceptance
def test_memory_does_not_grow_with_the_trace_in_a_log(tmp_path):
    log = MadeLog()
    log.add("POSIX", file=1, rank=0, counters={"OPENS": 1, "BYTES_WRITTEN": 1 << 30})
    log.rows["DXT_POSIX"] = [np.random.default_rng(1).bytes(400 * MIB)]
    path = log.write(tmp_path / "a.darshan")
    assert path.stat().st_size > 390 * MIB
    peak, last = peak_of(command(tmp_path / "h.db", path))
    print(f"\na log of {path.stat().st_size / MIB:.0f} MiB: {peak / MIB:.0f} MiB at the most")
    assert last.startswith("read 1,")
    assert peak <= LIMIT


@pytest.mark.acceptance
def test_a_record_of_a_giant_log_needs_less_than_a_kib_of_memory(tmp_path):
    """Also where one process wrote all of them, so that they have to be unpacked at once."""
    records = 400_000
    log = MadeLog(nprocs=records)
    log.add("POSIX", file=0, rank=0, counters={"OPENS": 1, "WRITES": 1, "BYTES_WRITTEN": 1 << 20})
    (record,) = log.rows["POSIX"]
    log.rows["POSIX"] = [number.to_bytes(8, "little") + record[8:] for number in range(records)]
    giant, last = peak_of(command(tmp_path / "h.db", log.write(tmp_path / "giant.darshan")))
    assert last.startswith("read 1,")
    small, _ = peak_of(command(tmp_path / "h.db", min(DATA.glob("*.darshan"))))
    print(f"\na log of {records} records: {(giant - small) / records:.0f} bytes a record")
    assert giant - small <= 1024 * records


# Damage


def mutated(content: bytes, dice: random.Random) -> bytes:
    """Return a log as a broken disk, a full one, or a malicious hand may leave it."""
    damaged = bytearray(content)
    kind = dice.randrange(6)
    place = dice.randrange(len(damaged))
    if kind == 0:  # bits
        for _ in range(dice.choice([1, 1, 2, 8, 64])):
            damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
    elif kind == 1:  # the header: lengths, offsets, versions
        damaged[dice.randrange(min(len(damaged), 1400))] = dice.randrange(256)
    elif kind == 2:  # cut
        del damaged[place:]
    elif kind == 3:  # a hole
        damaged[place : place + dice.randrange(1, 4096)] = bytes(dice.randrange(1, 4096))
    elif kind == 4:  # a piece twice
        damaged[place:place] = damaged[: dice.randrange(1, 2048)]
    else:  # extreme numbers
        width = dice.choice([4, 8])
        value = dice.choice([0, 1, (1 << 8 * width - 1) - 1, (1 << 8 * width) - 1])
        damaged[place : place + width] = value.to_bytes(width, dice.choice(["little", "big"]))
    return bytes(damaged)


def damaged_logs(directory: Path, count: int) -> list[Path]:
    """Make damaged logs 00000.darshan, …; return what each was before."""
    directory.mkdir()
    dice = random.Random(9)
    paths = sorted(DATA.glob("*.darshan"))
    whole = {path: path.read_bytes() for path in paths}
    origins = [dice.choice(paths) for _ in range(count)]
    for number, origin in enumerate(origins):
        (directory / f"{number:05}.darshan").write_bytes(mutated(whole[origin], dice))
    return origins


FROM_THE_HEATMAP = ("burst_seconds", "period_seconds")
"""Unknown where its version is one that nobody knows, as a younger Darshan's may be."""


COMPLETED = ("write_bytes", "read_bytes", "rate")
"""Taken from the heatmap where a damaged header says that records are missing."""


def said_of(run: Run, *, without: tuple[str, ...] = ()) -> tuple[object, ...]:
    """What a log says of job and I/O."""
    log, numbers = run.log, run.profile.numbers
    left_out = (*FROM_THE_HEATMAP, *without)
    return (
        *(log.uid, log.jobid, log.exe, log.start, log.end, log.nprocs, log.format),
        *(run.profile.pattern, run.profile.shares),
        {name: value for name, value in numbers.items() if name not in left_out},
    )


def says_the_same(run: Run, origin: Run) -> bool:
    without = COMPLETED if run.log.partial and not origin.log.partial else ()
    return said_of(run, without=without) == said_of(origin, without=without)


def changed_logs(store: Store, origins: list[Path], place: Path) -> list[str]:
    """Return what is said of logs that were read, where it is not what their origins say.

    But for those that move next to nothing, as their origins do, where the damage took the doubt.
    """
    with Store(place / "whole.db", create=True) as whole:
        ingest(whole, [DATA], workers=2)
        truth = {Path(run.log.path).name: run for run in whole.runs.runs()}
    return [
        f"{run.log.path} ({origin}): {run.profile.pattern} {run.profile.confidence:.2f}"
        for run in store.runs.runs()
        if not says_the_same(run, truth[origin := origins[int(Path(run.log.path).stem)].name])
        and not run.profile.shares == truth[origin].profile.shares == {"none": 1.0}
    ]


def check_damaged(tmp_path: Path, count: int) -> None:
    origins = damaged_logs(tmp_path / "logs", count)
    named: list[str] = []
    with Store(tmp_path / "h.db", create=True) as store:
        summary = ingest(
            store,
            [tmp_path / "logs"],
            workers=2,
            quarantined=lambda failure: named.append(f"{failure.path.name}: {failure.reason}"),
        )
        kept = store.counts()
        changed = changed_logs(store, origins, tmp_path)
    assert summary.read + summary.known + len(summary.quarantined) == count
    assert len(named) == len(summary.quarantined)
    assert all(line.split(": ", 1)[1] for line in named)
    assert kept.logs == summary.read
    crashed = [line for line in named if "crashed" in line]
    late = [line for line in named if "took longer" in line]
    print(
        f"\n{count} damaged logs: {len(named)} named, {summary.known} the same as another, "
        f"{summary.read} read, {len(changed)} of them not as the whole log and called unknown; "
        f"libdarshan-util crashed on {len(crashed)} and hung on {len(late)} of them"
    )
    assert late == []
    assert all(" unknown 0" in line for line in changed), changed


def test_each_damaged_log_is_named_and_costs_only_itself(tmp_path):
    check_damaged(tmp_path, 400)


@pytest.mark.acceptance
def test_ten_thousand_damaged_logs_are_each_named(tmp_path):
    check_damaged(tmp_path, 10_000)


# Interruption


def everything(history: Path) -> list[tuple[object, ...]]:
    """What a history says of logs, without the numbers that it gave them."""
    with sqlite3.connect(history) as db:
        return db.execute(
            "SELECT logs.path, logs.digest, logs.reason, logs.jobid, profiles.pattern, "
            "profiles.write_bytes, profiles.features FROM logs "
            "LEFT JOIN profiles ON profiles.log = logs.id ORDER BY logs.path"
        ).fetchall()


def test_kill_at_any_point_neither_loses_nor_doubles_a_row(tmp_path):
    logs = tmp_path / "logs"
    make_logs(logs, 1500)
    damaged_logs(logs / "damaged", 50)
    begun = time.monotonic()
    subprocess.run(command(tmp_path / "whole.db", logs), check=False, capture_output=True)
    whole = time.monotonic() - begun
    killed = tmp_path / "killed.db"
    dice = random.Random(4)
    deaths = 0
    for _ in range(8):
        arguments = command(killed, logs)
        with subprocess.Popen(
            arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        ) as process:
            try:
                process.wait(timeout=dice.uniform(0.1, 0.9) * whole)
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                deaths += 1
    subprocess.run(command(killed, logs), check=False, capture_output=True)
    assert deaths
    assert everything(killed) == everything(tmp_path / "whole.db")
    with Store(killed) as store:
        assert store.counts().logs >= 1500
