"""Ways to slow a block device down: the kernel's two for all that write to it, and a queue."""

import contextlib
import os
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import loop_device
from compile_c import compiled

# Puts a process into the group named first, then becomes the command behind it.
ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


class Throttle(Protocol):
    name: str

    def missing(self) -> str:
        """Why this machine cannot, or an empty string."""

    def serve(self, image: Path) -> None:
        """Come between an image and its device, where that is how; called before it has one."""

    def limit(self, image: Path, *, bandwidth: int, operations: int) -> None:
        """Limit writes to the image's device: bytes and operations per second, 0 for no limit."""

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

    def serve(self, image: Path) -> None:
        """Nothing: the kernel does it."""

    def limit(self, image: Path, *, bandwidth: int, operations: int) -> None:
        device = loop_device.number(image)
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

    def serve(self, image: Path) -> None:
        """Nothing: the kernel does it."""

    def limit(self, image: Path, *, bandwidth: int, operations: int) -> None:
        device = loop_device.number(image)
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


class QueueThrottle:
    """A server of the image with one queue: reads and writes wait for each other.

    The kernel's throttles give each a budget of its own.
    """

    name = "queue"

    def missing(self) -> str:
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            return "/dev/fuse cannot be opened"
        return "" if shutil.which("cc") else "no C compiler"

    def serve(self, image: Path) -> None:
        self.limit(image, bandwidth=0, operations=0)
        server = compiled(Path(__file__).with_name("served_image.c"))
        subprocess.run([server, image, self._limits(image)], check=True, capture_output=True)

    def limit(self, image: Path, *, bandwidth: int, operations: int) -> None:
        """Limit reads, too."""
        file = os.open(self._limits(image), os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(file, struct.pack("=QQ", bandwidth, operations))  # seen by the server at once
        os.close(file)

    def command(self, words: Sequence[str]) -> list[str]:
        return list(words)

    def end(self) -> None:
        """Nothing: the server ends when its image is unmounted."""

    def _limits(self, image: Path) -> Path:
        return image.with_suffix(".limits")


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
