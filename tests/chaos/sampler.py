"""Polls Slurm alongside the driver, and gives what it says to the account."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from account import Account, Poll, Seen, could_start, merge_components
from lab import ALL_TOKENS, ChaosError
from private_slurm import PrivateSlurmError

if TYPE_CHECKING:
    from lab import ChaosLab

FIELDS = ("JobID", "HetJobID", "JobArrayID", "RestartCnt", "StateCompact", "Reason", "EligibleTime",
          "PriorityLong", "Partition", "NumNodes", "Licenses")  # fmt: skip
FORMAT = ",".join(f"{name}:|" for name in FIELDS)
TIERS = {"main": 1, "urgent": 10}
INTERVAL = 0.7  # seconds
KEPT = 90  # polls, told when a bound is broken
EPOCH = {"SLURM_TIME_FORMAT": "%s"}


class Sampler(threading.Thread):
    def __init__(self, lab: ChaosLab, account: Account) -> None:
        super().__init__(daemon=True)
        self.lab = lab
        self.account = account
        self.violations: list[str] = []
        self.recent: deque[Poll] = deque(maxlen=KEPT)
        self.polls = 0
        self._ends = threading.Event()

    def run(self) -> None:
        while not self._ends.wait(INTERVAL):
            poll = self._poll()
            if poll is not None:
                self.polls += 1
                self.recent.append(poll)
                self.violations += self.account.take(poll)

    def end(self) -> None:
        self._ends.set()
        if self.is_alive():
            self.join()

    def state(self) -> str:
        """What the latest poll said."""
        if not self.recent:
            return "no poll yet"
        poll = self.recent[-1]
        wanting = sum(1 for seen in poll.pending if seen.tokens)
        return (
            f"{wanting} want tokens, {len(could_start(poll))} could start, {poll.idle} nodes idle"
        )

    def _poll(self) -> Poll | None:
        """Ask Slurm; None when it does not answer."""
        self.lab.notice_sluiced()
        alive, dead = self.lab.alive_since, self.lab.dead_since
        try:
            at = time.monotonic()
            queue = self._ask("squeue", "-h", "--all", "--states=PENDING", "-O", FORMAT)
            nodes = self._ask("sinfo", "-h", "-N", "-o", "%N %t")
            free = self._ask("scontrol", "show", "lic", "-o")
        except (PrivateSlurmError, subprocess.TimeoutExpired):
            return None
        return Poll(
            at=at,
            now=self.lab.now(),
            idle=len({line for line in nodes.splitlines() if line.endswith(" idle")}),
            free=dict(_free(line) for line in free.splitlines() if line.startswith("License")),
            pending=merge_components(parse_row(row) for row in queue.splitlines() if row),
            alive_since=alive,
            dead_since=dead,
        )

    def _ask(self, *command: str) -> str:
        return self.lab.slurm.run(*command, timeout=3, environment=EPOCH).stdout


def parse_row(row: str) -> Seen:
    words = row.split("|")
    if len(words) != len(FIELDS) + 1:
        raise ChaosError(f"squeue printed {row!r}")
    field = dict(zip(FIELDS, words, strict=False))
    counts = parse_licenses(field["Licenses"])
    return Seen(
        key=(int(field["JobID"]), int(field["RestartCnt"])),
        leader=number(field["HetJobID"]),
        reason=field["Reason"],
        eligible=float(number(field["EligibleTime"])),
        rank=(min(TIERS.get(name, 1) for name in field["Partition"].split(",")),
              number(field["PriorityLong"])),
        nodes=number(field["NumNodes"].partition("-")[0]),
        tasks=tasks(field["JobArrayID"]),
        tokens=tuple(sorted(set(counts) & set(ALL_TOKENS))),
        licenses={name: n for name, n in counts.items() if name not in ALL_TOKENS},
    )  # fmt: skip


def parse_licenses(text: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in text.split(","):
        name, _, count = word.partition(":")
        if name and name != "(null)":
            counts[name] = counts.get(name, 0) + int(count or 1)
    return counts


def tasks(shown: str) -> int:
    """How many start together at most: of `12_[0-2,5%1]` four."""
    _, bracket, ranges = shown.partition("_[")
    if not bracket:
        return 1
    ranges = ranges.rstrip("]").partition("%")[0]
    ends = [part.partition("-")[::2] for part in ranges.split(",") if part[:1].isdecimal()]
    return sum(int(last or first) - int(first) + 1 for first, last in ends) or 1


def number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _free(line: str) -> tuple[str, int]:
    row = dict(word.partition("=")[::2] for word in line.split())
    return row["LicenseName"], int(row["Free"])
