"""The kernel's two ways to slow a block device down for everybody who writes to it."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

# Puts a process into the group named first, then becomes the command behind it.
ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


class Throttle(Protocol):
    name: str

    def missing(self) -> str:
        """Why this machine cannot, or an empty string."""

    def limit(self, device: str, *, bandwidth: int, operations: int) -> None:
        """Limit writes to the device (MAJOR:MINOR): bytes and operations per second,
        0 for no limit."""

    def command(self, words: Sequence[str]) -> list[str]:
        """The command line whose writes are throttled."""

    def end(self) -> None:
        """Remove what belongs to no device."""


class BlkioThrottle:
    """cgroup v1, in its root group: it slows write-back and journal too.

    Tasks of a child group escape the root's limits, so a command is moved to the
    root group unless it already is there.
    """

    name = "blkio"

    def __init__(self) -> None:
        self._root = _mount_point("cgroup", "blkio")

    def missing(self) -> str:
        if self._root is None:
            return "no cgroup v1 blkio hierarchy is mounted"
        if not (self._root / "blkio.throttle.write_bps_device").exists():
            return "its blkio hierarchy has no throttle"
        return ""

    def limit(self, device: str, *, bandwidth: int, operations: int) -> None:
        root = self._group()
        (root / "blkio.throttle.write_bps_device").write_text(f"{device} {bandwidth}\n")
        (root / "blkio.throttle.write_iops_device").write_text(f"{device} {operations}\n")

    def command(self, words: Sequence[str]) -> list[str]:
        if any(
            "blkio" in controllers.split(",") and path == "/"
            for _, controllers, path in _own_groups()
        ):
            return list(words)
        return ["/bin/sh", "-c", ENTER, str(self._group()), *words]

    def end(self) -> None:
        """Nothing: limits go with their devices."""

    def _group(self) -> Path:
        if self._root is None:
            raise OSError(self.missing())
        return self._root


class IoMaxThrottle:
    """cgroup2 `io.max`, in a group of our own below the root.

    It slows the processes in the group and, by way of the memory controller, the
    write-back of what they dirtied; the journal's own thread stays outside.
    Only root can enter the group; children of what is in it are in it too.
    """

    name = "io.max"

    def __init__(self, group: str) -> None:
        self._root = _mount_point("cgroup2")
        self._name = group

    def missing(self) -> str:
        if self._root is None:
            return "no cgroup2 hierarchy is mounted"
        controllers = (self._root / "cgroup.controllers").read_text().split()
        absent = [name for name in ("io", "memory") if name not in controllers]
        return f"cgroup2 is without {' and '.join(absent)}" if absent else ""

    def limit(self, device: str, *, bandwidth: int, operations: int) -> None:
        group = self._group()
        if not group.exists():
            # Stays switched on: other groups may have come to use it meanwhile.
            (group.parent / "cgroup.subtree_control").write_text("+io +memory")
            group.mkdir()
        (group / "io.max").write_text(
            f"{device} wbps={bandwidth or 'max'} wiops={operations or 'max'}\n"
        )

    def command(self, words: Sequence[str]) -> list[str]:
        return ["/bin/sh", "-c", ENTER, str(self._group()), *words]

    def end(self) -> None:
        """Remove the group; programs still in it go back to the root group."""
        group = self._group()
        if not group.exists():
            return
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (group.parent / "cgroup.procs").write_text(pid)
        group.rmdir()

    def _group(self) -> Path:
        if self._root is None:
            raise OSError(self.missing())
        return self._root / self._name


def _own_groups() -> list[tuple[str, str, str]]:
    """Hierarchy, controllers and path of this process's groups."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    return [(a, b, c) for a, b, c in (line.split(":", 2) for line in lines)]


def _mount_point(kind: str, controller: str = "") -> Path | None:
    """Where a writable hierarchy of that kind, with that controller, is mounted."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, path, fstype, options, *_ = line.split()
        if fstype == kind and (not controller or controller in options.split(",")):
            return Path(path) if os.access(path, os.W_OK) else None
    return None
