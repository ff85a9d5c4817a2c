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


ON_BLOCKS = core.parse_config(
    "test", b"Lane=sl0 Targets=2\nLane=sl1 Targets=4 Place=blocks\nLaneOsts=sl0:8,9,sl1:3-4,0-1\n"
)
OSTS = ("OST0003", "OST0004", "OST0000", "OST0001", "OST0008", "OST0009")


def test_a_slow_target_of_a_lane_with_blocks_is_told_by_its_number(store):
    """In the site's order; of lanes without blocks the lane alone is told."""
    probe(store, dict.fromkeys(OSTS, 100.0) | {"OST0000": 25.0, "OST0009": 25.0}, NOW)
    speeds = LaneSpeeds()
    speeds.refresh(store, ON_BLOCKS, NOW)
    (told,) = speeds.with_states({})
    unknown = {"used": 0.0, "capacity": 0.0, "is_closed": 0}
    assert told == {"lane": 1, "target": 2, "missing": pytest.approx(0.75), **unknown}
    probe(store, {"OST0000": 100.0}, NOW + 60, times=40)
    speeds.refresh(store, ON_BLOCKS, NOW + 60)
    assert speeds.with_states({}) == []


def test_targets_have_no_numbers_where_the_site_names_only_some(store):
    probe(store, dict.fromkeys(OSTS, 100.0) | {"OST0000": 25.0}, NOW)
    speeds = LaneSpeeds()
    some = core.parse_config("test", b"Lane=a Targets=8 Place=blocks\nLaneOsts=a:3-4,0-1,8-9\n")
    speeds.refresh(store, some, NOW)
    assert set(speeds.latest) == {"a"}
    assert speeds.with_states({}) == []


def test_a_history_that_fails_leaves_no_slow_target(store):
    probe(store, {"sl0": 100.0, "sl1": 25.0}, NOW)
    speeds = LaneSpeeds()
    speeds.refresh(store, CONFIG, NOW)
    store.close()
    with pytest.raises(HistoryError):
        speeds.refresh(store, CONFIG, NOW + REFRESH_SECONDS)
    assert speeds.latest == {}
