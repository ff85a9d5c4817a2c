"""Writes a file as a whole or not at all, whatever the moment of Ctrl-C."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from sluice.policies.container import write_atomically

if TYPE_CHECKING:
    from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Replace path by content; nothing else is left beside it.

    A thread writes, because Python interrupts the main thread alone: Ctrl-C is heard when the
    file is there. Raises OSError.
    """
    with ThreadPoolExecutor(1) as writer:
        writer.submit(write_atomically, path, content).result()
