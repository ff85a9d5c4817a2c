"""What sluiced takes from the history about slow lanes."""

import time

import pytest

from sluice.history_db.errors import HistoryError
from sluice.history_db.records import TargetProbe
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.slurm.gates.snapshot import REFRESH_SECONDS, LaneSpeeds

NOW = int(time.time())
LANES = b"Lane=sl0 Targets=1\nLane=sl1 Targets=1\n"
CONFIG = core.parse_config("test", LANES)
WITH_OSTS = core.parse_config("test", LANES + b"LaneOsts=sl0:0,sl1:1\n")


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "history.db", create=True) as store:
        yield store


def probe(store, rates, at, *, times=5):
    store.interference.add_target_probes(
        TargetProbe(name, "aw:1M:2", at - i, rate)
        for name, rate in rates.items()
        for i in range(times)
    )


def test_slow_lanes_are_known_and_all_others_are_not_there(store):
    probe(store, {"sl0": 100.0, "sl1": 25.0}, NOW)
    speeds = LaneSpeeds()
    speeds.refresh(store, CONFIG, NOW)
    assert speeds.latest == {"sl1": pytest.approx(0.25)}


def test_the_history_is_asked_now_and_then(store):
    speeds = LaneSpeeds()
    speeds.refresh(store, CONFIG, NOW)
    probe(store, {"sl0": 100.0, "sl1": 25.0}, NOW)
    speeds.refresh(store, CONFIG, NOW + REFRESH_SECONDS - 1)
    assert speeds.latest == {}
    speeds.refresh(store, CONFIG, NOW + REFRESH_SECONDS)
    assert list(speeds.latest) == ["sl1"]


@pytest.mark.parametrize(("healthy", "slow"), [("sl0", "sl1"), ("OST0000", "OST0001")])
def test_a_lane_that_was_slow_does_so_until_it_surely_keeps_up(store, healthy, slow):
    """One near the bound would otherwise be slow and healthy in turns, with each probe.

    So does one whose target on Lustre was slow.
    """
    probe(store, {healthy: 100.0}, NOW, times=40)
    probe(store, {slow: 50.0}, NOW, times=10)
    speeds = LaneSpeeds()
    speeds.refresh(store, WITH_OSTS, NOW)
    assert speeds.latest == {"sl1": pytest.approx(0.5)}
    probe(store, {slow: 90.0}, NOW + 60, times=8)
    fresh = LaneSpeeds()
    for asked in (speeds, fresh):
        asked.refresh(store, WITH_OSTS, NOW + 60)
    assert speeds.latest == {"sl1": pytest.approx(0.5)}
    assert fresh.latest == {}
    probe(store, {slow: 90.0}, NOW + 120, times=40)
    speeds.refresh(store, WITH_OSTS, NOW + 120)
    assert speeds.latest == {}


def test_a_history_that_fails_leaves_no_slow_target(store):
    probe(store, {"sl0": 100.0, "sl1": 25.0}, NOW)
    speeds = LaneSpeeds()
    speeds.refresh(store, CONFIG, NOW)
    store.close()
    with pytest.raises(HistoryError):
        speeds.refresh(store, CONFIG, NOW + REFRESH_SECONDS)
    assert speeds.latest == {}
