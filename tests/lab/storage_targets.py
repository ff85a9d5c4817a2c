#!/usr/bin/env python3
"""Storage targets of a limited speed on this machine, for demo and tests.

    tests/lab/storage_targets.py up /tmp/lab --lane sl0 --lane sl1 --bandwidth 60
    tests/lab/storage_targets.py status /tmp/lab
    tests/lab/storage_targets.py down /tmp/lab

Each lane is a directory /tmp/lab/targets/LANE that everybody may write to. The
first way that works here is taken; `status` says which, and why no better one:

    blkio      loop devices throttled by cgroup v1 (root)
    io.max     loop devices throttled by cgroup2 (root); programs must be started
               by way of `command` (io.max slows only the processes in its group)
    queue      loop devices behind a queue of ours, which reads and writes share (root)
    simulated  a model (no root); programs likewise; say so wherever it is shown

From Python, `with StorageTargets(directory) as targets: targets.path("sl0")`.
What was made is taken down again, also when the block fails or its process is killed;
where its guard was killed, too, the next `up` on the machine does it. `up` from the
command line stays.

The kernel throttles in bursts of 100 ms: judge nothing from less than 0.5 s.
"""

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Self

import loop_device
from guard import Guard
from loop_device import LoopDeviceError
from ownership import Hold, OwnershipError, abandoned, read_facts
from target_kinds import LABELS, MIB, Kind, Limits, kind_named
from up_and_down import UpAndDown


class StorageTargetsError(Exception):
    """No targets could be made, or they are in use; the text says why."""


class StorageTargets(UpAndDown):
    """Targets at a place, one per lane, of the first of the kinds (keys of LABELS)
    that works. mount_options are those of the file systems on loop devices."""

    def __init__(
        self,
        place: Path | str,
        *,
        lanes: Sequence[str] = ("sl0", "sl1"),
        limits: Limits | None = None,
        kinds: Sequence[str] = tuple(LABELS),
        mount_options: str = "noatime,discard",
    ) -> None:
        self.place = Path(place).resolve()
        self.directory = self.place / "targets"
        self.lanes = tuple(lanes)
        self.limits = limits or Limits()
        self.kind = ""  # key of LABELS, once up
        self.why = ""  # why no better one, or an empty string
        self._kinds = tuple(kinds)
        self._mount_options = mount_options
        self._hold: Hold | None = None
        self._guard = Guard(__file__, "down", self.place)
        self._made: Kind

    @classmethod
    def existing(cls, place: Path | str) -> Self:
        """The targets that are up at a place."""
        targets = cls(place)
        facts = read_facts(targets.place)
        if not facts:
            raise StorageTargetsError(f"no targets are up at {targets.place}")
        targets.limits = Limits(**facts["limits"])
        targets._adopt(facts["kind"], facts["lanes"], why=facts["why"])
        return targets

    # -- life ---------------------------------------------------------------

    def up(self) -> None:
        """Make all targets, or none. Leftovers of dead owners are removed first."""
        for hold in abandoned():
            _take_down(hold)
        try:
            hold = Hold.take(self.place)
        except OwnershipError as error:
            raise StorageTargetsError(str(error)) from None
        if hold.facts():
            _take_down(hold)  # brought up from the command line before
            hold = Hold.take(self.place)
        self._hold = hold
        self._guard.start()
        try:
            self._choose(hold)
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Remove everything that was made at the place; may be repeated."""
        if self._hold is None:
            try:
                self._hold = Hold.take(self.place)
            except OwnershipError as error:
                raise StorageTargetsError(str(error)) from None
        _take_down(self._hold)
        self._hold = None
        self._guard.dismiss()

    def leave(self) -> None:
        """Let the targets stay when this process ends; `down` removes them."""
        if self._hold is not None:
            self._hold.leave()
            self._hold = None
        self._guard.dismiss()

    def also_unmount(self, mount: Path) -> None:
        """Have `down` unmount this first; call it before mounting there.

        For file systems that live on the targets.
        """
        if self._hold is not None:
            known = self._hold.facts().get("mounts", [])
            self._hold.record(mounts=[*known, str(mount)])

    # -- use ----------------------------------------------------------------

    @property
    def label(self) -> str:
        """What to call these targets wherever their results are shown."""
        return LABELS[self.kind]

    def path(self, lane: str) -> Path:
        return self.directory / lane

    def command(self, *words: str | Path) -> list[str]:
        """The command line under which a program's writes are slow."""
        return self._made.command([str(word) for word in words])

    def bytes_written(self, lane: str) -> int:
        """Bytes that reached the target, metadata included; only rises, from anywhere."""
        return self._made.bytes_written(lane)

    def limit(self, lane: str, limits: Limits) -> None:
        """Change the limits of one target, which then differs from the others."""
        self._made.limit(lane, limits)

    def settle(self) -> None:
        """Wait until all targets have written what was given to them."""
        for lane in self.lanes:
            self._made.settle(lane)

    # -- making ---------------------------------------------------------------

    def _choose(self, hold: Hold) -> None:
        """Take the first kind that works; note why those before it did not."""
        if self.directory.exists() and any(self.directory.iterdir()):
            raise StorageTargetsError(f"{self.directory} is not empty, and not ours")
        reasons: list[str] = []
        for kind in self._kinds:
            self._adopt(kind, self.lanes, why="; ".join(reasons))
            hold.record(
                kind=kind, lanes=self.lanes, why=self.why, limits=asdict(self.limits), kept=False
            )
            reason = self._made.missing() or self._try()
            if not reason:
                return
            reasons.append(f"{kind}: {reason}")
        raise StorageTargetsError(f"no storage target can be made: {'; '.join(reasons)}")

    def _adopt(self, kind: str, lanes: Sequence[str], *, why: str) -> None:
        self.kind = kind
        self.why = why
        self.lanes = tuple(lanes)
        self._made = kind_named(kind, self.place, self.limits, mount_options=self._mount_options)

    def _try(self) -> str:
        """Make the targets; returns why they do not work, having removed them again."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            for lane in self.lanes:
                self._made.make(lane)
            self._verify(self.lanes[0])
            for lane in self.lanes:
                self._made.limit(lane, self.limits)
        except (LoopDeviceError, OSError, subprocess.SubprocessError) as error:
            _undo(self._made, self.directory, self.lanes)
            return str(error)
        return ""

    def _verify(self, lane: str) -> None:
        """Raise LoopDeviceError unless a write takes about as long as it should.

        A limit may be accepted and do nothing, where a kernel or container keeps
        write-back out of the group that is limited.
        """
        size = 4 * MIB
        rate = 16 * MIB
        self._made.limit(lane, replace(self.limits, bandwidth=rate, operations=0, dirty=MIB))
        file = self.path(lane) / ".verify"
        words = ["dd", "if=/dev/zero", f"of={file}", "bs=1M", f"count={size // MIB}", "conv=fsync"]
        begin = time.monotonic()
        subprocess.run(self._made.command(words), check=True, capture_output=True)
        if (took := time.monotonic() - begin) < size / rate / 4:
            raise LoopDeviceError(
                f"a limit of {rate / 1e6:.0f} MB/s had no effect ({size / took / 1e6:.0f} MB/s)"
            )
        file.unlink()


def _take_down(hold: Hold) -> None:
    """Undo all that the record of a lab tells of, then the record."""
    facts = hold.facts()
    if facts:
        mounted = loop_device.mounts(below=hold.place)
        for mount in map(Path, reversed(facts.get("mounts", []))):
            if mount in mounted:
                loop_device.unmount(mount)
        kind = kind_named(facts["kind"], hold.place, Limits(**facts["limits"]), mount_options="")
        _undo(kind, hold.place / "targets", facts["lanes"])
    hold.end()


def _undo(kind: Kind, directory: Path, lanes: Sequence[str]) -> None:
    for lane in lanes:
        kind.destroy(lane)
    kind.end()
    if directory.exists():
        directory.rmdir()


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("up", "down", "status"))
    parser.add_argument("directory", type=Path, help="where the targets live")
    start = parser.add_argument_group("for `up`")
    start.add_argument("--lane", action="append", help="repeatable; default sl0 and sl1")
    start.add_argument("--kind", choices=tuple(LABELS), help="default: the first that works")
    start.add_argument("--bandwidth", type=int, default=100, metavar="MB/S", help="default 100")
    start.add_argument("--operations", type=int, default=400, metavar="N/S", help="default 400")
    start.add_argument("--size", type=int, default=2048, metavar="MIB", help="default 2048")
    return parser


def _show(targets: StorageTargets) -> None:
    print(f"{targets.label}, {len(targets.lanes)} lanes")
    if targets.why:
        print(f"nothing better: {targets.why}")
    limits = targets.limits
    print(f"each {limits.bandwidth / 1e6:g} MB/s and {limits.operations} operations/s")
    for lane in targets.lanes:
        print(f"  {lane}  {targets.path(lane)}")
    if prefix := targets.command():
        print(f"start programs behind: {shlex.join(prefix)}")


def main() -> int:
    arguments = _arguments().parse_args()
    try:
        if arguments.action == "up":
            targets = StorageTargets(
                arguments.directory,
                lanes=arguments.lane or ("sl0", "sl1"),
                kinds=[arguments.kind] if arguments.kind else tuple(LABELS),
                limits=Limits(
                    bandwidth=arguments.bandwidth * 1_000_000,
                    operations=arguments.operations,
                    size=arguments.size * MIB,
                ),
            )
            targets.up()
            targets.leave()
            _show(targets)
        elif arguments.action == "status":
            _show(StorageTargets.existing(arguments.directory))
        else:
            StorageTargets(arguments.directory).down()
    except (StorageTargetsError, LoopDeviceError) as error:
        print(f"storage_targets: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
