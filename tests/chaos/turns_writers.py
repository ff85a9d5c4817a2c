"""Programs that write under the shim while chaos goes on, with agents and a coordinator of their
own: whatever is done to these, each ends as it would without, and no hold outlasts its word.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

import turns_page
from turns_daemons import RATE, Cluster, Daemon, RefusedError
from turns_page import NUMBERS, now_ns
from up_and_down import UpAndDown

if TYPE_CHECKING:
    from pathlib import Path

    from turns_daemons import AgentPage

NODES = (1, 2, 8)
"""Of the jobs that write at the same time; the first and the last share an agent."""
MIB = 2**20
TIMES, RING = 60, 4  # blocks written, and of the file
WRITER = f"""
import os, sys, time
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR, 0o600)
for number in range({TIMES}):
    os.pwrite(fd, bytes([number]) * {MIB}, number % {RING} * {MIB})
    time.sleep({MIB / RATE})
os.fsync(fd)
print("wrote", {TIMES})
"""
WRITTEN = b"".join(bytes([number]) * MIB for number in range(TIMES - RING, TIMES))
PATIENCE = 0.25  # seconds for an agent to answer, as slurmstepd has
MOST_HELD = 10  # seconds for which a program may be held
STUCK = 60.0  # seconds more than that are more than a busy machine takes
LAPSED_NS = 2_000_000_000
"""For which a hold may go on after its word, the machine being busy."""


class TurnsWriters(UpAndDown):
    """snapshot: where the coordinator finds it, and writes its status and journal next to it."""

    def __init__(self, place: Path, *, snapshot: Path) -> None:
        self.place = place
        self.snapshot = snapshot
        self.violations: list[str] = []
        self.ended = self.holds = 0
        self._ids = count(1)
        self._known = dict.fromkeys(range(len(NODES)), 0)
        self._ends = threading.Event()
        self._threads = [
            threading.Thread(target=self._write_on, args=(number,)) for number in range(len(NODES))
        ]

    def up(self) -> None:
        turns_page.build()
        self.place.mkdir()
        self.cluster = Cluster(self.place)
        self.cluster.snapshot = self.snapshot
        self.configure()
        self.cluster.start_munged()
        self.cluster.start_turns()
        for _ in range(2):
            self.cluster.agent()
        for thread in self._threads:
            thread.start()

    def down(self) -> None:
        self.finish()
        self.cluster.close()

    def finish(self) -> None:
        """Let all programs end; from then on there are no new violations."""
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def configure(self, **settings: str) -> None:
        """Bursts of seconds are held."""
        self.cluster.configure(**{"TurnsLatency": "50"} | settings)

    def start(self, daemon: Daemon) -> None:
        """After it was killed."""
        if daemon is self.cluster.turns:
            self.cluster.restart_turns()
        elif daemon is self.cluster.munged:
            self.cluster.start_munged()
        else:
            daemon.start()

    # -- programs -------------------------------------------------------------------

    def _write_on(self, number: int) -> None:
        while not self._ends.is_set():
            try:
                self._write(number)
            except Exception as error:  # noqa: BLE001 - a thread's end would not be noticed
                self.violations.append(f"a program under the shim: {error!r}")
                return

    def _write(self, number: int) -> None:
        job_id = self._known[number] = next(self._ids)
        with suppress(OSError):  # its disk may be full
            self.cluster.publish(*self._known.values(), burst_seconds=TIMES * MIB / RATE)
        page = self._page(job_id, number)
        path = self.place / f"written{number}"
        command = (sys.executable, "-S", "-c", WRITER, str(path))
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        job = page.start(*command, **pipes) if page else subprocess.Popen(command, **pipes)
        self._watch(job, page, job_id)
        output, errors = job.communicate()
        if (job.returncode, output, errors) != (0, b"wrote %d\n" % TIMES, b""):
            self.violations.append(f"job {job_id}: {job.returncode} {output!r} {errors!r}")
        elif path.read_bytes() != WRITTEN:
            self.violations.append(f"job {job_id}: other bytes than it wrote")
        path.unlink(missing_ok=True)
        self.ended += 1
        if page:
            self.holds += page.sum("holds")
            page.close()

    def _page(self, job_id: int, number: int) -> AgentPage | None:
        agent = self.cluster.agents[number % 2]
        try:
            return agent.register(
                job_id, self.place, nodes=NODES[number], most_held=MOST_HELD, patience=PATIENCE
            )
        except (OSError, RefusedError):
            return None

    def _watch(self, job: subprocess.Popen[bytes], page: AgentPage | None, job_id: int) -> None:
        """Until it ends, or has to be ended."""
        last = began = now_ns()
        while job.poll() is None:
            now, until = now_ns(), page.words.until if page else 0
            if now < until <= now + NUMBERS["LONGEST_NS"]:
                last = until
            if page and now > last + LAPSED_NS and any(slot.waiting for slot in page.slots()):
                self.violations.append(f"job {job_id} waits {(now - last) / 1e9:.1f} s too long")
                last = now
            if now > began + int((MOST_HELD + STUCK) * 1e9):
                self.violations.append(f"job {job_id} does not end")
                job.kill()
                return
            time.sleep(0.02)
