"""Bursts of real programs on a throttled target, as an agent would find them in the page.

    pytest -s -m acceptance tests/shim/test_shim_bursts.py

prints the tables of docs/evidence/turns.md.
"""

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from compile_c import compiled
from storage_targets import StorageTargets, StorageTargetsError
from target_kinds import MIB, Limits
from turns_page import NUMBERS, TurnsPage, now_ns

pytestmark = [pytest.mark.acceptance, pytest.mark.storage]

WRITER = Path(__file__).parents[1] / "lab" / "writer.c"
LANE, RATE = "sl0", 20_000_000
PERIOD, PAUSE, BURSTS = 0.05, 2.0, 4
SETTLING = 1.5
"""Seconds in which a target that wrote nothing has written all."""


@dataclass(frozen=True)
class Case:
    name: str
    words: tuple[str, ...]


SMALL, LARGE = 2 * MIB, 64 * MIB
"""Bytes that may wait for the target."""
FLUSHED = ("--volume", "4M", "--chunk", "64K")
CASES = [
    (SMALL, Case("stream", ("--pattern", "aw", "--volume", "32M"))),
    (SMALL, Case("flushes each write", ("--pattern", "ws", *FLUSHED))),
    (SMALL, Case("many flushed files", ("--pattern", "owc", *FLUSHED))),
    (LARGE, Case("stream", ("--pattern", "aw", "--volume", "64M"))),
    (LARGE, Case("stream within the cache", ("--pattern", "aw", "--volume", "16M"))),
]


@dataclass
class Found:
    """A burst as the page shows it; times in seconds of CLOCK_MONOTONIC."""

    begin: float
    bytes_before: int
    last: float = 0.0
    bytes: int = 0
    owed: int = 0
    """Not known to be in the storage when it ended."""


class Agent:
    """Reads the page as the node's agent does: at each period, never between."""

    def __init__(self, page: TurnsPage) -> None:
        self._page = page
        self._quiet = NUMBERS["QUIET_NS"] / 1e9
        self.bursts: list[Found] = []
        self._is_active = False

    def read(self) -> None:
        slots = list(self._page.slots())
        last = max([self._page.page.ended.last, *(slot.last for slot in slots)]) / 1e9
        under_way = any(slot.writing or slot.syncing or slot.waiting for slot in slots)
        now = now_ns() / 1e9
        is_active = under_way or now < last + self._quiet
        if is_active and not self._is_active:
            begins = [slot.burst_began / 1e9 for slot in slots]
            previous = self.bursts[-1].last if self.bursts else 0.0
            before = self.bursts[-1].bytes_before + self.bursts[-1].bytes if self.bursts else 0
            begin = min((begin for begin in begins if begin > previous), default=now)
            self.bursts.append(Found(begin, before))
        if self._is_active or is_active:
            burst = self.bursts[-1]
            burst.last = last
            burst.bytes = self._page.sum("bytes") - burst.bytes_before
            burst.owed = self._page.sum("bytes") - self._page.sum("durable")
        self._is_active = is_active


@pytest.fixture(scope="module")
def targets(request: pytest.FixtureRequest) -> Iterator[StorageTargets]:
    with tempfile.TemporaryDirectory(prefix="sluice-bursts-") as name:
        Path(name).chmod(0o755)
        limits = Limits(bandwidth=RATE, operations=400, dirty=request.param)
        try:
            with StorageTargets(name, lanes=(LANE,), limits=limits, kinds=["blkio"]) as targets:
                yield targets
        except StorageTargetsError as error:
            pytest.skip(str(error))


def program(case: Case, place: Path) -> list[str | Path]:
    words = ("--processes", "2", "--bursts", str(BURSTS), "--pause", str(PAUSE))
    return [compiled(WRITER, "-pthread"), *case.words, *words, place]


def watch(targets: StorageTargets, case: Case, page: TurnsPage) -> tuple[dict, Agent, list]:
    """Run it; what it says itself, the agent, and when the target had written how much."""
    agent, device = Agent(page), []
    command = targets.command(*program(case, targets.path(LANE)))
    job = page.start(*command, stdout=subprocess.PIPE)
    end = None
    while end is None or time.monotonic() < end:
        agent.read()
        device.append((time.monotonic(), targets.bytes_written(LANE)))
        if end is None and job.poll() is not None:
            end = time.monotonic() + SETTLING + targets.limits.dirty / RATE
        time.sleep(PERIOD)
    assert job.returncode == 0
    return json.loads(job.communicate()[0]), agent, device


def device_quiet_after(device: list[tuple[float, int]], moment: float, until: float) -> float:
    """Seconds from this moment to the last growth of what the target has written."""
    rows = [row for row in device if moment - PERIOD <= row[0] <= until]
    grown = [later[0] for row, later in pairwise(rows) if later[1] > row[1]]
    return max(0.0, grown[-1] - moment) if grown else 0.0


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


@pytest.mark.parametrize(
    ("targets", "case"),
    CASES,
    indirect=["targets"],
    ids=[f"{case.name}, cache of {cache // MIB} MiB" for cache, case in CASES],
)
def test_an_agent_finds_each_burst_and_its_volume(shim, targets, case):
    assert shim.exists()
    page = TurnsPage(targets.path(LANE))
    said, agent, device = watch(targets, case, page)
    page.close()
    shift = time.time() - time.monotonic()
    begins = [said["started"] + burst["offset_seconds"] - shift for burst in said["bursts"]]
    took = [burst["seconds"] for burst in said["bursts"]]
    assert len(agent.bursts) == len(begins) == BURSTS
    assert [burst.bytes for burst in agent.bursts] == [said["bytes"] // BURSTS] * BURSTS

    found = list(zip(agent.bursts, begins, took, [*begins[1:], device[-1][0]], strict=True))
    owed = [now.owed - before for now, before in pairs_of_owed(agent.bursts)]
    busy = [device_quiet_after(device, burst.last, after) for burst, _, _, after in found]
    guess = [max(0.0, bytes_ / RATE - time_) for bytes_, time_ in zip(owed, took, strict=True)]
    print(
        f"\n| {case.name}, {targets.limits.dirty // MIB} MiB | {median(took):.2f} s "
        f"| {median(burst.begin - begin for burst, begin, _, _ in found) * 1e3:+.0f} ms "
        f"| {median(burst.last - begin - t for burst, begin, t, _ in found) * 1e3:+.0f} ms "
        f"| {median(owed) / MIB:.0f} MiB | {median(busy):.2f} s | {median(guess):.2f} s |"
    )


def pairs_of_owed(bursts: list[Found]) -> list[tuple[Found, int]]:
    return list(zip(bursts, [0, *(burst.owed for burst in bursts)], strict=False))
