"""A second calibration agrees with the first, on two kinds of storage that order differently."""

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
from default_calibration import LIMITS, calibration, default_calibration
from moosefs import LIMITS as MOOSEFS_LIMITS
from moosefs import MooseFS
from storage_targets import StorageTargets

from sluice.calibrate.analysis import agreement, losses, stability
from sluice.calibrate.grid import Encounterable, default_grid
from sluice.calibrate.programs import MIB
from sluice.calibrate.protocol import Timing
from sluice.calibrate.targets import Target
from sluice.history_db.records import Encounter
from sluice.history_db.store import Store

pytestmark = [pytest.mark.acceptance, pytest.mark.storage]


def compare(first: list[Encounter], second: list[Encounter], capsys) -> None:
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
                print(f"\n{len(results[-1])} encounters in {time.monotonic() - begin:.0f} s")
    compare(*results, capsys)


@pytest.mark.skipif(bool(MooseFS.missing()), reason=MooseFS.missing() or "available")
def test_two_calibrations_of_moosefs_agree_on_an_order_of_its_own(program, tmp_path, capsys):
    """A file system each: deleted data stays for minutes. Here WS hurts OWC more than AW does."""
    plan = [e for e in default_grid((MIB,), several_targets=False) if is_plain(e)] * 4
    results = []
    with Store(tmp_path / "history.db", create=True) as store:
        for seed in (1, 2):
            with tempfile.TemporaryDirectory(prefix="sluice-storage-") as name:
                Path(name).chmod(0o755)
                limits = replace(MOOSEFS_LIMITS, size=7000 * MIB)
                with MooseFS(name, lanes=["a"], limits=limits, clients=2) as moosefs:
                    target = Target("a", (moosefs.path("a"), moosefs.path("a", client=1)))
                    how = {"timing": Timing(fill=1.0, window=2.0), "budget": 240.0, "seed": seed}
                    results.append(calibration(store, program, [target], plan, **how))
    compare(*results, capsys)
    beside = {
        cell.others[0].pattern: loss.loss
        for cell, loss in losses(results[0]).items()
        if cell.victim.pattern == "owc"
    }
    assert max(beside, key=beside.__getitem__) == "ws"


def is_plain(encounter: Encounterable) -> bool:
    programs = (encounter.probe, *encounter.signals)
    return len(programs) == 2 and all(
        p.processes == 2 and not p.sync and not p.direct for p in programs
    )
