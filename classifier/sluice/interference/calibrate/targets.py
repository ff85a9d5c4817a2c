"""Targets of measurements, and counters of what reaches them."""

from __future__ import annotations

import fcntl
import math
import os
import subprocess
import tempfile
import threading
import time
from bisect import bisect_left
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression
from typing import TYPE_CHECKING, Self

from sluice.interference.programs import CalibrationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SECTOR = 512  # bytes; the unit of /sys/dev/block/*/stat, whatever the device's own
SAMPLE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Target:
    """A storage target: a directory whose files lie on it and on no other.

    The text is `NAME=DIRECTORY`, or `NAME=DIRECTORY,DIRECTORY` where probe and signal see
    the target through clients of their own, as on nodes of their own.
    """

    name: str
    directories: tuple[Path, ...]
    counter: str = ""
    """A command that prints the bytes written to the target so far, or a directory on the
    block device whose counter says so; empty: the device of the directory, if it has one."""

    @classmethod
    def parse(cls, text: str, counters: dict[str, str]) -> Target:
        name, found, paths = text.partition("=")
        directories = tuple(Path(path).absolute() for path in paths.split(",") if path)
        if not found or not name or not 1 <= len(directories) <= 2:
            raise CalibrationError(f"{text}: not a target like NAME=DIRECTORY")
        for directory in directories:
            if not directory.is_dir():
                raise CalibrationError(f"{directory}: no such directory; make it first")
        return cls(name, directories, counters.get(name, ""))

    def directory(self, role: int) -> Path:
        """Return the directory of the probe (role 0) or of a signal (1, 2)."""
        return self.directories[min(role, len(self.directories) - 1)]

    def settle(self) -> None:
        """Wait until everything that was given to the target is on it.

        Raises CalibrationError when it is gone.
        """
        _run("sync", "--file-system", *self.directories)

    def file_systems(self) -> list[str]:
        """Return type and source of the file system that each directory lies on.

        Raises CalibrationError when one is gone.
        """
        _, *lines = _run("df", "--output=fstype,source", *self.directories).splitlines()
        return [" ".join(line.split()) for line in lines]


def _run(*command: str | Path) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise CalibrationError(f"{done.stderr.strip()}; repair that first")
    return done.stdout


@contextmanager
def claimed(targets: Sequence[Target]) -> Iterator[None]:
    """Lock these targets against other measurements, where their file system has locks.

    A target's second directory may be the first one as another client sees it. Raises
    CalibrationError when somebody does, or when a directory is gone.
    """
    with ExitStack() as stack:
        for directory in (target.directories[0] for target in targets):
            try:
                number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
                stack.callback(os.close, number)
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CalibrationError(
                    f"{directory}: somebody measures there just now; wait until that has ended"
                ) from None
            except FileNotFoundError:
                raise CalibrationError(f"{directory}: no such directory; make it first") from None
            except OSError:
                continue
        yield


def parse_targets(texts: Sequence[str], counters: Sequence[str]) -> tuple[Target, ...]:
    """Read targets, and what counts their bytes as `NAME=WHERE`. Raises CalibrationError."""
    named = dict(text.partition("=")[::2] for text in counters)
    targets = tuple(Target.parse(text, named) for text in texts)
    names = [target.name for target in targets]
    if unknown := sorted(named.keys() - set(names)):
        raise CalibrationError(f"--counter {unknown[0]}: no target has that name")
    if len(set(names)) < len(names):
        raise CalibrationError("two targets have one name; give each its own")
    places = [d for target in targets for d in {d.resolve() for d in target.directories}]
    if len(set(places)) < len(places):
        raise CalibrationError("two targets have one directory; give each its own")
    uncounted(targets)  # refuses a --counter that counts nothing
    return targets


def uncounted(targets: Sequence[Target]) -> list[str]:
    """Return the names of those where nothing counts what reaches them."""
    return [target.name for target in targets if counter_of(target) is None]


def indirect(targets: Sequence[Target]) -> list[str]:
    """Return the names of targets on file systems that cannot read past this machine's cache."""
    return [
        target.name
        for target in targets
        if not all(_reads_directly(directory) for directory in target.directories)
    ]


def _reads_directly(directory: Path) -> bool:
    with tempfile.NamedTemporaryFile(dir=directory, prefix="sluice-") as file:
        try:
            os.close(os.open(file.name, os.O_RDONLY | os.O_DIRECT))
        except OSError:
            return False
    return True


def counter_of(target: Target) -> Callable[[], int] | None:
    """Return what reads the target's own count of bytes written, or None without one.

    It counts all writers, file system and journal included, and only rises. Raises
    CalibrationError for a directory of --counter that lies on no block device; so does what is
    returned, when the count cannot be had.
    """
    place = Path(target.counter) if target.counter else target.directories[0]
    if target.counter and not place.is_dir():
        return lambda: _ask(target.counter)
    number = place.stat().st_dev
    stat = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
    if stat.exists():
        return lambda: _read(stat)
    if target.counter:
        raise CalibrationError(
            f"--counter {target.name}={target.counter}: that directory lies on no block device; "
            "name one that does, or a command that prints the bytes"
        )
    return None


def _read(stat: Path) -> int:
    try:
        return int(stat.read_text().split()[6]) * SECTOR
    except OSError as error:
        raise CalibrationError(f"{stat}: {error.strerror}; repair that first") from None


def _ask(command: str) -> int:
    done = subprocess.run(["/bin/sh", "-c", command], check=False, capture_output=True, text=True)
    try:
        return int(done.stdout)
    except ValueError:
        raise CalibrationError(
            f"{command}: printed no number of bytes: {done.stdout.strip()}{done.stderr.strip()}"
        ) from None


@dataclass(slots=True)
class Watch:
    """Samples a counter while something runs; nothing where there is none.

    When the counter fails meanwhile, the end of the watch raises its CalibrationError.
    """

    counter: Callable[[], int] | None
    times: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _failure: CalibrationError | None = None

    def __enter__(self) -> Self:
        self._sample()
        if self.counter:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()
        if kind:
            return
        if self._failure:
            raise self._failure
        self._sample()

    def rate(self, start: float, end: float) -> float | None:
        """Bytes a second that reached the target between two instants (seconds since the epoch).

        The slope of the line that fits the counts best. Storage takes bytes in bursts, and what
        the first and the last count differ by is up to one burst off.
        """
        if not self.counter:
            return None
        steps = max(2, math.ceil((end - start) / SAMPLE_SECONDS))
        after = [(end - start) * i / steps for i in range(steps + 1)]
        return linear_regression(after, [self._at(start + x) for x in after]).slope

    def _watch(self) -> None:
        try:
            while not self._stop.wait(SAMPLE_SECONDS):
                self._sample()
        except CalibrationError as failure:
            self._failure = failure

    def _sample(self) -> None:
        if self.counter:
            count = self.counter()
            self.times.append(time.time())
            self.counts.append(count)

    def _at(self, instant: float) -> float:
        i = bisect_left(self.times, instant)
        if i == 0:
            return float(self.counts[0])
        if i == len(self.times):
            return float(self.counts[-1])
        before, after = self.times[i - 1], self.times[i]
        share = (instant - before) / (after - before) if after > before else 1.0
        return self.counts[i - 1] + share * (self.counts[i] - self.counts[i - 1])
