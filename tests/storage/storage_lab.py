"""What the storage tests share: programs that write, and a look for what is left."""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import loop_device
import pytest
from ownership import directory_of
from storage_targets import StorageTargets
from target_kinds import MIB, Limits, kind_named

# Slow enough that two cores are idle: only the target is contended.
LIMITS = Limits(bandwidth=40_000_000, operations=300, dirty=16 * MIB, size=1024 * MIB)
PATIENCE = 120.0  # seconds


def require(kind: str, place: Path) -> None:
    """Skip the test where this kind of target cannot be had."""
    if reason := kind_named(kind, place, LIMITS, mount_options="").missing():
        pytest.skip(f"{kind}: {reason}")


class Remains:
    """What exists of the lab at a place: outside its directory, or running."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._devices: set[str] = set()

    def note(self, targets: StorageTargets) -> None:
        """Remember the devices, to look for their throttles when they are gone."""
        for lane in targets.lanes:
            image = directory_of(targets.place) / f"{lane}.img"
            if loop_device.find(image):
                self._devices.add(loop_device.number(image))

    def found(self) -> list[str]:
        """Mounts, loop devices, throttles, cache limits, records, targets, daemons."""
        record = directory_of(self._place)
        throttles = Path("/sys/fs/cgroup/blkio").glob("blkio.throttle.write_*_device")
        cache_limits = (Path("/sys/class/bdi") / n / "strict_limit" for n in self._devices)
        backings = Path("/sys/block").glob("loop*/loop/backing_file")
        return [
            *(f"mount {path}" for path in loop_device.mounts(below=self._place)),
            *(f"loop {p.parent}" for p in backings if str(record) in p.read_text()),
            *(
                f"throttle {line}"
                for path in throttles
                for line in path.read_text().splitlines()
                if line.split()[0] in self._devices
            ),
            *(f"cache limit {p}" for p in cache_limits if p.exists() and p.read_text() != "0\n"),
            *(f"record {path}" for path in [record] if path.exists()),
            *(f"directory {path}" for path in self._place.glob("targets")),
            *(f"process {line}" for line in _command_lines() if f"{self._place}/" in line),
        ]

    def left(self) -> list[str]:
        """What is found in the end, where it may take a while to go: only what stays."""
        deadline = time.monotonic() + PATIENCE
        while (found := self.found()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found


def _command_lines() -> Iterator[str]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                yield (entry / "cmdline").read_bytes().decode(errors="replace")


def start(words: Sequence[str | Path]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(word) for word in words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        restore_signals=False,
    )


def report(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The JSON that the writer ends with."""
    output, complaint = process.communicate(timeout=60)
    assert process.returncode == 0, complaint
    answer: dict[str, Any] = json.loads(output)
    return answer
