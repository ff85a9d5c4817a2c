"""Programs that write, each by what it does; each returns its true chunk in bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from synthetic.style import Style, draw_style
from synthetic.writing import Writes, write_file

if TYPE_CHECKING:
    from synthetic.run import Run

KIB = 1024
MOST_FILES = 256  # of a run
PLACED = 0.8  # of those who open a file to rewrite it in place: share that seeks first
LEAST = 128 * KIB  # bytes of a run that is to be seen


def draw_chunk(run: Run, count: int, *, low: float = 9, high: float = 28) -> float:
    """Draw a chunk so that `count` of them are seen and stay below 4 TiB."""
    chunk = 2 ** run.random.uniform(low, high)
    return float(min(max(chunk, LEAST / count, 64), 2**42 / count))


def fewer(style: Style, files: int) -> Style:
    """Let fewer processes write, so that the log does not grow beyond what it shows."""
    if style.shared:
        return style
    return replace(style, writers=max(1, min(style.writers, MOST_FILES // files)))


def pause(run: Run) -> None:
    run.clock += run.random.exponential(run.pause)


def _together(run: Run, style: Style, begin: float) -> None:
    """Let the next process begin at about the time at which the others began."""
    run.clock = begin + (run.random.exponential(1e-3) if style.writers > 1 else 0.0)


# Created, written, closed


def series(run: Run) -> float:
    """Make a new file for each step, of each writer: snapshots, checkpoints, dumps."""
    style = draw_style(run)
    files = int(2 ** run.random.uniform(1.6, 7))
    style = fewer(style, files)
    chunk = draw_chunk(run, files * style.writers)
    grows = run.random.uniform(0.9, 1.1) if run.random.random() < 0.3 else 1.0
    for step in range(files):
        begin = run.clock
        for rank in style.owners:
            _together(run, style, begin)
            file = run.file(f"/scratch/run/rank{rank}/snap.{step}")
            write_file(run, style, file, rank, Writes(chunk=chunk))
        chunk = min(max(chunk * grows, 64), 2**34)
        pause(run)
    return chunk / style.calls * style.aggregated


def fields(run: Run) -> float:
    """Several fields of different sizes for each step, as OpenFOAM writes them."""
    style = draw_style(run, libraries=("iostream", "stdio", "posix", "hdf5"))
    steps = int(run.random.integers(3, 30))
    count = int(run.random.integers(2, 8))
    style = fewer(style, steps * count)
    chunk = draw_chunk(run, steps * style.writers, low=10, high=24)
    parts = [2 ** run.random.uniform(-2, 0) for _ in range(count)]
    for step in range(steps):
        begin = run.clock
        for rank in style.owners:
            _together(run, style, begin)
            for number, part in enumerate(parts):
                name = "abcdefgh"[number]
                file = run.file(f"/scratch/case/processor{rank}/{step / 200}/{name}")
                write_file(run, style, file, rank, Writes(chunk=max(64, chunk * part)))
        pause(run)
    return chunk / style.calls


def toggled(run: Run) -> float:
    """One or two names, truncated and written again: restart files."""
    style = draw_style(run, libraries=("stdio", "iostream", "posix", "python"))
    names = int(run.random.integers(1, 3))
    times = int(2 ** run.random.uniform(1.6, 5))
    least = 4 * 16 * KIB if style.library == "iostream" else 9
    chunk = max(draw_chunk(run, names * times * style.writers), least)
    seeks = float(run.random.uniform(0, 0.7))  # record marks, as Fortran places them
    for name in range(names):
        begin = run.clock
        for rank in style.owners:
            _together(run, style, begin)
            file = run.file(f"/scratch/run/restart.{rank}.{name}")
            going_on = style.library == "iostream"
            write_file(
                run,
                style,
                file,
                rank,
                Writes(
                    chunk=chunk,
                    count=times,
                    opens=times,
                    rewrites=True,
                    seeks=seeks,
                    offsets_go_on=going_on,
                ),
            )
        pause(run)
    return chunk / style.calls


def renamed(run: Run) -> float:
    """Written under one name, renamed to another, again and again."""
    style = draw_style(run, libraries=("posix", "python", "stdio", "hdf5"))
    times = int(2 ** run.random.uniform(1.6, 6))
    chunk = draw_chunk(run, times * style.writers)
    for rank in style.owners:
        file = run.file(f"/scratch/run/state.{rank}.tmp")
        write_file(
            run, style, file, rank, Writes(chunk=chunk, count=times, rewrites=True, opens=times)
        )
        run.count("POSIX", file, rank, RENAME_SOURCES=times)
    return chunk / style.calls


# Rewritten in place


def in_place(run: Run) -> float:
    """Seek to the start and write again, the file open all the time."""
    style = draw_style(run)
    count = int(2 ** run.random.uniform(1.6, 9))
    chunk = draw_chunk(run, count * style.writers)
    seeks = float(run.random.random() < 0.7)
    for rank in style.owners:
        file = run.file(f"/scratch/run/field.{rank}")
        write_file(
            run, style, file, rank, Writes(chunk=chunk, count=count, rewrites=True, seeks=seeks)
        )
    return chunk / style.calls * style.aggregated


def reopened(run: Run) -> float:
    """Open the file, write over its start, close it: it is never truncated."""
    style = draw_style(run, libraries=("posix", "mpiio"))
    placed = run.random.random() < PLACED
    style = replace(style, calls=1 if placed else style.calls)
    count = int(2 ** run.random.uniform(1.6, 6))
    chunk = draw_chunk(run, count * style.writers)
    for rank in style.owners:
        file = run.file(f"/scratch/run/block.{rank}")
        write_file(
            run,
            style,
            file,
            rank,
            Writes(chunk=chunk, count=count, rewrites=True, opens=count, seeks=float(placed)),
        )
        pause(run)
    return chunk / style.calls


def scattered(run: Run) -> float:
    """Write blocks of a file in no order: a database, a random benchmark."""
    style = draw_style(run, libraries=("posix", "mpiio", "python"))
    style = replace(style, calls=1)
    count = int(2 ** run.random.uniform(3.5, 10))
    chunk = draw_chunk(run, count * style.writers, low=10.5)
    order = run.random.uniform(0.4, 0.6)
    for rank in style.owners:
        file = run.file(f"/scratch/run/pages.{rank}")
        write_file(
            run, style, file, rank, Writes(chunk=chunk, count=count, in_order=order, seeks=1.0)
        )
    return chunk


# Appended


def appended(run: Run) -> float:
    """One or a few streams that stay open: trajectories, output, archives."""
    style = draw_style(run)
    count = int(2 ** run.random.uniform(1.6, 14))
    chunk = draw_chunk(run, count * style.writers, low=3)
    streams = 1 if run.random.random() < 0.7 else int(run.random.integers(2, 6))
    begin = run.clock
    for stream in range(streams):
        for rank in style.owners:
            _together(run, style, begin)
            file = run.file(f"/scratch/run/out{'abcdef'[stream]}.{rank}")
            write_file(run, style, file, rank, Writes(chunk=chunk, count=count))
    return chunk / style.calls * style.aggregated


def logged(run: Run) -> float:
    """Open, append a little, close, again and again."""
    style = draw_style(run, libraries=("posix", "stdio", "python", "iostream"))
    count = int(2 ** run.random.uniform(4, 9))
    chunk = draw_chunk(run, count * style.writers, low=11, high=15)
    for rank in style.owners:
        file = run.file(f"/scratch/run/history.{rank}.log")
        write_file(run, style, file, rank, Writes(chunk=chunk, count=count, opens=count))
    return chunk / style.calls


def interleaved(run: Run) -> float:
    """Write a slice of each of several variables at a time into one file: NetCDF, HDF5."""
    style = draw_style(run, libraries=("collective", "parallel-hdf5", "hdf5", "mpiio", "posix"))
    style = replace(style, calls=1)
    variables, steps = int(run.random.integers(2, 9)), int(run.random.integers(8, 200))
    chunk = draw_chunk(run, variables * steps * style.writers, low=10.5)
    onward = 1 - 1 / variables
    for rank in style.owners:
        file = run.file(f"/scratch/run/fields.{rank}.nc")
        write_file(
            run,
            style,
            file,
            rank,
            Writes(chunk=chunk, count=variables * steps, in_order=onward, jumps=onward, seeks=1.0),
        )
    return chunk * style.aggregated


def whole(run: Run) -> float:
    """One file of each process, written once: a final result."""
    style = draw_style(run)
    chunk = draw_chunk(run, style.writers, low=14)
    begin = run.clock
    for rank in style.owners:
        _together(run, style, begin)
        file = run.file(f"/scratch/run/result.{rank}")
        write_file(run, style, file, rank, Writes(chunk=chunk))
    return chunk / style.calls * style.aggregated


class Program(Protocol):
    """Does its work in a run; returns its true chunk in bytes, 0 where it has none."""

    __name__: str

    def __call__(self, run: Run, /) -> float: ...


OWC: tuple[Program, ...] = (series, fields, toggled, renamed)
WS: tuple[Program, ...] = (in_place, reopened, scattered)
AW: tuple[Program, ...] = (appended, logged, interleaved, whole)
