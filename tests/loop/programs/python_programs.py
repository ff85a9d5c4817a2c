"""Programs of the loop in Python, as users write them: `python_programs.py NAME MIB`.

Each writes into the current directory, or reads what lies on its lane, and computes (sleeps) before
each burst. How many bursts the first three have, how long they compute and when (seconds since the
epoch) the first burst begins may follow as --bursts, --pause and --at. The Python of Debian runs
them, which all users can read; a library is imported by the program that needs it.
"""

import argparse
import mmap
import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path

MIB = 1 << 20


def bursts(count: int, pause: float) -> Iterator[int]:
    """Compute before each of so many bursts, where the command line says nothing else."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bursts", type=int, default=count)
    parser.add_argument("--pause", type=float, default=pause)
    parser.add_argument("--at", type=float)
    asked = parser.parse_args(sys.argv[3:])
    for number in range(asked.bursts):
        is_first = number == 0 and asked.at is not None
        time.sleep(max(0.0, asked.at - time.time()) if is_first else asked.pause)
        yield number


def arrays(mib: int) -> None:
    """A solver that saves its field, flushed by the close of a checkpoint library."""
    import numpy as np  # noqa: PLC0415

    field = np.zeros(mib * MIB // 8)
    for step in bursts(4, 1.5):
        np.save(f"field{step}.npy", field)


def series(mib: int) -> None:
    """A climate model: one step a second into one file, synchronised each time."""
    import netCDF4  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    with netCDF4.Dataset("series.nc", "w") as file:
        file.createDimension("time", None)
        file.createDimension("cell", mib * MIB // 8)
        variable = file.createVariable("t", "f8", ("time", "cell"))
        values = np.random.default_rng(1).random(mib * MIB // 8)
        for step in bursts(8, 0.7):
            variable[step] = values
            file.sync()


def results(mib: int) -> None:
    """A sweep that commits every result to a database."""
    with sqlite3.connect("results.db") as database:
        database.execute("CREATE TABLE result (id INTEGER PRIMARY KEY, data BLOB)")
        for _ in bursts(1, 0):
            for _ in range(mib):
                database.execute("INSERT INTO result (data) VALUES (zeroblob(?))", (MIB,))
                database.commit()
                time.sleep(0.05)


def farm(mib: int) -> None:
    """Many small files: 16 of 64 KiB each MiB, in batches."""
    data = b"x" * (MIB // 16)
    for number in range(16 * mib):
        if number % (4 * mib) == 0:
            time.sleep(1)
        Path(f"part{number:05}.dat").write_bytes(data)


def stream(mib: int) -> None:
    """One log of results, appended to by whole MiB."""
    time.sleep(1.5)
    with Path("stream.dat").open("ab", buffering=0) as file:
        file.writelines(b"y" * MIB for _ in range(mib))


def training(mib: int) -> None:
    """Reads its samples in four epochs, past the cache of the node."""
    buffer = mmap.mmap(-1, MIB)
    for _ in bursts(4, 1.0):
        samples = Path(os.environ["LOOP_LANE"]) / "samples.dat"
        file = os.open(samples, os.O_RDONLY | os.O_DIRECT)
        with open(file, "rb", buffering=0) as reader:  # noqa: PTH123
            for _ in range(mib):
                reader.readinto(buffer)


def crash(mib: int) -> None:
    """Ends with an error after it has written."""
    stream(mib)
    raise SystemExit("out of luck")


def idle(mib: int) -> None:
    """Computes, and writes next to nothing."""
    time.sleep(6)
    Path("answer.txt").write_text(f"{mib}\n")


if __name__ == "__main__":
    {f.__name__: f for f in (arrays, series, results, farm, stream, training, crash, idle)}[
        sys.argv[1]
    ](int(sys.argv[2]))
