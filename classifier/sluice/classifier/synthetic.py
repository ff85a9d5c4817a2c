"""Made-up runs with a known pattern, in the form that `darshan_log.read_log` returns.

The labelled logs come from few programs. These runs vary what such logs leave constant: the
interface, who writes, how a chunk is split into calls, flushes, side files, start-up reads.
They train the pattern classifier beside the real logs and never judge it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sluice.classifier.darshan_log import DarshanLog, Records, counter_index, time_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.random import Generator

KIB, MIB = 1024, 1024 * 1024
SIZE_NAMES = (
    "0_100",
    "100_1K",
    "1K_10K",
    "10K_100K",
    "100K_1M",
    "1M_4M",
    "4M_10M",
    "10M_100M",
    "100M_1G",
    "1G_PLUS",
)


@dataclass(slots=True)
class Run:
    """A job under construction: one row of counters for each file and process."""

    random: Generator
    nprocs: int
    clock: float = 0.1
    rows: dict[str, dict[tuple[int, int], dict[str, float]]] = field(
        default_factory=lambda: {"POSIX": {}, "STDIO": {}}
    )
    program: set[int] = field(default_factory=set)

    def file(self) -> int:
        return int(self.random.integers(1, 1 << 62))

    def count(self, module: str, file: int, rank: int, **counters: float) -> None:
        row = self.rows[module].setdefault((file, rank), {})
        for name, value in counters.items():
            row[name] = (
                max(row.get(name, 0), value)
                if name.startswith(("MAX_BYTE", "ACCESS1_ACCESS", "F_WRITE_END"))
                else min(row.get(name, value), value)
                if name.startswith("F_WRITE_START")
                else row.get(name, 0) + value
            )

    def log(self) -> DarshanLog:
        return DarshanLog(
            digest=b"",
            format="3.41",
            uid=1000,
            jobid=1,
            nprocs=self.nprocs,
            start=1.6e9,
            end=1.6e9 + self.clock,
            runtime=self.clock + 0.1,
            exe="synthetic",
            modules=frozenset(self.rows),
            partial=frozenset(),
            posix=self._records("POSIX"),
            mpiio=_empty("MPI-IO"),
            stdio=self._records("STDIO"),
            heatmap=None,
            program_files=np.array(sorted(self.program), dtype=np.uint64),
            targets=None,
        )

    def _records(self, module: str) -> Records:
        rows = self.rows[module]
        counters = np.zeros((len(rows), len(counter_index(module))))
        times = np.zeros((len(rows), len(time_index(module))))
        for i, row in enumerate(rows.values()):
            for name, value in row.items():
                if name.startswith("F_"):
                    times[i, time_index(module)[name]] = value
                else:
                    counters[i, counter_index(module)[name]] = float(int(value))
        return Records(
            module,
            np.array([file for file, _ in rows], dtype=np.uint64),
            np.array([rank for _, rank in rows], dtype=np.int64),
            counters,
            times,
        )


def _empty(module: str) -> Records:
    return Records(
        module,
        np.zeros(0, dtype=np.uint64),
        np.zeros(0, dtype=np.int64),
        np.zeros((0, len(counter_index(module)))),
        np.zeros((0, len(time_index(module)))),
    )


@dataclass(frozen=True, slots=True)
class Style:
    """How a program writes, whatever its pattern."""

    interface: str
    """`posix`, `stdio`, `iostream` (streams whose data POSIX counts) or `hdf5`."""
    writers: int
    shared: bool
    calls: int
    """Writes that a chunk is split into."""
    flush: bool
    """After each chunk."""


def _style(run: Run) -> Style:
    random = run.random
    interface = str(random.choice(["posix", "stdio", "iostream", "hdf5"], p=[0.45, 0.3, 0.1, 0.15]))
    shared = run.nprocs > 1 and random.random() < 0.3
    serial = random.random() < 0.3
    calls = 1 if random.random() < 0.5 else int(2 ** random.uniform(1, 7))
    return Style(
        interface=interface,
        writers=run.nprocs if shared else 1 if serial else min(run.nprocs, 16),
        shared=shared,
        calls=calls,
        flush=interface in {"posix", "hdf5"} and random.random() < 0.5,
    )


def _sizes(run: Run, count: float, *, low: float = 10, high: float = 28) -> float:
    """Draw a chunk so that `count` of them stay between 64 KiB and 4 TiB."""
    chunk = 2 ** run.random.uniform(low, high)
    return max(chunk, 128 * KIB / count)


def _owners(style: Style) -> list[int]:
    return [-1] if style.shared else list(range(style.writers))


def _write(
    run: Run,
    style: Style,
    file: int,
    rank: int,
    *,
    chunk: float,
    count: int,
    in_order: float = 1.0,
    rewrites: bool = False,
    opens: int = 1,
) -> None:
    """Write `count` chunks to a file, each in `style.calls` calls; seconds pass."""
    processes = run.nprocs if rank < 0 else 1
    total = chunk * count * processes
    size = chunk * processes if rewrites else total
    calls = count * style.calls * processes
    opened = opens * processes
    stdio = style.interface == "stdio"
    module = "STDIO" if stdio else "POSIX"
    begin, run.clock = run.clock, run.clock + total / 1e9 + calls * 2e-6 + opened * 1e-4
    times = {
        "F_WRITE_START_TIMESTAMP": begin,
        "F_WRITE_END_TIMESTAMP": run.clock,
        "F_WRITE_TIME": total / 1e9 + calls * 1e-6,
        "F_META_TIME": opened * 1e-4,
    }
    run.count(
        module,
        file,
        rank,
        OPENS=opened,
        WRITES=calls,
        BYTES_WRITTEN=total,
        MAX_BYTE_WRITTEN=size - 1,
        **times,
    )
    if stdio:
        return
    ordered = 0.0 if rewrites else max(0.0, (calls - opened) * in_order)
    each = total / calls
    run.count(
        "POSIX",
        file,
        rank,
        FSYNCS=count * processes if style.flush else 0,
        SEQ_WRITES=ordered,
        CONSEC_WRITES=0 if rank < 0 and run.random.random() < 0.5 else ordered,
        ACCESS1_ACCESS=each,
        ACCESS1_COUNT=calls,
        **{_bucket(each): calls},
    )
    if style.interface == "iostream":
        run.count("STDIO", file, rank, OPENS=opened)
        run.count("POSIX", file, rank, FILENOS=opened)
    if style.interface == "hdf5":  # superblock, headers, indexes
        small = opened * int(run.random.integers(3, 12))
        run.count("POSIX", file, rank, WRITES=small, SIZE_WRITE_100_1K=small, STATS=opened)
        run.count("POSIX", file, rank, BYTES_WRITTEN=small * 200)


def _bucket(size: float) -> str:
    edges = (100, KIB, 10 * KIB, 100 * KIB, MIB, 4 * MIB, 10 * MIB, 100 * MIB, 1024 * MIB)
    return f"SIZE_WRITE_{SIZE_NAMES[int(np.searchsorted(edges, size, side='left'))]}"


# Programs, each by what it does


def _owc(run: Run) -> None:
    style = _style(run)
    files = int(2 ** run.random.uniform(1.6, 7))
    chunk = _sizes(run, files * style.writers)
    same_name = run.random.random() < 0.15
    names = [run.file() for _ in _owners(style)]
    for _ in range(files):
        start = run.clock
        for rank, name in zip(_owners(style), names, strict=True):
            run.clock = start  # all processes at the same time
            file = name if same_name else run.file()
            _write(run, style, file, rank, chunk=chunk, count=1, rewrites=same_name)
            if same_name and style.interface in {"posix", "hdf5"}:
                run.count("POSIX", file, rank, RENAME_TARGETS=1)
        chunk *= run.random.uniform(0.95, 1.05)
        run.clock += run.random.exponential(0.5)


def _ws(run: Run) -> None:
    style = _style(run)
    count = int(2 ** run.random.uniform(2, 9))
    chunk = _sizes(run, count * style.writers)
    random_order = run.random.random() < 0.2 and style.interface == "posix"
    reopened = style.interface == "posix" and run.random.random() < 0.2
    for rank in _owners(style):
        _write(
            run,
            style,
            run.file(),
            rank,
            chunk=chunk,
            count=count,
            rewrites=not random_order,
            in_order=run.random.uniform(0.3, 0.6),
            opens=count if reopened else 1,
        )


def _aw(run: Run) -> None:
    style = _style(run)
    count = int(2 ** run.random.uniform(1.6, 12))
    chunk = _sizes(run, count * style.writers)
    streams = 1 if run.random.random() < 0.7 else int(run.random.integers(2, 6))
    opens = 1 if run.random.random() < 0.8 else max(1, count // 4)  # reopened to append
    start = run.clock
    for _ in range(streams):
        for rank in _owners(style):
            run.clock = start
            _write(run, style, run.file(), rank, chunk=chunk, count=count, opens=opens)
        chunk *= run.random.uniform(0.8, 1.3)


def _read(run: Run) -> None:
    style = _style(run)
    count = int(2 ** run.random.uniform(2, 10))
    chunk = _sizes(run, count * style.writers)
    files = int(2 ** run.random.uniform(0, 5))
    for rank in _owners(style):
        processes = run.nprocs if rank < 0 else 1
        for _ in range(files):
            _read_file(run, run.file(), rank, chunk * count * processes, count * processes)


def _read_file(run: Run, file: int, rank: int, volume: float, calls: int) -> None:
    run.clock += volume / 1e9
    run.count(
        "POSIX",
        file,
        rank,
        OPENS=run.nprocs if rank < 0 else 1,
        READS=calls,
        BYTES_READ=volume,
        MAX_BYTE_READ=volume,
        ACCESS1_ACCESS=volume / calls,
        ACCESS1_COUNT=calls,
        F_READ_TIME=volume / 1e9,
    )


def _metadata(run: Run) -> None:
    files = int(2 ** run.random.uniform(6.5, 9))
    size = 0 if run.random.random() < 0.5 else 2 ** run.random.uniform(4, 12)
    opens = int(run.random.integers(1, 4))
    rounds = 1 if run.random.random() < 0.7 else 2  # the same names, unlinked in between
    for rank in range(min(run.nprocs, 4)):
        for _ in range(files // min(run.nprocs, 4) + 1):
            stats = int(run.random.integers(0, 3))
            file = run.file()
            run.clock += 2e-4
            run.count("POSIX", file, rank, OPENS=opens * rounds, STATS=stats, F_META_TIME=1e-4)
            if size:
                style = Style("posix", 1, shared=False, calls=1, flush=False)
                rewrites = rounds > 1
                _write(run, style, file, rank, chunk=size, count=rounds, rewrites=rewrites)


def _none(run: Run) -> None:
    if run.random.random() < 0.7:
        style = Style("stdio", 1, shared=False, calls=1, flush=False)
        volume = 2 ** run.random.uniform(5, 15.5)
        _write(run, style, run.file(), 0, chunk=volume / 10, count=10)


def _side_files(run: Run) -> None:
    """Add what programs do besides: a small log, an input file, an interpreter's modules."""
    if run.random.random() < 0.5:
        style = Style("stdio", 1, shared=False, calls=1, flush=False)
        _write(run, style, run.file(), 0, chunk=100, count=int(run.random.integers(1, 80)))
    if run.random.random() < 0.3:
        _read_file(run, run.file(), 0, run.random.uniform(100, 16 * KIB), 4)
    if run.random.random() < 0.2:
        for _ in range(int(run.random.integers(50, 200))):
            file = run.file()
            run.program.add(file)
            _read_file(run, file, 0, 2 ** run.random.uniform(8, 17), 2)


PROGRAMS: dict[str, Callable[[Run], None]] = {
    "owc": _owc,
    "ws": _ws,
    "aw": _aw,
    "read": _read,
    "metadata": _metadata,
    "none": _none,
}


def _mixed(random: Generator) -> Run:
    """Build two phases of different patterns that move about as many bytes."""
    while True:
        first, second = random.choice(["owc", "ws", "aw", "read"], size=2, replace=False)
        run = Run(random, nprocs=_processes(random))
        PROGRAMS[first](run)
        between = _moved(run)
        PROGRAMS[second](run)
        share = between / _moved(run)
        if 0.25 <= share <= 0.75:
            return run


def _moved(run: Run) -> float:
    return sum(
        row.get("BYTES_WRITTEN", 0) + row.get("BYTES_READ", 0)
        for rows in run.rows.values()
        for row in rows.values()
    )


def _processes(random: Generator) -> int:
    return 1 if random.random() < 0.4 else int(2 ** random.uniform(1, 9))


def synthetic_runs(count: int, seed: int) -> Iterator[tuple[str, DarshanLog]]:
    """Yield (pattern, log), `count` of each pattern."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        for pattern, program in PROGRAMS.items():
            run = Run(random, nprocs=_processes(random))
            program(run)
            _side_files(run)
            yield pattern, run.log()
        mixed = _mixed(random)
        _side_files(mixed)
        yield "mixed", mixed.log()
