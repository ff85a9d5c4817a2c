"""Programs that read, that touch many files, or that do next to nothing; and noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from made_logs import STANDARD_STREAMS

from synthetic.style import LOG, PLAIN, draw_style
from synthetic.writers import KIB, Program, draw_chunk
from synthetic.writing import Writes, read_file, write_file

if TYPE_CHECKING:
    from synthetic.run import Run


def scanned(run: Run) -> float:
    """Read a few large files from start to end."""
    style = draw_style(run, libraries=("posix",))
    count = int(2 ** run.random.uniform(2, 10))
    chunk = draw_chunk(run, count * style.writers, low=11)
    files = int(2 ** run.random.uniform(0, 5))
    processes = run.nprocs if style.shared else 1
    for rank in style.owners:
        for number in range(files):
            file = run.file(f"/scratch/in/part{number}.{rank}")
            volume = chunk * count * processes
            read_file(run, file, rank, volume=volume, calls=count * processes)
    return chunk


def gathered(run: Run) -> float:
    """Read many files whole: a training set, a reduction."""
    files = int(2 ** run.random.uniform(4, 9))
    chunk = draw_chunk(run, files, low=15, high=26)
    for number in range(files):
        file = run.file(f"/scratch/in/sample{number}")
        read_file(run, file, number % min(run.nprocs, 16), volume=chunk, calls=1)
    return chunk


def distilled(run: Run) -> float:
    """Read much, write a little of it."""
    chunk = scanned(run)
    volume = run.bytes_moved() / run.random.uniform(8, 100)
    write_file(
        run, PLAIN, run.file("/scratch/out"), 0, Writes(chunk=max(64, volume / 10), count=10)
    )
    return chunk


def trained(run: Run) -> float:
    """Read many files whole, again and again, and keep a state in one file or a few."""
    chunk = gathered(run)
    share = run.random.uniform(8, 100)
    times = int(run.random.integers(2, 12))
    state = run.bytes_moved() / share / times
    one = run.random.random() < 0.5
    style = PLAIN if run.random.random() < 0.5 else LOG
    if one:
        kept = Writes(chunk=max(64, state), count=times, opens=times, rewrites=True)
        write_file(run, style, run.file("/scratch/model"), 0, kept)
    for number in range(0 if one else times):
        write_file(run, style, run.file(f"/scratch/model{number}"), 0, Writes(max(64, state)))
    return chunk


def created(run: Run) -> float:
    """Create, look at, remove: an archive unpacked, a benchmark of metadata."""
    files = int(2 ** run.random.uniform(6.5, 9))
    size = 0 if run.random.random() < 0.5 else 2 ** run.random.uniform(4, 12)
    opens = int(run.random.integers(1, 4))
    rounds = 1 if run.random.random() < 0.7 else 2  # the same names, unlinked in between
    ranks = min(run.nprocs, 4)
    for rank in range(ranks):
        for number in range(files // ranks + 1):
            stats = int(run.random.integers(0, 3))
            file = run.file(f"/scratch/tree/{rank}/file{number}")
            run.clock += 2e-4
            run.count("POSIX", file, rank, OPENS=opens * rounds, STATS=stats, F_META_TIME=1e-4)
            if size:
                again = rounds > 1
                write_file(run, PLAIN, file, rank, Writes(chunk=size, count=rounds, rewrites=again))
    return 0.0


def looked_at(run: Run) -> float:
    """Stat or open many files, and read little of each: a search, a build, a copy."""
    files = int(2 ** run.random.uniform(7, 10))
    size = 0 if run.random.random() < 0.5 else 2 ** run.random.uniform(4, 11)
    for number in range(files):
        file = run.file(f"/scratch/tree/file{number}")
        run.clock += 1e-4
        run.count("POSIX", file, 0, OPENS=1, STATS=int(run.random.integers(1, 4)))
        run.count("POSIX", file, 0, F_META_TIME=1e-4)
        if size:
            read_file(run, file, 0, volume=size, calls=1)
    return 0.0


def nothing(run: Run) -> float:
    """Compute, and leave at most a small log."""
    run.clock += run.random.exponential(20)
    if run.random.random() < 0.7:
        volume = 2 ** run.random.uniform(5, 15.5)
        write_file(
            run, LOG, run.file("/scratch/log"), 0, Writes(chunk=max(1, volume / 10), count=10)
        )
    return 0.0


# Noise: what programs do besides


def add_noise(run: Run) -> None:
    """Add a small log, inputs, an interpreter's modules, output to the terminal."""
    random = run.random
    if random.random() < 0.5:
        count = int(random.integers(1, 80))
        write_file(run, LOG, run.file("/scratch/run/log"), 0, Writes(chunk=100, count=count))
    if random.random() < 0.4:
        for number in range(int(random.integers(1, 4))):
            file = run.file(f"/scratch/run/input{'abc'[number]}")
            read_file(run, file, 0, volume=random.uniform(100, 16 * KIB), calls=4)
    if random.random() < 0.2:
        for number in range(int(random.integers(20, 80))):
            file = run.file(f"/usr/lib/python3.11/module{number}.pyc")
            read_file(run, file, 0, volume=2 ** random.uniform(8, 17), calls=2)
    if random.random() < 0.3:
        run.count("STDIO", STANDARD_STREAMS[1], 0, WRITES=100, BYTES_WRITTEN=1 << 16)


def add_deck(run: Run) -> None:
    """Put a larger input before everything else, as a program reads its start state."""
    volume = min(run.bytes_moved(), 2 ** run.random.uniform(14, 22))
    file = run.file("/scratch/run/start.tpr")
    clock, run.clock = run.clock, 0.02
    read_file(run, file, 0, volume=volume, calls=max(1, int(volume / 65536)))
    run.clock = max(clock, run.clock)


def add_stream(run: Run) -> None:
    """Let a program read about as much as it writes meanwhile: a copy, a compressor, a merge."""
    end = run.clock
    volume = run.bytes_moved() * run.random.uniform(0.4, 2.5)
    sources = int(2 ** run.random.uniform(0, 6))
    for number in range(sources):
        run.clock = 0.1 + (end - 0.1) * number / sources
        file = run.file(f"/scratch/in/source{number}")
        calls = max(1, int(volume / sources / 131072))
        read_file(run, file, 0, volume=max(1, volume / sources), calls=calls)
        row = run.rows["POSIX", file, 0]
        row["F_READ_END_TIMESTAMP"] = 0.1 + (end - 0.1) * (number + 1) / sources
    run.clock = max(end, run.clock)


def add_scratch(run: Run, *, share: float) -> None:
    """Let a program put a part of its work aside first, and read it while it writes its result.

    share: of the bytes already written, at most.
    """
    end = run.clock
    volume = run.bytes_moved() * run.random.uniform(0.2, 1) * share
    calls = max(1, int(volume / 2 ** run.random.uniform(12, 20)))
    file = run.file("/scratch/run/part.tmp")
    run.clock = 0.05
    write_file(run, PLAIN, file, 0, Writes(chunk=volume / calls, count=calls))
    begun, run.clock = run.clock, max(end, run.clock)
    read_file(run, file, 0, volume=volume, calls=calls)
    run.rows["POSIX", file, 0]["F_READ_START_TIMESTAMP"] = begun
    run.rows["POSIX", file, 0]["F_READ_END_TIMESTAMP"] = max(end, begun)
    run.count("POSIX", file, 0, RW_SWITCHES=1)


def add_turns(run: Run, *, ordered: bool) -> None:
    """Let a program read most blocks before it writes them, or others in no order."""
    least, most = (1.8, 2.0) if ordered else (0.8, 1.2)
    part = run.random.uniform(0.5, 1)
    for (module, file, rank), row in list(run.rows.items()):
        if module == "POSIX" and row.get("WRITES", 0) > 1:
            calls = max(1, int(part * row["WRITES"]))
            begin, end, clock = (
                row["F_WRITE_START_TIMESTAMP"],
                row["F_WRITE_END_TIMESTAMP"],
                run.clock,
            )
            read_file(run, file, rank, volume=part * row["BYTES_WRITTEN"], calls=calls)
            row |= {"F_READ_START_TIMESTAMP": begin, "F_READ_END_TIMESTAMP": end}
            run.count("POSIX", file, rank, RW_SWITCHES=int(run.random.uniform(least, most) * calls))
            run.clock = clock


def read_back(run: Run) -> None:
    """Read what was written, after all of it: a check, a restart, a reduction."""
    for (module, file, rank), row in list(run.rows.items()):
        if module != "MPI-IO" and row.get("BYTES_WRITTEN", 0):
            calls = max(1, int(row["WRITES"]))
            read_file(run, file, rank, volume=row["BYTES_WRITTEN"], calls=calls)
            run.count("POSIX", file, rank, RW_SWITCHES=1)


READ: tuple[Program, ...] = (scanned, gathered, distilled, trained)
METADATA: tuple[Program, ...] = (created, looked_at)
NONE: tuple[Program, ...] = (nothing,)
