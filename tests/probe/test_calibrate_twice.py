"""A second calibration agrees with the first, on two kinds of storage that order differently."""

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from statistics import mean, median

import pytest
from default_calibration import LIMITS, calibration, default_calibration
from measured_programs import writer
from moosefs import LIMITS as MOOSEFS_LIMITS
from moosefs import MooseFS
from recorded import coruns
from storage_targets import StorageTargets

from sluice.history_db.records import CoRun
from sluice.history_db.store import Store
from sluice.interference.calibrate.analysis import agreement, losses, stability
from sluice.interference.calibrate.grid import PlannedCoRun, default_grid
from sluice.interference.calibrate.protocol import Timing
from sluice.interference.calibrate.targets import Target
from sluice.interference.programs import MIB

MOOSEFS_BUDGET = 240.0  # seconds
MOOSEFS_SIZE = int(1.2 * MOOSEFS_BUDGET * MOOSEFS_LIMITS.bandwidth)  # a probe leaves 10 % free
WATCHED = [(victim, other) for victim in ("owc", "ws") for other in ("owc", "ws", "aw")]
ROUNDS = 3

pytestmark = [pytest.mark.acceptance, pytest.mark.storage]


def compare(first: list[CoRun], second: list[CoRun], capsys) -> None:
    found, bound = agreement(first, second), stability(first).bound
    with capsys.disabled():
        print(
            f"\n{found.cells} cells, rank correlation {found.rank_correlation:.3f}, "
            f"mean difference {100 * found.mean_difference:.1f} points, bound {100 * bound:.1f}"
        )
    assert found.rank_correlation >= 0.9
    assert found.mean_difference <= bound


def test_two_default_calibrations_of_throttled_targets_agree(program, tmp_path, capsys):
    with (
        tempfile.TemporaryDirectory(prefix="sluice-storage-") as name,
        StorageTargets(name, limits=LIMITS, kinds=["blkio", "io.max"]) as lab,
        Store(tmp_path / "history.db", create=True) as store,
    ):
        targets = [Target(lane, (lab.path(lane),)) for lane in lab.lanes]
        results = []
        for seed in (1, 2):
            begin = time.monotonic()
            results.append(default_calibration(store, program, targets, seed=seed))
            with capsys.disabled():
                print(f"\n{len(results[-1])} co-runs in {time.monotonic() - begin:.0f} s")
    compare(*results, capsys)


@pytest.mark.skipif(bool(MooseFS.missing()), reason=MooseFS.missing() or "available")
def test_two_calibrations_of_moosefs_agree_on_an_order_of_its_own(program, tmp_path, capsys):
    """A file system each: deleted data stays for minutes, so there is room for all of it."""
    plan = [e for e in default_grid((MIB,), several_targets=False) if is_plain(e)] * 4
    results = []
    with Store(tmp_path / "history.db", create=True) as store:
        for seed in (1, 2):
            with fresh_moosefs() as moosefs:
                target = Target("a", (moosefs.path("a"), moosefs.path("a", client=1)))
                results.append(
                    calibration(
                        store,
                        program,
                        [target],
                        plan,
                        timing=Timing(fill=1.0, window=2.0),
                        budget=MOOSEFS_BUDGET,
                        seed=seed,
                    )
                )
    compare(*results, capsys)
    with fresh_moosefs() as moosefs:
        seen = {pair: lost_by_the_writer(moosefs, *pair) for pair in WATCHED}
    found = {
        (cell.victim.pattern, cell.others[0].pattern): loss.loss
        for cell, loss in losses(results[0]).items()
    }
    with capsys.disabled():
        for pair in WATCHED:
            print(
                f"{' alongside '.join(pair)} loses {found[pair]:.1%}, "
                f"to the writer {seen[pair]:.1%}"
            )
    bound = stability(results[0]).bound
    assert mean(abs(found[pair] - seen[pair]) for pair in WATCHED) <= bound
    for one, other in permutations(WATCHED, 2):
        assert found[one] > found[other] or seen[one] < seen[other] + bound
    for name in ("third", "fourth", "fifth", "sixth"):
        throttled = agreement(results[0], coruns(f"calibration-{name}"))
        assert throttled.cells == 9
        assert throttled.rank_correlation < 0.9
        assert throttled.mean_difference > bound


@contextmanager
def fresh_moosefs() -> Iterator[MooseFS]:
    with tempfile.TemporaryDirectory(prefix="sluice-storage-") as name:
        Path(name).chmod(0o755)
        limits = replace(MOOSEFS_LIMITS, size=MOOSEFS_SIZE)
        with MooseFS(name, lanes=["a"], limits=limits, clients=2) as moosefs:
            yield moosefs


def lost_by_the_writer(moosefs: MooseFS, victim: str, other: str) -> float:
    """What a pattern loses of its rate to the other, by a program that is not the probe.

    Only for victims that wait for each flush: what others write goes into a cache first.
    """
    alone, alongside = [], []
    for _ in range(ROUNDS):
        alone.append(io_seconds(victim, moosefs.path("a")))
        with subprocess.Popen(writing(other, "1G", moosefs.path("a", client=1))) as signal:
            time.sleep(1.0)  # until the caches are full
            alongside.append(io_seconds(victim, moosefs.path("a")))
            assert signal.poll() is None
            signal.kill()
        for left in moosefs.path("a").iterdir():
            left.unlink()
        wait_until_quiet(moosefs)
    return 1 - median(alone) / median(alongside)


def wait_until_quiet(moosefs: MooseFS) -> None:
    """A client goes on writing what a program that was killed left in its cache."""
    before, now = 0, moosefs.targets.bytes_written("a")
    while now - before > MIB:
        time.sleep(0.5)
        before, now = now, moosefs.targets.bytes_written("a")


def io_seconds(pattern: str, directory: Path) -> float:
    done = subprocess.run(writing(pattern, "30M", directory), check=True, stdout=subprocess.PIPE)
    return float(json.loads(done.stdout)["io_seconds"])


def writing(pattern: str, volume: str, directory: Path) -> list[str | Path]:
    words = ("--pattern", pattern, "--volume", volume, "--processes", "2", "--remove")
    return [writer(), *words, directory]


def is_plain(corun: PlannedCoRun) -> bool:
    programs = (corun.probe, *corun.signals)
    return len(programs) == 2 and all(
        p.processes == 2 and not p.sync and not p.direct for p in programs
    )
