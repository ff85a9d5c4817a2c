"""Follows directories as logs arrive in them.

By polling: Darshan's directories lie on shared file systems, where inotify does not tell of
what other machines do. A directory whose modification time has not changed has no new names in
it, so a poll costs one stat a directory and a listing of today's. Darshan writes a log under
another name and renames it when it is whole; a symbolic link is not its work, and would vouch for
a file that its owner never put there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.ingest.ingest import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

UNSETTLED = 10.0  # seconds: coarse or foreign clocks may hide a second change within them
EVERYTHING = 3600.0  # seconds after which unchanged directories are listed too


@dataclass(slots=True)
class _Directory:
    changed: float
    """Modification time when it was listed."""
    listed: float
    below: list[Path] = field(default_factory=list)


class Tree:
    """The directories below some tops. Remembers directories, not files."""

    def __init__(self, tops: Sequence[Path]) -> None:
        self._tops = tops
        self._known: dict[Path, _Directory] = {}
        self.unlisted: dict[Path, str] = {}
        """Directories that could not be read at the last poll, with the reason."""

    def files(self, now: float) -> Iterator[Path]:
        """Yield the logs in directories that changed since the last poll, if not more."""
        self.unlisted = {}
        seen: set[Path] = set()
        todo = list(reversed(self._tops))
        while todo:
            path = todo.pop()
            if path in seen:
                continue
            seen.add(path)
            try:
                yield from self._poll(path, now)
            except OSError as error:
                self.unlisted[path] = error.strerror or str(error)
                self._known.pop(path, None)
            else:
                todo += reversed(self._known[path].below)
        self._known = {path: self._known[path] for path in seen if path in self._known}

    def _poll(self, path: Path, now: float) -> Iterator[Path]:
        changed = path.stat().st_mtime
        known = self._known.get(path)
        if known is not None and known.changed == changed and not _worth_listing(known, now):
            return
        directory = _Directory(changed, now)
        names = []
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    directory.below.append(Path(entry.path))
                elif entry.name.endswith(SUFFIX) and not entry.is_symlink():
                    names.append(entry.name)
        directory.below.sort()
        self._known[path] = directory
        yield from (path / name for name in sorted(names))


def _worth_listing(known: _Directory, now: float) -> bool:
    return known.listed - known.changed < UNSETTLED or now - known.listed > EVERYTHING
