"""Writes genuine Darshan 3.41 logs through libdarshan-util.

PyDarshan declares only what reads a log, so the few functions that write one are declared here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import cffi
import numpy as np
from darshan.backend import cffi_backend
from darshan.discover_darshan import find_utils

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ffi = cffi.FFI()
ffi.cdef(
    """
    struct job {
        int64_t uid, start_sec, start_nsec, end_sec, end_nsec, nprocs, jobid;
        char metadata[1024];
    };
    struct mount { char type[3015], path[3015]; };
    struct name_record { uint64_t id; char name[]; };
    /* uthash's handle; only the way to the next element is followed */
    struct name_ref {
        struct name_record *record;
        void *table, *prev, *next, *hh_prev, *hh_next, *key;
        unsigned key_length, hash_value;
    };
    void *darshan_log_create(const char *, int comp, int partial_flag);
    int darshan_log_put_job(void *, struct job *);
    int darshan_log_put_exe(void *, char *);
    int darshan_log_put_mounts(void *, void *, int);
    int darshan_log_put_namehash(void *, void *);
    int darshan_log_put_mod(void *, int, void *, int, int);
    void darshan_log_close(void *);
    """
)
lib = find_utils(ffi, None)

# id and version
MODULES = {
    "POSIX": (1, 4),
    "MPI-IO": (2, 3),
    "H5F": (3, 3),
    "H5D": (4, 2),
    "PNETCDF_FILE": (5, 3),
    "PNETCDF_VAR": (6, 1),
    "LUSTRE": (8, 2),
    "STDIO": (9, 2),
    "DXT_POSIX": (10, 1),
    "HEATMAP": (15, 1),
    "DFS": (16, 1),
    "DAOS": (17, 1),
}
BEHIND = {"DFS": 32, "DAOS": 48}
"""Bytes behind the counters of a record: ids of pool, container and object."""
STANDARD_STREAMS = (14734109647742566553, 15920181672442173319, 7238257241479193519)
"""Ids of <STDIN>, <STDOUT> and <STDERR>."""

BUCKETS = {
    100: "0_100",
    1024: "100_1K",
    10 << 10: "1K_10K",
    100 << 10: "10K_100K",
    1 << 20: "100K_1M",
    4 << 20: "1M_4M",
    10 << 20: "4M_10M",
    100 << 20: "10M_100M",
    1 << 30: "100M_1G",
}
"""Darshan's classes of access sizes, by the largest size that is in them."""
MIB = 1 << 20
VERSIONS = 1072  # byte of the header at which the versions of modules begin, four each
HEATMAP_OF_POSIX = 16592106915301738621
HEATMAP_OF_STDIO = 3989511027826779520
HEATMAP_OF_MPIIO = 3668870418325792824
HEATMAP_OF_DAOS = 4131494093108637317


@cache
def counter_index(module: str) -> dict[str, int]:
    """Map the names of a module's counters, without its prefix, to their places."""
    return _index(cffi_backend.counter_names(module), module)


@cache
def time_index(module: str) -> dict[str, int]:
    """Map the names of a module's floating-point counters likewise."""
    return _index(cffi_backend.fcounter_names(module), module)


def _index(names: list[str], module: str) -> dict[str, int]:
    prefix = module.replace("-", "") + "_"
    return {name.removeprefix(prefix): place for place, name in enumerate(names)}


def bucket_of(size: float) -> str:
    """Return the class of an access of so many bytes, as counters are called after it."""
    return next((name for edge, name in BUCKETS.items() if size <= edge), "1G_PLUS")


@dataclass
class MadeLog:
    """A log under construction; `add` takes counters by their names without the module's."""

    uid: int = 1000
    jobid: int = 7
    nprocs: int = 1
    start: int = 1_700_000_000
    end: int = 1_700_000_100
    exe: str = "/apps/made -x"
    mounts: bool = True
    metadata: str = "lib_ver=3.4.1\n"
    watched: bool = True
    """POSIX was at work, whether it found anything or not."""
    names: dict[int, str] = field(default_factory=dict)
    """Of files, by record id; those without one are nameless, as in an anonymised log."""
    rows: dict[str, list[bytes]] = field(default_factory=dict)

    def add(
        self,
        module: str,
        *,
        file: int,
        rank: int,
        counters: Mapping[str, float],
        part_of: int | None = None,
    ) -> None:
        """Add a record; one of a dataset or a variable is part of a file."""
        whole = np.zeros(len(counter_index(module)), dtype="<i8")
        times = np.zeros(len(time_index(module)), dtype="<f8")
        for name, value in counters.items():
            if name in time_index(module):
                times[time_index(module)[name]] = value
            else:
                whole[counter_index(module)[name]] = value
        base = np.array([file], dtype="<u8").tobytes() + np.array([rank], dtype="<i8").tobytes()
        if part_of is not None:
            base += np.array([part_of], dtype="<u8").tobytes()
        record = base + whole.tobytes() + times.tobytes() + bytes(BEHIND.get(module, 0))
        self.rows.setdefault(module, []).append(record)

    def add_heatmap(
        self,
        seconds: float,
        written: list[int],
        read: list[int],
        seen_by: int = HEATMAP_OF_POSIX,
    ) -> None:
        head = np.array([seen_by], dtype="<u8").tobytes()
        head += np.array([0], dtype="<i8").tobytes() + np.array([seconds], dtype="<f8").tobytes()
        head += np.array([len(written)], dtype="<i8").tobytes() + bytes(16)
        bins = np.array([*written, *read], dtype="<i8").tobytes()
        self.rows.setdefault("HEATMAP", []).append(head + bins)

    def add_layout(self, *, file: int, osts: list[int]) -> None:
        """Say on which of Lustre's targets a file is striped."""
        component = [1 << 20, len(osts), 0, 0, -1, 0, 0, 0, 0]
        words = [file, -1, 1, len(osts), *component, *osts]
        self.rows.setdefault("LUSTRE", []).append(np.array(words, dtype="<i8").tobytes())

    def write(self, path: Path, *, partial: tuple[str, ...] = ()) -> Path:
        flags = sum(1 << MODULES[name][0] for name in partial)
        log = lib.darshan_log_create(os.fsencode(path), 0, flags)
        job = ffi.new("struct job *")
        job.uid, job.jobid, job.nprocs = self.uid, self.jobid, self.nprocs
        job.start_sec, job.end_sec = self.start, self.end
        job.metadata = self.metadata.encode()
        lib.darshan_log_put_job(log, job)
        lib.darshan_log_put_exe(log, ffi.new("char[]", self.exe.encode()))
        mounts = ffi.new("struct mount[1]", [{"type": b"ext4", "path": b"/"}])
        lib.darshan_log_put_mounts(log, mounts, 1 if self.mounts else 0)
        kept = _name_chain(self.names)
        lib.darshan_log_put_namehash(log, kept[0] if kept else ffi.NULL)
        for name in sorted(self.rows, key=lambda name: MODULES[name][0]):
            data = b"".join(self.rows[name])
            number, version = MODULES[name]
            lib.darshan_log_put_mod(log, number, ffi.from_buffer(data), len(data), version)
        lib.darshan_log_close(log)
        if self.watched and "POSIX" not in self.rows:
            _say_watched(path)
        return path


def _say_watched(path: Path) -> None:
    """Give the module the version that a runtime notes once the program calls what it watches."""
    number, version = MODULES["POSIX"]
    with path.open("r+b") as file:
        file.seek(VERSIONS + 4 * number)
        file.write(version.to_bytes(4, "little"))


def appended(log: MadeLog, *, module="POSIX", file=1, rank=0, chunk=MIB, count=50, **more) -> None:
    """Let a file be written in one stream, in so many chunks."""
    total = chunk * count
    counters = {
        "OPENS": 1,
        "WRITES": count,
        "BYTES_WRITTEN": total,
        "MAX_BYTE_WRITTEN": total - 1,
        "F_WRITE_START_TIMESTAMP": 1.0,
        "F_WRITE_END_TIMESTAMP": 90.0,
    }
    if module == "POSIX":
        counters |= {
            "SEQ_WRITES": count - 1,
            "CONSEC_WRITES": count - 1,
            "ACCESS1_ACCESS": chunk,
            "ACCESS1_COUNT": count,
        }
    log.add(module, file=file, rank=rank, counters=counters | more)


def _name_chain(names: Mapping[int, str]) -> list[Any]:
    """Return the elements of a hash in its order; they live as long as the list."""
    chain, records = [], []
    for id_, name in names.items():
        text = name.encode() + b"\0"
        record = ffi.new("struct name_record *", {"id": id_, "name": text})
        records.append(record)
        chain.append(ffi.new("struct name_ref *", {"record": record}))
    for one, following in pairwise(chain):
        one.next = following
    return chain + records
