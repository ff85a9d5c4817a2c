"""Writes a file beside its place, which it takes when all of it is there."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUFFIXES = ("", "-journal", "-wal", "-shm")
"""The last are SQLite's, which leaves them behind where it had no room."""


@contextmanager
def draft_of(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """Give an empty file to fill; whatever fails leaves at `path` what was there before.

    The mode is narrowed by the umask. Raises OSError, which names `path`.
    """
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.unlink(missing_ok=True)
        draft.touch(mode=mode)
        yield draft
        draft.replace(path)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(error.errno or 0, why, str(path)) from error
    finally:
        for suffix in SUFFIXES:
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)
