"""Writes a file as a whole or not at all, whatever the moment of Ctrl-C."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sluice.policies.container import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Replace path by content; nothing else is left beside it.

    Ctrl-C is heard when the file is there: who counts afterwards what was written counts all of
    it. Called in the main thread, the only one that hears signals. Raises OSError.
    """
    with _ctrl_c_waits():
        write_atomically(path, content, mode=0o644)


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard:
            signal.raise_signal(signal.SIGINT)
