"""Programs that sluiced runs as its children: started, bounded, watched, and started again.

sluice-learn, sluice-turns and sluice-pages run for as long as they are wanted, and are watched
from a thread of their own: a controller that does not answer delays no restart. sluice-feed runs
while it is needed (queue.py). None ends another. All end with sluiced: the others ask the kernel
for it (`service.end_with_sluiced`), and sluice-feed ends with its input.
"""

from __future__ import annotations

import math
import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.slurm.service import SUPERVISOR
from sluice.slurm.status import log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FEED, LEARN, TURNS = "sluice-feed", "sluice-learn", "sluice-turns"
PAGES = "sluice-pages"
SERVE_DIRECTORY = Path("/run/sluice-serve")
"""Is there while sluice-serve.service runs, which asks sluice-pages."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may take. A parent may set all of it for a child of its own user."""

    memory_share: float
    """Of the machine's memory, for each process of it: RLIMIT_DATA."""
    longest_pause: float
    """Seconds between two starts of one that ends at once."""
    nice: int = 0
    cpus: int = 0
    """On which it runs; 0: all."""
    files: int = 0
    """That it has open; 0: as many as sluiced."""
    oom_score: int = 0
    """1000: where memory is short, the kernel ends this one first."""
    silent_seconds: float = math.inf
    """Without a sign of life (`service.say_alive`) for so long, it is killed."""


LIMITS = {
    FEED: Limits(0.25, 8.0),
    # Workers that read logs may take half of the memory. No step takes as long as 2 hours.
    LEARN: Limits(0.6, 60.0, nice=10, cpus=2, oom_score=500, silent_seconds=7200),
    # Little work, for which jobs wait; each node has a connection.
    TURNS: Limits(0.1, 8.0, nice=-5, files=32768, silent_seconds=30),
    # A page takes a second; silent is one that all threads are stuck in.
    PAGES: Limits(0.25, 60.0, nice=10, oom_score=500, silent_seconds=120),
}

FIRST_PAUSE = 0.5
"""Seconds before the second start in a row; the first follows at once, and pauses double."""
STEADY_SECONDS = 60.0
"""After so long a program counts as one that works."""
POLL_SECONDS = 0.5
END_SECONDS = 10.0
"""That a program has for its end before it is killed."""
REMEDY = "`make build install` builds and installs it (/usr/share/doc/sluice/guide/install.md)"


@dataclass(frozen=True, slots=True)
class ChildState:
    """How a child fares; times are UTC seconds."""

    since: int | None = None
    """Since when it runs; None: it does not."""
    restarts: int = 0
    last_exit: str | None = None
    """How it ended last, in words."""
    ended: int | None = None


class Child:
    """One program: what runs of it now, how often it was started again, how it ended last."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = ChildState()
        self._limits = LIMITS[name]
        self._pause = self._not_before = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the pause after its last end is over."""
        return time.monotonic() >= self._not_before

    def start(self, command: Sequence[str | Path], **streams: Any) -> subprocess.Popen[bytes]:
        """Start it, with its limits. Raises OSError."""
        process = subprocess.Popen(command, **streams)
        bound(process.pid, self._limits)
        is_again = self.state.ended is not None
        self.state = replace(
            self.state, since=int(time.time()), restarts=self.state.restarts + is_again
        )
        return process

    def works(self) -> None:
        """Begin with short pauses again."""
        self._pause = 0.0

    def has_ended(self, why: str) -> None:
        """Record an end that was not asked for."""
        self.state = replace(self.state, since=None, last_exit=why, ended=int(time.time()))
        self._not_before = time.monotonic() + self._pause
        self._pause = min(max(FIRST_PAUSE, 2 * self._pause), self._limits.longest_pause)


def bound(pid: int, limits: Limits) -> None:
    """Set the limits of a process, as far as this user may."""
    memory = int(limits.memory_share * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError):
        resource.prlimit(pid, resource.RLIMIT_DATA, (memory, memory))
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, limits.nice)
    if limits.cpus:
        with suppress(OSError):
            os.sched_setaffinity(pid, sorted(os.sched_getaffinity(0))[-limits.cpus :])
    if limits.files:
        with suppress(OSError):
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            files = limits.files if most == resource.RLIM_INFINITY else min(limits.files, most)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (files, most))
    if limits.oom_score:
        with suppress(OSError):
            Path(f"/proc/{pid}/oom_score_adj").write_text(str(limits.oom_score))


def find_program(name: str) -> Path:
    """Return the path of a program: of this checkout, else next to sluiced, else in PATH.

    Raises FileNotFoundError.
    """
    built = Path(__file__).resolve().parents[3] / "build" / "bin" / name
    if built.exists():
        return built
    own = Path(sys.argv[0]).parent.absolute()
    places = os.pathsep.join(map(str, (own, own.parent / "sbin", os.environ.get("PATH", ""))))
    found = shutil.which(name, path=places)
    if found is None:
        raise FileNotFoundError(f"no {name} in PATH, nor {built}; {REMEDY}")
    return Path(found)


def command_of(name: str) -> list[str | Path]:
    """Return the command that runs a service. Raises FileNotFoundError."""
    if name == PAGES:
        return [sys.executable, "-m", "sluice.serve.backend"]
    return [find_program(name)]


class Service(Child):
    """A program that is to run all the time, while it is wanted."""

    def __init__(self, name: str, config: Path) -> None:
        super().__init__(name)
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        self._wanted: tuple[object, ...] | None = None
        """What it was started for."""
        kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        self._signs = socket.socket(socket.AF_UNIX, kind)
        self._signs.bind("")  # the kernel chooses an abstract name
        self._began = self._heard = 0.0

    def poll(self, wanted: tuple[object, ...] | None) -> None:
        """See to it that it runs, or does not."""
        if self._process is not None:
            self._watch(self._process, wanted)
        if self._process is None and wanted is not None and self.is_due:
            self._start(wanted)

    def end(self) -> None:
        """Let it end, and kill it where it does not."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        self.state = replace(self.state, since=None)

    def _watch(self, process: subprocess.Popen[bytes], wanted: tuple[object, ...] | None) -> None:
        now = time.monotonic()
        if now >= self._began + STEADY_SECONDS:
            self.works()
        if self._is_heard():
            self._heard = now
        if (code := process.poll()) is not None:
            self._record_end(exit_text(code))
        elif wanted != self._wanted:
            self.end()
        elif now > self._heard + self._limits.silent_seconds:
            process.kill()
            process.wait()
            self._record_end(
                f"killed after {self._limits.silent_seconds:.0f} s without a sign of life"
            )

    def _is_heard(self) -> bool:
        heard = False
        with suppress(BlockingIOError):
            while self._signs.recv(64):
                heard = True
        return heard

    def _record_end(self, why: str) -> None:
        self._process = None
        self.has_ended(why)
        log.warning("children: %s %s; sluiced starts it again", self.name, why)

    def _start(self, wanted: tuple[object, ...]) -> None:
        self._wanted = wanted
        address = self._signs.getsockname().decode().replace("\0", "@", 1)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("WATCHDOG_")}
        environment |= {"NOTIFY_SOCKET": address, SUPERVISOR: str(os.getpid())}
        try:
            self._process = self.start(
                [*command_of(self.name), "--config", self._config],
                env=environment,
                stdin=subprocess.DEVNULL,
            )
        except OSError as error:
            self._record_end(str(error))
            return
        self._began = self._heard = time.monotonic()
        log.info("children: %s runs as process %d", self.name, self._process.pid)


def exit_text(code: int) -> str:
    """Return what a return code of subprocess means."""
    return f"ended by signal {-code}" if code < 0 else f"ended with status {code}"


class Children:
    """The services, from `run` to `close`."""

    def __init__(self, config: Path) -> None:
        self._services = [Service(name, config) for name in (TURNS, LEARN, PAGES)]
        self._wanted: Mapping[str, tuple[object, ...]] = {}
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="children", daemon=True)

    def run(self, wanted: Mapping[str, tuple[object, ...]]) -> None:
        """Run these from now on, by name; one that is wanted for something else starts again."""
        self._wanted = wanted
        if self._thread.ident is None:
            self._thread.start()
        elif not self._thread.is_alive():
            raise RuntimeError("no thread watches the children of sluiced")

    def end(self) -> None:
        """Begin to end all of them."""
        self._is_ending.set()

    def close(self) -> None:
        """End all of them, in bounded time."""
        self.end()
        if self._thread.ident is not None:
            self._thread.join()

    def states(self) -> dict[str, dict[str, Any]]:
        """Return, by name, how those fare that are wanted."""
        return {one.name: asdict(one.state) for one in self._services if one.name in self._wanted}

    def _run(self) -> None:
        # The kernel ends children with the thread that started them: this one, which ends last.
        while not self._is_ending.is_set():
            for one in self._services:
                one.poll(self._wanted.get(one.name))
            self._is_ending.wait(POLL_SECONDS)
        for one in self._services:
            one.end()
