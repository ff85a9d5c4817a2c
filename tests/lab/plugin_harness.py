"""Drives the built job_submit_sluice.so without Slurm daemons: tests/harness/harness.c.

The harness calls the plugin as slurmctld would, on Slurm's own structures, with
a clock that the test sets. The plugin's own threads, files and socket are real.
"""

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from compile_c import BUILD, make

ANSWER_TIMEOUT = 60.0  # seconds; a plugin that takes longer hangs
RING_RECORDS = 4096  # as in ring.h


@dataclass(frozen=True)
class Outcome:
    """What job_submit did with one job."""

    rc: int
    altered: bool  # anything but the texts below, or a message to the user
    allocations: int
    admin_comment: str
    licenses: str | None = None  # None: as they were asked for
    tres_per_task: str | None = None  # likewise
    turns: str | None = None  # as the nodes are told by a variable


@dataclass(frozen=True)
class Change:
    """What job_modify left of the licences in one change; None: as they were."""

    rc: int
    licenses: str | None
    tres_per_task: str | None = None


@dataclass(frozen=True)
class Timing:
    """Thread CPU time of job_submit over many calls, in nanoseconds."""

    calls: int
    median: int
    p99: int
    p999: int
    max: int


def build(*, sanitize: str = "") -> Path:
    """Build harness and plugin, with sanitizers in a folder of their own; returns the folder."""
    directory = BUILD / sanitize.replace(",", "-")
    return make("tests/harness", directory, f"SANITIZE={sanitize}")


def ask(path: Path, request: str, timeout: float = 5.0) -> bytes:
    """One request to the plugin's socket, and the whole answer."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(timeout)
        client.connect(str(path))
        client.sendall(request.encode())
        answer = bytearray()
        while part := client.recv(1 << 20):
            answer += part
        return bytes(answer)


def drain(path: Path, maximum: int = 1 << 16) -> list[bytes]:
    """All records that wait in the plugin, acknowledged once they are here."""
    records: list[bytes] = []
    boot, last = "0", 0
    while True:
        head, _, body = ask(path, f"drain {boot} {last} {maximum}\n").partition(b"\n")
        word, count, size, boot, _dropped = head.decode().split()
        if word != "records" or len(body) != int(count) * int(size):
            raise ValueError(f"bad answer of the plugin: {head!r}, {len(body)} bytes")
        if int(count) == 0:
            return records
        records += [body[i : i + int(size)] for i in range(0, len(body), int(size))]
        last = int.from_bytes(records[-1][16:24], "little")


class PluginFiles:
    """The files through which one plugin is reached, all in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = directory / "sluice.conf"
        self.bundle = directory / "model.bundle"
        self.snapshot = directory / "cluster.snapshot"
        self.socket = directory / "plugin.sock"
        self.off_file = directory / "off"
        self.slurm_config = directory / "slurm.conf"
        """Of the harness; a real cluster has its own."""

    def configure(self, **settings: str | float) -> None:
        """Write a sluice.conf; replaces the old one at once."""
        keys: dict[str, str | float] = {
            "Mode": "observe",
            "Bundle": str(self.bundle),
            "Snapshot": str(self.snapshot),
            "Socket": str(self.socket),
            "History": str(self.directory / "history.db"),
            "OffFile": str(self.off_file),
            "AdminComment": 1,  # most tests look at the notes
        }
        keys |= settings
        install(self.config, "".join(f"{k}={v}\n" for k, v in keys.items()).encode())

    def remove(self) -> None:
        """Take all files away, as before the first installation."""
        for path in (self.config, self.bundle, self.snapshot, self.off_file):
            path.unlink(missing_ok=True)

    def stats(self) -> dict[str, Any]:
        """The plugin's statistics."""
        return json.loads(ask(self.socket, "stats\n"))  # type: ignore[no-any-return]

    def wait_for(
        self, condition: Callable[[dict[str, Any]], bool], timeout: float = 60.0
    ) -> dict[str, Any]:
        """Wait until the statistics meet the condition; returns them."""
        deadline = time.monotonic() + timeout
        seen: dict[str, Any] = {}
        while time.monotonic() < deadline:
            try:
                seen = self.stats()
            except OSError:
                pass  # no socket yet
            else:
                if condition(seen):
                    return seen
            time.sleep(0.01)
        raise TimeoutError(f"the plugin did not get there: {json.dumps(seen, indent=1)}")

    def wait_until_loaded(self, *files: str) -> dict[str, Any]:
        """Wait until what lies on disk is in use ("config", "bundle", "snapshot")."""
        return self.wait_for(lambda seen: all(seen[file]["loaded"] for file in files))


class Harness:
    """A process with the plugin loaded, whose files are in a directory."""

    def __init__(
        self,
        build_directory: Path,
        directory: Path,
        *,
        wrapper: Sequence[str] = (),
        program: str = "harness",
    ) -> None:
        self.files = PluginFiles(directory)
        self._log = directory / "harness.log"
        self._is_killed = False
        self._command = [
            *wrapper,
            str(build_directory / "harness" / program),
            str(build_directory / "plugins" / "job_submit_sluice.so"),
        ]

    def __enter__(self) -> Self:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                errors="surrogateescape",
                env=os.environ
                | {
                    "SLUICE_CONF": str(self.files.config),
                    "SLURM_CONF": str(self.files.slurm_config),
                },
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Unload the plugin; a crash, a leak or a memory error is raised."""
        if self._is_killed:
            return
        try:
            self._process.communicate(timeout=ANSWER_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise
        if error is None and self._process.returncode != 0:
            raise RuntimeError(
                f"the harness ended with {self._process.returncode}\n{self._log.read_text()}"
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """End it as a crash would: nothing is unloaded."""
        self._is_killed = True
        self._process.kill()
        self._process.communicate()

    def exit(self) -> None:
        """End it as slurmctld ends at SIGTERM: without fini. Leaving the block waits for it."""
        assert self._process.stdin
        self._process.stdin.write("exit\n")

    def fork(self) -> int:
        """Fork a child that exits at once; returns its status as wait gives it."""
        return int(self._call("fork"))

    def submit(self, **fields: str | int) -> Outcome:
        """Submit one job; the fields are those of struct sluice_request, and time."""
        rc, altered, allocations, licenses, for_each_task, turns, comment = self._call(
            "job", *_words(fields)
        ).split("\t", 6)
        return Outcome(
            int(rc),
            altered == "1",
            int(allocations),
            comment,
            _changed(licenses),
            _changed(for_each_task),
            turns or None,
        )

    def repeat(self, *, threads: int, count: int) -> Timing:
        """Each thread submits count of the jobs submitted so far, in turn."""
        return Timing(*map(int, self._call("repeat", threads, count).split("\t")))

    def repeat_chilled(self, *, count: int) -> Timing:
        """As repeat, but each call in a new thread whose caches hold other things."""
        return Timing(*map(int, self._call("chilled", count).split("\t")))

    def stack_bytes(self) -> int:
        """Of the stack, the bytes that one submission takes at most, over all jobs so far."""
        return int(self._call("stack"))

    def spin(self, *, steps: int, count: int) -> Timing:
        """Times count loops of arithmetic, to tell the machine's part in a tail."""
        return Timing(*map(int, self._call("spin", steps, count).split("\t")))

    def modify(self, **fields: str | int) -> Change:
        """Change a job as uid would; the fields are those that change."""
        rc, licenses, for_each_task, _ = self._call("modify", *_words(fields)).split("\t")
        return Change(int(rc), _changed(licenses), _changed(for_each_task))

    def set_total(self, token: str, total: int) -> None:
        """From now on the controller has so many of a licence."""
        self._call("total", token, total)

    def make_operator(self, uid: int) -> None:
        """From now on this user is an operator."""
        self._call("operator", uid)

    def _call(self, *words: str | int) -> str:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._process.communicate()
            raise RuntimeError(f"the harness died in {words[0]}\n{self._log.read_text()}")
        return answer.rstrip("\n")


def install(path: Path, content: bytes) -> None:
    """Put a file in place at once, as `sluice model publish` does."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(content)
    fresh.chmod(0o644)
    fresh.replace(path)


def _words(fields: Mapping[str, str | int]) -> Iterator[str]:
    return (f"{key}={_escape(value)}" for key, value in fields.items())


_ESCAPED = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_UNESCAPED = {escape: letter for letter, escape in _ESCAPED.items()}


def _changed(answer: str) -> str | None:
    return None if answer == "=" else re.sub(r"\\.", _unescape, answer)


def _unescape(found: re.Match[str]) -> str:
    return _UNESCAPED.get(found[0], found[0][1])


def _escape(value: str | int) -> str:
    return str(value).translate(str.maketrans(_ESCAPED))


def quantile(buckets: Sequence[Sequence[int]], q: float) -> int:
    """Upper bound in nanoseconds of the q-quantile of one of the plugin's histograms."""
    wanted = q * sum(count for _, count in buckets)
    for upper, count in buckets:
        wanted -= count
        if wanted <= 0:
            return upper
    return 0
