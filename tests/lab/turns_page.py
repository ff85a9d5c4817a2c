"""The agent's part of what a job shares with it: page and words of libsluice_turns.so.

`slurm-plugin/wire/page.h` itself is the binding.
"""

import fcntl
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from mmap import MAP_SHARED, PROT_READ, PROT_WRITE, mmap
from pathlib import Path
from typing import Any, Self

from cffi import FFI
from compile_c import BUILD, ROOT, make

HEADER = ROOT / "slurm-plugin" / "wire" / "page.h"
SHIM = BUILD / "lib" / "libsluice_turns.so"
SLOTS = 64
FIRST_DESCRIPTOR = 1000
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def _binding() -> FFI:
    words = ("cc", "-E", "-P", "-DSLUICE_BINDING", HEADER)
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    ffi = FFI()
    ffi.cdef(text)
    return ffi


FFI_OF_PAGE = _binding()
NUMBERS = {
    name: int(value, 0)
    for name, value in re.findall(
        r"#define SLUICE_TURNS_(\w+)\s+(\w+)(?:\s|$)", HEADER.read_text(), re.MULTILINE
    )
    if value[0].isdigit()
}
COUNTERS = tuple(re.findall(r"X \((\w+),", HEADER.read_text()))
ROOT_TOO, PLACED, IN_BLOCKS = 1, 2, 4


def build() -> Path:
    """The library to preload; built if need be."""
    make("slurm-plugin/node/shim")
    return SHIM


def now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class TurnsPage:
    """Page and words of one job; files on the device of `place` count."""

    def __init__(self, *places: Path, slots: int = SLOTS, seals: int = SEALS) -> None:
        slot = FFI_OF_PAGE.sizeof("struct sluice_turns_slot")
        size = FFI_OF_PAGE.sizeof("struct sluice_turns_page") + slots * slot
        self._page_fd, page = self._shared("turns-page", size, seals)
        words_size = FFI_OF_PAGE.sizeof("struct sluice_turns_words")
        self._words_fd, words = self._shared("turns-words", words_size, seals)
        self.page = FFI_OF_PAGE.cast(
            "struct sluice_turns_page *", FFI_OF_PAGE.from_buffer(page, require_writable=True)
        )
        self.words = FFI_OF_PAGE.cast(
            "struct sluice_turns_words *", FFI_OF_PAGE.from_buffer(words, require_writable=True)
        )
        self._kept = (page, words)
        self.page.magic = NUMBERS["PAGE_MAGIC"]
        self.page.version = self.words.version = NUMBERS["VERSION"]
        self.page.slot_count = slots
        self.words.magic = NUMBERS["WORDS_MAGIC"]
        self.words.flags = ROOT_TOO
        self.words.device_count = len(places)
        for i, place in enumerate(places):
            self.words.devices[i] = place.stat().st_dev

    @staticmethod
    def _shared(name: str, size: int, seals: int) -> tuple[int, mmap]:
        made = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        # as slurmstepd does: tcsh, for one, takes 16 to 19 for itself
        fd = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR)
        os.close(made)
        os.posix_fallocate(fd, 0, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        return fd, mmap(fd, size, MAP_SHARED, PROT_READ | PROT_WRITE)

    def close(self) -> None:
        os.close(self._page_fd)
        os.close(self._words_fd)

    # -- words --------------------------------------------------------------

    def hold(self, seconds: float, rate: int = 0) -> None:
        """Say that writes wait, or trickle at `rate` B/s, for so long from now."""
        self.words.rate = rate
        self.words.until = now_ns() + int(seconds * 1e9)

    def go(self) -> None:
        self.words.until = 0
        self.words.rate = 0

    # -- what the job says ----------------------------------------------------

    def slots(self) -> Iterator[Any]:
        yield from (s for i in range(self.page.slot_count) if (s := self.page.slots[i]).pid)

    def sum(self, member: str) -> int:
        """Of a counter, over processes that live and have ended."""
        return getattr(self.page.ended, member) + sum(getattr(s, member) for s in self.slots())

    def sums(self) -> dict[str, int]:
        return {member: self.sum(member) for member in COUNTERS}

    # -- jobs -----------------------------------------------------------------

    @property
    def descriptors(self) -> tuple[int, int]:
        return self._page_fd, self._words_fd

    def environment(self, *before: Path, after: Sequence[Path] = ()) -> dict[str, str]:
        """What a task gets; libraries `before` and `after` are preloaded with the shim."""
        preload = ":".join(str(path) for path in (*before, SHIM, *after))
        return {"LD_PRELOAD": preload, "SLUICE_TURNS": f"{self._page_fd}:{self._words_fd}"}

    def start(self, *command: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        """A task of the job; LD_PRELOAD is set for the command alone."""
        given = {**self.environment(), **options.pop("env", {})}
        return subprocess.Popen(
            [*map(str, command)],
            env={**os.environ, **given},
            pass_fds=self.descriptors,
            **options,
        )


class Holding:
    """Renews a word of `page` all the time, as the agent does; `page` goes at the end."""

    def __init__(self, page: TurnsPage, *, rate: int = 0, lease: float = 0.5) -> None:
        self._page, self._rate, self._lease = page, rate, lease
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew)

    def __enter__(self) -> Self:
        self._page.hold(self._lease, self._rate)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._page.go()

    def _renew(self) -> None:
        while not self._over.wait(self._lease / 5):
            self._page.hold(self._lease, self._rate)
