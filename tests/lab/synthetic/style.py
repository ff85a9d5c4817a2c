"""How a program writes, whatever its pattern: library, layout, calls, flushes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from synthetic.run import Run

LIBRARIES = {
    "posix": 0.3,
    "stdio": 0.2,
    "iostream": 0.1,  # C++ streams: STDIO counts the opens, POSIX the data
    "python": 0.05,  # POSIX, seeks after every open
    "hdf5": 0.1,  # serial: small metadata alongside the data
    "mpiio": 0.1,  # independent
    "collective": 0.1,  # MPI-IO; what arrives at the file system may be aggregated
    "parallel-hdf5": 0.05,  # collective data, metadata by one process
}
"""Their shares among the runs."""

MPI = ("mpiio", "collective", "parallel-hdf5")
SERIAL_SHARE = 0.3  # of the programs with several processes, one writes for all
SHARED_SHARE = 0.3
MOST_WRITERS = 64  # more say nothing new and make logs large


@dataclass(frozen=True, slots=True)
class Style:
    library: str
    writers: int
    shared: bool
    calls: int
    """Writes that a chunk is split into."""
    flush: bool
    """After each chunk."""
    aggregated: int = 1
    """Processes whose chunks arrive at the file system as one write."""

    @property
    def module(self) -> str:
        return "STDIO" if self.library == "stdio" else "POSIX"

    @property
    def owners(self) -> list[int]:
        return [-1] if self.shared else list(range(self.writers))


PLAIN = Style("posix", 1, shared=False, calls=1, flush=False)
LOG = Style("stdio", 1, shared=False, calls=1, flush=False)


def draw_style(run: Run, *, libraries: tuple[str, ...] = tuple(LIBRARIES)) -> Style:
    random = run.random
    weights = [LIBRARIES[name] for name in libraries]
    total = sum(weights)
    library = str(random.choice(libraries, p=[weight / total for weight in weights]))
    shared = run.nprocs > 1 and (library in MPI or random.random() < SHARED_SHARE)
    serial = random.random() < SERIAL_SHARE
    writers = run.nprocs if shared else 1 if serial else min(run.nprocs, MOST_WRITERS)
    aggregated = 1
    if shared and library in {"collective", "parallel-hdf5"} and random.random() < 0.5:
        aggregated = int(2 ** random.integers(0, 1 + run.nprocs.bit_length() - 1))
    return Style(
        library=library,
        writers=writers,
        shared=shared,
        calls=1 if random.random() < 0.5 else int(2 ** random.uniform(1, 7)),
        flush=library not in {"stdio", "iostream"} and random.random() < 0.4,
        aggregated=aggregated,
    )
