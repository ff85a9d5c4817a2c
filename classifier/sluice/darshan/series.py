"""Files that a process writes one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan.files import is_new, ratio, sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sluice.darshan.files import Files

    Array = NDArray[np.float64]

COMPARABLE = 4.0  # times: a file's series are those at least this fraction of its size


@dataclass(frozen=True, slots=True)
class Series:
    """Of each file."""

    length: Array
    """Files of comparable size or larger that its process writes one after the other, itself
    included. Files written at the same time are streams side by side and count as one."""
    named: Array
    """Likewise, files whose names differ in numbers only."""


def find_series(files: Files) -> Series:
    length, named = np.zeros(len(files)), np.zeros(len(files))
    wrote = np.flatnonzero(files.wrote)
    if len(set(files.owner[wrote].tolist())) == len(wrote):  # no process wrote two
        length[wrote] = 1
        named[wrote] = files.stem[wrote] != 0
        return Series(length, named)
    length[wrote] = _by_size(files, wrote)
    wrote = wrote[files.stem[wrote] != 0]
    if len(wrote):
        named[wrote] = _by_name(files, wrote)
    return Series(length, named)


def _by_size(files: Files, wrote: NDArray[np.intp]) -> Array:
    """For each file: those of its process that are not much smaller."""
    size = np.maximum(files.size[wrote], 1)
    order = np.lexsort((-size, files.owner[wrote]))
    size = size[order]
    begins = is_new(files.owner[wrote][order])
    owner, start = begins.cumsum() - 1, np.flatnonzero(begins)
    stop = np.append(start[1:], len(order))
    first, last = files.first_write[wrote][order], files.last_write[wrote][order]
    # running sums and extremes from each process's largest file on: steps apart, so that one
    # pass over all processes starts anew with each
    step = 2 * max(1.0, float(last.max()))
    begin = np.minimum.accumulate(first - owner * step) + owner * step
    end = np.maximum.accumulate(last + owner * step) - owner * step
    busy = np.cumsum(last - first)
    before = np.concatenate([[0.0], busy])[start]
    # the last file of the process that is at least size / COMPARABLE
    key = owner * 128 - np.log2(size)
    until = key.searchsorted(key + np.log2(COMPARABLE), side="right") - 1
    until = np.minimum(until, stop[owner] - 1)
    count = until - start[owner] + 1.0
    abreast = ratio(busy[until] - before[owner], end[until] - begin[until])
    result = np.empty(len(wrote))
    result[order] = count / abreast.clip(1, count)
    return result


def _by_name(files: Files, wrote: NDArray[np.intp]) -> Array:
    """For each file: those of its process with the same stem."""
    group = _groups(files.owner[wrote], files.stem[wrote])
    count = np.bincount(group).astype(np.float64)
    begin, end = np.full(len(count), np.inf), np.zeros(len(count))
    np.minimum.at(begin, group, files.first_write[wrote])
    np.maximum.at(end, group, files.last_write[wrote])
    busy = sums(group, files.last_write[wrote] - files.first_write[wrote])
    abreast = ratio(busy, end - begin)
    result: Array = (count / abreast.clip(1, count))[group]
    return result


def _groups(owner: NDArray[Any], stem: NDArray[Any]) -> NDArray[np.intp]:
    order = np.lexsort((stem, owner))
    groups = np.empty(len(order), dtype=np.intp)
    groups[order] = (is_new(owner[order]) | is_new(stem[order])).cumsum() - 1
    return groups
