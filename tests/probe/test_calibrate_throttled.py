"""Calibration finds that a throttled target serves by demand."""

import tempfile

import pytest
from default_calibration import LIMITS, calibration
from storage_targets import StorageTargets

from sluice.history_db.store import Store
from sluice.interference.calibrate.protocol import Launcher, Timing
from sluice.interference.calibrate.servers import FIRST_COME, MODE, ROUNDS, disciplines, measure_run
from sluice.interference.calibrate.targets import Target
from sluice.interference.programs import MIB, Program

BUDGET = 600.0
"""Seconds, of which the rounds take a third at most."""


def test_a_run_keeps_what_each_program_got(program, tmp_path):
    programs = (Program("aw", MIB, 1, direct=True), Program("aw", MIB, 2, direct=True))
    launcher, timing = Launcher(str(program)), Timing(fill=0, window=0.2)
    run = measure_run(programs, Target("a", (tmp_path,)), launcher=launcher, timing=timing)
    assert (run.mode, run.members) == (MODE, ("aw:1M:1::direct", "aw:1M:2::direct"))
    assert len(run.together) == 2
    assert run.dropped or min(run.together) > 0


@pytest.mark.acceptance
@pytest.mark.storage
def test_a_throttled_target_serves_first_come_first_served(program, tmp_path, capsys):
    """The throttle serves in the order of arrival."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-storage-") as name,
        StorageTargets(name, lanes=["a"], limits=LIMITS, kinds=["blkio", "io.max"]) as lab,
        Store(tmp_path / "history.db", create=True) as store,
    ):
        target = Target("a", (lab.path("a"),))
        measured = calibration(
            store, program, [target], (), timing=Timing(), budget=BUDGET, rounds=ROUNDS
        )
        assert measured == store.interference.coruns([1])
    with capsys.disabled():
        print(*disciplines(measured), sep="\n")
    (found,) = disciplines(measured)
    assert found.verdict == FIRST_COME
