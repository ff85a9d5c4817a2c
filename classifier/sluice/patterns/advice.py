"""What the owner of a job could change about its I/O, from one log.

Most kinds of remark are those of Drishti (Bez et al., PDSW 2022), which draws them from the same
counters; from where on each is made was chosen here (docs/guide/users.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sluice.darshan.features import (
    METADATA_OPERATIONS,
    NUMBERS,
    REWRITTEN,
    counted,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.history_db.records import Profile

Facts = dict[str, float]

MIB = 1 << 20
SMALL_BYTES = MIB  # of a write or a file; file systems want stripes of 1 MiB and more
INDEPENDENT_BYTES = 4 * MIB  # of a write: above it processes hardly disturb each other
FLUSHED_BYTES = 16 * MIB  # less than that between two flushes leaves the cache no work
MANY_FILES = 1000
SHARE = 0.1  # of the bytes, the writes or the I/O time
HEAVY_SHARE = 0.2  # of the run time: then fewer or smaller outputs pay
NOTABLE_SHARE = 0.02  # of the run time: below it no change is worth the work


@dataclass(frozen=True, slots=True)
class Advice:
    """One remark."""

    kind: str
    """One word, for scripts."""
    finding: str
    """What the job does: a clause without its subject."""
    remedy: str
    """What its owner can do: a sentence."""


class Remark(NamedTuple):
    """When some advice is given."""

    kind: str
    applies: Callable[[Facts], bool]
    finding: str
    """With facts by name."""
    remedy: str


def advice(profile: Profile, features: bytes) -> list[Advice]:
    """Return what would help, the most general remark first; none where I/O hardly matters.

    A run whose features were not kept gets none.
    """
    if not features or profile.numbers.get("io_share", 1.0) < NOTABLE_SHARE:
        return []
    facts = _facts(profile.numbers, values_of(features))
    if not facts["significance"]:
        return []
    return [
        Advice(remark.kind, remark.finding.format(**facts), remark.remedy)
        for remark in REMARKS
        if remark.applies(facts)
    ]


def _facts(numbers: Facts, features: Facts) -> Facts:
    """Put together what remarks are made of; an unknown number makes none."""
    known = dict.fromkeys(NUMBERS, 0.0) | {"bytes_per_flush": math.inf} | features | numbers
    return known | {
        "file_bytes": known["write_bytes"] / max(known["files"], 1.0),
        "operations": counted(features["log2_operations"]),
        "times": counted(features["log2_overwrite"]),
    }


def _has_many_files(facts: Facts) -> bool:
    return facts["files"] >= MANY_FILES and facts["file_bytes"] < SMALL_BYTES


def _writes_small(facts: Facts) -> bool:
    return facts["write_bytes"] > 0 and 0 < facts["chunk_bytes"] < SMALL_BYTES


def _writes_to_streams(facts: Facts) -> bool:
    return facts["streamed_share"] > 0.5 or facts["stdio_share"] > 0.5


REMARKS = (
    Remark(
        "heavy",
        lambda facts: facts["io_share"] >= HEAVY_SHARE,
        "spends {io_share:.0%} of its run time in I/O",
        "Write output and checkpoints less often, or only the variables that are read later; "
        "compress them where that is cheap.",
    ),
    Remark(
        "files",
        _has_many_files,
        "writes {files:.0f} files of {file_bytes:,.0f} bytes on average",
        "Put what belongs together into one file (HDF5, NetCDF, ADIOS, a tar archive), or keep "
        "small files on the node's own disk and copy an archive of them at the end.",
    ),
    Remark(
        "metadata",
        lambda facts: (
            facts["operations"] >= METADATA_OPERATIONS
            and facts["metadata_time_ratio"] > SHARE
            and not _has_many_files(facts)
        ),
        "opens and looks at files {operations:.0f} times",
        "Keep files open between writes, and do not look whether a file is there in a loop: "
        "each look asks the file system's metadata server, which all jobs share.",
    ),
    Remark(
        "small",
        lambda facts: _writes_small(facts) and _writes_to_streams(facts),
        "writes {chunk_bytes:,.0f} bytes at a time into a stream, which collects only a few KiB",
        "Give the stream a buffer of 4 MiB: setvbuf in C, pubsetbuf before open in C++, "
        "buffering= in Python's open.",
    ),
    Remark(
        "small",
        lambda facts: _writes_small(facts) and not _writes_to_streams(facts),
        "writes {chunk_bytes:,.0f} bytes at a time",
        "Collect data in memory and write 4 MiB or more at once; in HDF5 and NetCDF choose "
        "larger chunks.",
    ),
    Remark(
        "independent",
        lambda facts: (
            facts["nprocs"] > 1
            and facts["shared_share"] > 0.5 > facts["collective_share"]
            and facts["chunk_bytes"] < INDEPENDENT_BYTES
        ),
        "writes one file from {nprocs:.0f} processes, each for itself",
        "Use collective writes (MPI_File_write_all; H5FD_MPIO_COLLECTIVE, nc_var_par_access): "
        "a few processes then write large pieces in order.",
    ),
    Remark(
        "random",
        lambda facts: facts["random_share"] > SHARE,
        "writes {random_share:.0%} of its bytes in no order",
        "Sort the pieces before they are written, or keep such a file on the node's own disk "
        "and copy it when it is complete.",
    ),
    Remark(
        "flushes",
        lambda facts: (
            facts["flushes_per_write"] > SHARE and facts["bytes_per_flush"] < FLUSHED_BYTES
        ),
        "flushes to disk after every {bytes_per_flush:,.0f} bytes",
        "Flush (fsync, O_SYNC) once at the end of a checkpoint: each flush waits for the "
        "storage. A database can take many rows into one transaction.",
    ),
    Remark(
        "rewritten",
        lambda facts: facts["write_bytes"] > 0 and facts["times"] > 2 * REWRITTEN,
        "writes the same bytes of a file {times:.0f} times",
        "Keep scratch in memory or on the node's own disk ($TMPDIR), and write the result once.",
    ),
)
