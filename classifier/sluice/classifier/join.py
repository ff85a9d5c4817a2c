"""Records of POSIX, STDIO and MPI-IO -> one row a file and process (rows.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.classifier.rows import BUCKETS, ENDS, MOSTS, SECONDS, SHARED, STARTS, SUMS, empty_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sluice.classifier.darshan_log import Records

    Rows = NDArray[Any]


def join_records(records: dict[str, Records], *, nprocs: int) -> Rows:
    """Join the records of the modules (named as in rows.MODULES) by file and process."""
    ids = np.concatenate([part.ids for part in records.values()])
    ranks = np.concatenate([part.ranks for part in records.values()])
    # a lone process owns its shared records too
    owners = np.where(ranks < 0, 0 if nprocs == 1 else SHARED, ranks)
    row, firsts = _numbered(ids, owners)
    rows = empty_rows(len(firsts))
    rows["id"], rows["owner"] = ids[firsts], owners[firsts]
    start = 0
    for bit, (module, part) in enumerate(records.items()):
        place = row[start : start + len(part)]
        start += len(part)
        np.bitwise_or.at(rows["modules"], place, np.uint64(1 << bit))
        _add(rows, place, module, part)
    return rows


def _numbered(
    ids: NDArray[np.uint64], owners: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Give each different (id, owner) a number; return the records' and a record of each."""
    order = np.lexsort((owners, ids))
    is_new = np.ones(len(ids), dtype=bool)
    is_new[1:] = (np.diff(ids[order]) != 0) | (np.diff(owners[order]) != 0)
    row = np.empty(len(ids), dtype=np.intp)
    row[order] = np.cumsum(is_new) - 1
    return row, order[is_new]


def _add(rows: Rows, place: NDArray[np.intp], module: str, part: Records) -> None:
    for name in SUMS[module]:
        np.add.at(rows[f"{module}_{name}"], place, part.count(name.upper()))
    for name in SECONDS:
        np.add.at(rows[f"{module}_{name}"], place, part.time(_time(name)))
    for name in MOSTS.get(module, ()):
        moved = part.count("BYTES_READ" if name.endswith("read") else "BYTES_WRITTEN") > 0
        np.maximum.at(rows[f"{module}_{name}"], place[moved], part.count(name.upper())[moved])
    if module == "mpiio":
        _add_buckets(rows["mpiio_size_write_agg"], place, part, "SIZE_WRITE_AGG")
        return
    for name in STARTS:
        value = part.time(f"F_{name}_TIMESTAMP".upper())
        np.minimum.at(rows[f"{module}_{name}"], place[value > 0], value[value > 0])
    for name in ENDS:
        np.maximum.at(rows[f"{module}_{name}"], place, part.time(f"F_{name}_TIMESTAMP".upper()))
    if module == "posix":
        _add_buckets(rows["posix_size_read"], place, part, "SIZE_READ")
        _add_buckets(rows["posix_size_write"], place, part, "SIZE_WRITE")
        for k in range(1, 5):
            forward = part.count(f"STRIDE{k}_STRIDE") > 0  # 0: contiguous, or backwards
            count = part.count(f"STRIDE{k}_COUNT")
            np.add.at(rows["posix_strides"], place[forward], count[forward])
            rows["posix_access"][place, k - 1] = part.count(f"ACCESS{k}_ACCESS")
            rows["posix_access_count"][place, k - 1] = part.count(f"ACCESS{k}_COUNT")


def _time(name: str) -> str:
    return "F_SLOWEST_RANK_TIME" if name == "slowest_time" else f"F_{name.upper()}"


def _add_buckets(column: Rows, place: NDArray[np.intp], part: Records, name: str) -> None:
    for k, bucket in enumerate(BUCKETS):
        np.add.at(column[:, k], place, part.count(f"{name}_{bucket}"))
