"""What the owner of a job could change about its I/O, from one log.

What is worth a remark, and from where on, follows Drishti (Bez et al., PDSW 2022, table I), which
draws its triggers from the same counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.darshan.features import FEATURES, METADATA_OPERATIONS, REWRITTEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.history_db.records import Profile

MIB = 1 << 20
SMALL_BYTES = MIB  # of a write, as Drishti has it; file systems want stripes of 1 MiB and more
SMALL_FILE_BYTES = MIB
SHARE = 0.1  # of the bytes: small, buffered or out of order
HEAVY_SHARE = 0.2  # of the run time: then fewer or smaller outputs pay
NOTABLE_SHARE = 0.02  # of the run time: below it no change is worth the work
MANY_FILES = 1000
FLUSHED_BYTES = 16 * MIB  # less than that between two flushes leaves the cache no work


@dataclass(frozen=True, slots=True)
class Advice:
    """One remark."""

    kind: str
    """One word, for scripts."""
    finding: str
    """What the job does: a clause without its subject."""
    remedy: str
    """What its owner can do: a sentence."""


def advice(profile: Profile, features: bytes) -> list[Advice]:
    """Return what would help, the most general remark first; none where I/O hardly matters.

    A run whose features nobody kept gets none.
    """
    if not features:
        return []
    values = dict(zip(FEATURES, np.frombuffer(features, dtype="<f4").tolist(), strict=True))
    numbers = profile.numbers
    if not values["significance"] or numbers.get("io_share", 1.0) < NOTABLE_SHARE:
        return []
    return [
        *_amount(numbers),
        *_many_files(values, numbers),
        *_small_writes(values, numbers),
        *_shared_file(values, numbers),
        *_order(values),
        *_flushes(values, numbers),
        *_repeated(values, numbers),
    ]


def _amount(numbers: dict[str, float]) -> Iterator[Advice]:
    share = numbers.get("io_share", 0.0)
    if share >= HEAVY_SHARE:
        yield Advice(
            "heavy",
            f"spends {share:.0%} of its run time in I/O",
            "Write output and checkpoints less often, or only the variables that are read later; "
            "compress them where that is cheap.",
        )


def _many_files(values: dict[str, float], numbers: dict[str, float]) -> Iterator[Advice]:
    operations = _undone(values["log2_operations"])
    files = numbers.get("files", 0.0)
    written = numbers.get("write_bytes", 0.0)
    if files >= MANY_FILES and written / files < SMALL_FILE_BYTES:
        yield Advice(
            "files",
            f"writes {files:.0f} files of {written / files:,.0f} bytes on average",
            "Put what belongs together into one file (HDF5, NetCDF, ADIOS, a tar archive), or keep "
            "small files on the node's own disk and copy an archive of them at the end.",
        )
    elif operations >= METADATA_OPERATIONS and values["metadata_time_ratio"] > SHARE:
        yield Advice(
            "metadata",
            f"opens and looks at files {operations:.0f} times",
            "Keep files open between writes, and do not look whether a file is there in a loop: "
            "each look asks the file system's metadata server, which all jobs share.",
        )


def _small_writes(values: dict[str, float], numbers: dict[str, float]) -> Iterator[Advice]:
    chunk = numbers.get("chunk_bytes", 0.0)
    if not numbers.get("write_bytes") or not 0 < chunk < SMALL_BYTES:
        return
    if values["streamed_share"] > 0.5 or values["stdio_share"] > 0.5:
        yield Advice(
            "small",
            f"writes {chunk:,.0f} bytes at a time into a stream, which collects only a few KiB",
            "Give the stream a buffer of 4 MiB: setvbuf in C, pubsetbuf before open in C++, "
            "buffering= in Python's open.",
        )
    else:
        yield Advice(
            "small",
            f"writes {chunk:,.0f} bytes at a time",
            "Collect data in memory and write 4 MiB or more at once; in HDF5 and NetCDF choose "
            "larger chunks.",
        )


def _shared_file(values: dict[str, float], numbers: dict[str, float]) -> Iterator[Advice]:
    collective = numbers.get("collective_share", 0.0)
    if (
        values["shared_share"] > 0.5
        and collective < 0.5
        and numbers.get("nprocs", 1) > 1
        and numbers.get("chunk_bytes", 0.0) < 4 * MIB
    ):
        yield Advice(
            "independent",
            f"writes one file from {numbers['nprocs']:.0f} processes, each for itself",
            "Use collective writes (MPI_File_write_all; H5FD_MPIO_COLLECTIVE, nc_var_par_access): "
            "a few processes then write large pieces in order.",
        )


def _order(values: dict[str, float]) -> Iterator[Advice]:
    if values["random_share"] > SHARE:
        yield Advice(
            "random",
            f"writes {values['random_share']:.0%} of its bytes in no order",
            "Sort the pieces before they are written, or keep such a file on the node's own disk "
            "and copy it when it is complete.",
        )


def _flushes(values: dict[str, float], numbers: dict[str, float]) -> Iterator[Advice]:
    between = numbers.get("bytes_per_flush", FLUSHED_BYTES)
    if values["flushes_per_write"] > SHARE and between < FLUSHED_BYTES:
        yield Advice(
            "flushes",
            f"flushes to disk after every {between:,.0f} bytes",
            "Flush (fsync, O_SYNC) once at the end of a checkpoint: each flush waits for the "
            "storage. A database can take many rows into one transaction.",
        )


def _repeated(values: dict[str, float], numbers: dict[str, float]) -> Iterator[Advice]:
    times = _undone(values["log2_overwrite"])
    if numbers.get("write_bytes") and times > 2 * REWRITTEN:
        yield Advice(
            "rewritten",
            f"writes the same bytes of a file {times:.0f} times",
            "Keep scratch in memory or on the node's own disk ($TMPDIR), and write the result "
            "once.",
        )


def _undone(log2: float) -> float:
    """Undo log2 (1 + n)."""
    return float(2**log2 - 1)
