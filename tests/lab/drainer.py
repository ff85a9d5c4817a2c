"""A real sluice-drain, and what two trees have to have in common when it has ended."""

import os
import re
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from compile_c import BUILD, make

PATIENCE_S = 120
"""A loaded machine is slow; no test asserts that something was quick."""


@cache
def program(sanitize: str = "") -> Path:
    """The drainer, built as it is installed or with sanitizers."""
    if not sanitize:
        return make("slurm-plugin/node/stage") / "bin" / "sluice-drain"
    build = make("slurm-plugin/node/stage", BUILD / "stage-sanitized", f"SANITIZE={sanitize}")
    return build / "bin" / "sluice-drain"


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    """All that has to be equal: names, kinds, contents, modes, times, attributes, links."""
    found: dict[str, tuple[object, ...]] = {}
    first: dict[int, str] = {}
    for path in sorted(root.rglob("*")):
        name, status = str(path.relative_to(root)), path.lstat()
        mode, kind = stat.S_IMODE(status.st_mode), stat.S_IFMT(status.st_mode)
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()), status.st_mtime_ns)
            continue
        attributes = {at: os.getxattr(path, at) for at in sorted(os.listxattr(path))}
        if path.is_dir():
            found[name] = ("directory", mode, status.st_mtime_ns, attributes)
        elif stat.S_ISREG(kind):
            same = first.setdefault(status.st_ino, name)
            content = path.read_bytes()
            found[name] = ("file", content, mode, status.st_mtime_ns, attributes, same)
    return found


def differences(source: Path, destination: Path) -> list[str]:
    """The names that are not the same on both sides, each with what it is here and there."""
    here, there = tree(source), tree(destination)
    return [
        f"{name}: {str(here.get(name))[:200]} != {str(there.get(name))[:200]}"
        for name in sorted(here.keys() | there.keys())
        if here.get(name) != there.get(name)
    ]


def wait_for(what: Callable[[], bool]) -> None:
    """Wait until this is so; a test that waits in vain fails."""
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


@dataclass
class Drainer:
    """A drainer of a source; started, killed and started again by the test."""

    source: Path
    destination: Path
    journal: Path
    options: tuple[str, ...] = ("--settle", "1")
    sanitize: str = ""
    words: tuple[str, ...] = ()
    process: subprocess.Popen[str] | None = field(default=None)

    def start(self, *options: str) -> None:
        places = ("--from", self.source, "--to", self.destination, "--journal", self.journal)
        self.process = subprocess.Popen(
            [*self.words, program(self.sanitize), *places, *self.options, *options],
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.communicate()

    def wait(self) -> tuple[int, str]:
        """Its exit status and what it said, once it has ended by itself."""
        assert self.process
        _, said = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, said

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        assert self.process
        wait_for(self._hears)
        self.process.send_signal(number)
        return self.wait()

    def _hears(self) -> bool:
        assert self.process
        blocked = re.search(
            r"SigBlk:\s*(\w+)", Path(f"/proc/{self.process.pid}/status").read_text()
        )
        return bool(blocked and int(blocked[1], 16) >> (signal.SIGTERM - 1) & 1)

    def drain(self) -> str:
        """End it; all has to be at the destination."""
        status, said = self.end()
        assert status == 0, said
        assert differences(self.source, self.destination) == []
        return said


@contextmanager
def drainer(place: Path, **settings: object) -> Iterator[Drainer]:
    """A drainer from place/from to place/to, which are made; not started."""
    for name in ("from", "to"):
        (place / name).mkdir(exist_ok=True)
    made = Drainer(place / "from", place / "to", place / "journal", **settings)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        if made.process and made.process.poll() is None:
            made.kill()
