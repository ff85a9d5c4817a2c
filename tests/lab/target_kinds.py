"""The kinds of storage targets, each with what is needed to make and undo them."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import loop_device
import simulated_target
from ownership import MEMORY, directory_of
from throttles import BlkioThrottle, IoMaxThrottle, QueueThrottle, Throttle

MIB = 1 << 20

# Name of each kind, best first, and what to call it wherever results are shown.
LABELS = {
    "blkio": "throttled loop device (cgroup v1 blkio)",
    "io.max": "throttled loop device (cgroup2 io.max)",
    "queue": "loop device behind a queue (FUSE)",
    "simulated": "simulated target",
}


@dataclass(frozen=True)
class Limits:
    """What a target can take. The defaults let streams take most of a target from
    flushing writers, and flushing writers share it evenly, as published for GPFS."""

    bandwidth: int = 100_000_000  # bytes written (queue: or read) per second; 0: unlimited
    operations: int = 400  # likewise writes; 0: unlimited
    dirty: int = 64 * MIB  # bytes that may wait in the cache
    size: int = 2048 * MIB  # bytes


class Kind(Protocol):
    """What undoes may be called in any state: half made, or nothing left."""

    def missing(self) -> str:
        """Why it cannot be had here, or an empty string."""

    def make(self, lane: str) -> None:
        """Make the directory of a lane, not yet limited."""

    def limit(self, lane: str, limits: Limits) -> None:
        """Limit a lane, or change its limits."""

    def destroy(self, lane: str) -> None:
        """Undo `make` and `limit`."""

    def end(self) -> None:
        """Undo what belongs to all lanes."""

    def command(self, words: Sequence[str]) -> list[str]:
        """The command line under which a program's writes are slow."""

    def bytes_written(self, lane: str) -> int:
        """Bytes that reached the target; only rises."""

    def settle(self, lane: str) -> None:
        """Wait until the target has written what was given to it."""


def kind_named(name: str, place: Path, limits: Limits, *, mount_options: str) -> Kind:
    """The kind of that name, for targets in place/targets."""
    if name == "simulated":
        return SimulatedTargets(place / "targets", limits)
    record = directory_of(place)
    throttle: Throttle = QueueThrottle()
    if name != "queue":
        throttle = BlkioThrottle() if name == "blkio" else IoMaxThrottle(record.name)
    return LoopTargets(place / "targets", throttle, limits, mount_options, record)


class LoopTargets:
    """Targets on loop devices with a throttle."""

    def __init__(
        self, targets: Path, throttle: Throttle, limits: Limits, mount_options: str, images: Path
    ) -> None:
        self._targets = targets
        self._throttle = throttle
        self._limits = limits
        self._mount_options = mount_options
        self._images = images

    def missing(self) -> str:
        if os.geteuid() != 0:
            return "needs root"
        if shutil.disk_usage(MEMORY).free < self._limits.size:
            return f"{MEMORY} has no room for an image"
        return self._throttle.missing()

    def make(self, lane: str) -> None:
        loop_device.create(
            self._image(lane),
            self._targets / lane,
            size=self._limits.size,
            dirty_bytes=self._limits.dirty,
            mount_options=self._mount_options,
            serve=self._throttle.serve,
        )

    def limit(self, lane: str, limits: Limits) -> None:
        self._throttle.limit(
            self._image(lane), bandwidth=limits.bandwidth, operations=limits.operations
        )

    def destroy(self, lane: str) -> None:
        """The throttle goes first: what still waits to be written need not wait long."""
        image = self._image(lane)
        if loop_device.find(image) is not None:
            self._throttle.limit(image, bandwidth=0, operations=0)
        loop_device.destroy(image)
        if (self._targets / lane).exists():
            (self._targets / lane).rmdir()

    def end(self) -> None:
        self._throttle.end()

    def command(self, words: Sequence[str]) -> list[str]:
        return self._throttle.command(words)

    def bytes_written(self, lane: str) -> int:
        return loop_device.bytes_written(self._image(lane))

    def settle(self, lane: str) -> None:
        loop_device.run("sync", "--file-system", str(self._targets / lane))

    def _image(self, lane: str) -> Path:
        return self._images / f"{lane}.img"


class SimulatedTargets:
    """Targets by a model: ordinary directories, and a library for LD_PRELOAD."""

    def __init__(self, targets: Path, limits: Limits) -> None:
        self._targets = targets
        self._limits = limits

    def missing(self) -> str:
        return "" if shutil.which("cc") else "no C compiler"

    def make(self, lane: str) -> None:
        (self._targets / lane).mkdir()
        (self._targets / lane).chmod(0o1777)
        self.limit(lane, self._limits)

    def limit(self, lane: str, limits: Limits) -> None:
        simulated_target.set_limits(
            self._targets / lane,
            bandwidth=limits.bandwidth,
            operations=limits.operations,
            cache=limits.dirty,
        )

    def destroy(self, lane: str) -> None:
        shutil.rmtree(self._targets / lane, ignore_errors=True)
        simulated_target.remove(self._targets / lane)

    def end(self) -> None:
        """Nothing: a lane's model goes with it."""

    def command(self, words: Sequence[str]) -> list[str]:
        return simulated_target.command(self._targets, words)

    def bytes_written(self, lane: str) -> int:
        return simulated_target.bytes_written(self._targets / lane)

    def settle(self, lane: str) -> None:
        simulated_target.settle(self._targets / lane)
