"""How full Lustre's targets are, and which are down, by `lfs df` on sluiced's machine.

A file system may hang, and what asks it hangs with it. So nothing waits for the command: a round
reads what it has written once it has ended, and starts it again after a minute. What it last said
counts for a few minutes. Where it does not end, or cannot run, nothing is known.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from sluice.interference.target_speeds import Lanes

if TYPE_CHECKING:
    from sluice.policies.core import View

REFRESH_SECONDS = 60.0
KEPT_SECONDS = 300.0

_TARGET = re.compile(
    r"^(?:\S+-)?(?P<ost>OST[0-9a-f]{4})(?:_UUID)?\s*"
    r"(?::(?P<trouble>.*)|\s(?P<capacity>\d+)\s+(?P<used>\d+)\s.*)$",
    re.MULTILINE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class TargetState:
    used: float
    """In the unit of capacity."""
    capacity: float
    """0: not known."""
    is_down: bool


def states_of(text: str) -> dict[str, TargetState]:
    """Read the output of `lfs df`; a target that several file systems have is left out."""
    found: dict[str, TargetState] = {}
    twice = set()
    for match in _TARGET.finditer(text):
        ost = match["ost"]
        if ost in found:
            twice.add(ost)
        used, capacity = float(match["used"] or 0), float(match["capacity"] or 0)
        found[ost] = TargetState(used, capacity, is_down=match["trouble"] is not None)
    return {ost: state for ost, state in found.items() if ost not in twice}


class TargetStates:
    """The states of the targets of lanes with blocks."""

    def __init__(self) -> None:
        self._latest: dict[str, TargetState] = {}
        self._read_at = self._started_at = -KEPT_SECONDS
        self._command: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None

    def refresh(self, config: View) -> None:
        """Take up what the command has written, and start it again if that is due."""
        now = time.monotonic()
        self._read(now)
        if now >= self._read_at + KEPT_SECONDS:
            self._latest = {}
        is_due = self._command is None and now >= self._started_at + REFRESH_SECONDS
        if not is_due or not Lanes.of(config).numbers or not shutil.which("lfs"):
            return
        self._started_at = now
        # A pipe would fill where there are many.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - open until it is read
        self._command = subprocess.Popen(
            ["lfs", "df"],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,  # where it says which of them are down
        )

    def _read(self, now: float) -> None:
        if self._command is None or self._output is None or self._command.poll() is None:
            return
        self._command = None
        with self._output:
            self._output.seek(0)
            self._latest = states_of(self._output.read().decode(errors="replace"))
        self._read_at = now

    def by_number(self, config: View) -> dict[tuple[int, int], TargetState]:
        """Return them by lane and number."""
        numbers = Lanes.of(config).numbers if self._latest else {}
        return {numbers[ost]: state for ost, state in self._latest.items() if ost in numbers}

    def close(self) -> None:
        """End the command without a wait: it may hang for ever."""
        if self._command is not None:
            self._command.kill()
