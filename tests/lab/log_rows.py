"""The rows that the reader makes of a log, one a file and process, as numpy sees them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan._reader import ffi
from sluice.darshan.log import opened

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

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


def rows_of(path: Path) -> NDArray[Any]:
    """Return the rows (struct sluice_file_row in reader.h). Raises DarshanLogError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        log = opened(handle)
    finally:
        os.close(handle)
    size = log.row_count * ROW.itemsize
    return np.frombuffer(bytes(ffi.buffer(log.rows, size)) if size else b"", dtype=ROW)
