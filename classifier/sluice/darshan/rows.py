"""One row a file: what POSIX, STDIO and MPI-IO counted for it, side by side.

A row stands for one (file, process), or for one file that several processes share. Its fields
and what they mean: struct sluice_file_row in `classifier/reader/reader.h`, where they are filled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sluice.darshan._reader import ffi

SHARED = -1
"""Owner of a file that several processes share."""

STANDARD_STREAMS = (14734109647742566553, 15920181672442173319, 7238257241479193519)
"""Ids of <STDIN>, <STDOUT> and <STDERR>; no row is of one, but of an output of 96 KiB and more."""

BUCKETS = tuple(
    f"{low}_{high}"
    for low, high in zip(
        ("0", "100", "1K", "10K", "100K", "1M", "4M", "10M", "100M", "1G"),
        ("100", "1K", "10K", "100K", "1M", "4M", "10M", "100M", "1G", "PLUS"),
        strict=True,
    )
)
"""Darshan's classes of access sizes."""

_FORMATS = {"uint64_t": "u8", "int64_t": "i8", "double": "f8", "float": "f4"}


def _dtype(struct: Any) -> np.dtype[Any]:
    """Return a C struct of numbers and arrays of them as numpy sees it."""
    names, formats, offsets = [], [], []
    for name, field in struct.fields:
        is_array = field.type.kind == "array"
        number = _FORMATS[(field.type.item if is_array else field.type).cname]
        names.append(name)
        formats.append(f"{field.type.length}{number}" if is_array else number)
        offsets.append(field.offset)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets})


ROW = _dtype(ffi.typeof("struct sluice_file_row"))
