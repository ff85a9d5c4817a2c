"""The perfect-knowledge bound: nobody who starts jobs no later than it allows loses less."""

from dataclasses import replace

import numpy as np
import pytest
from ablations import EVERY, PLACING
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.sim.policies.policies import Options
from sluice.sim.replay.compare import Draw, bound_of
from sluice.sim.replay.figures import bound, late_work
from sluice.sim.replay.io_replay import replay_with_io
from sluice.sim.storage.mean_field import station_shares, storage_for
from sluice.sim.trace.jobs import Trace
from sluice.sim.trace.machine import one_pool
from sluice.sim.trace.profiles import Profiles, no_profiles
from sluice.sim.trace.repairs import make_replayable

SLOTS = 16
SITE = one_pool(SLOTS)
MIB = 2.0**20
KINDS = (
    {"pattern": "aw", "chunk_bytes": 4 * MIB, "bytes_per_flush": 1e9, "period_seconds": 200.0},
    {"pattern": "ws", "chunk_bytes": 65536.0, "bytes_per_flush": 65536.0, "period_seconds": 60.0},
    {"pattern": "metadata", "chunk_bytes": 4096.0, "metadata_rate": 9000.0, "period_seconds": 50.0},
)


def replayable(rows):
    """Jobs of (submit, run time, slots) that are never killed."""
    submit, runtime, slots = (np.array(column, float) for column in zip(*rows, strict=True))
    trace = Trace(
        "made",
        job_id=np.arange(1, len(rows) + 1),
        submit=submit,
        runtime=runtime,
        limit=runtime * 100,
        slots=slots.astype(np.int64),
    )
    return make_replayable(trace, SITE)


def draw_of(rows, *, kind=0, io_share=0.5, storage=None):
    work = replayable(rows)
    kinds = np.broadcast_to(kind, len(rows)).astype(np.int64)
    profiles = Profiles(KINDS, kinds, np.full(len(rows), io_share))
    return Draw(work, SITE, profiles, storage or storage_for(SLOTS, lanes=2, targets=2), Options())


def replayed(draw, policy="none", **options):
    return replay_with_io(
        draw.replayable,
        draw.site,
        profiles=draw.profiles,
        storage=draw.storage,
        policy=policy,
        options=Options(**options),
        known=EVERY,
    )


def bound_with(draw, plain, max_delay):
    return bound_of(replace(draw, options=Options(max_delay=max_delay)), plain)


jobs = st.lists(
    st.tuples(st.integers(0, 900), st.integers(1, 800), st.integers(1, SLOTS)),
    min_size=2,
    max_size=14,
).map(sorted)


@settings(deadline=None)
@given(
    rows=jobs,
    kind=st.integers(0, 2),
    io_share=st.sampled_from([0.3, 0.9]),
    policy=st.sampled_from(sorted(set(EVERY) - PLACING)),
    max_delay=st.sampled_from([0.0, 60.0, 500.0]),
)
def test_no_policy_loses_less_than_what_is_forced(rows, kind, io_share, policy, max_delay):
    """Whatever it does, as long as it starts no job later than the bound allows.

    The bound is that of lanes: it says nothing of single targets.
    """
    draw = draw_of(rows, kind=kind, io_share=io_share)
    plain = replayed(draw)
    outcomes = replayed(draw, policy, max_delay=max_delay, heavy=1, seed=3)
    latest = float(np.max(outcomes.results["start"] - plain.results["start"]))
    found = bound_with(draw, plain, max(0.0, latest))
    assert found.forced <= outcomes.lost_slot_seconds.sum() * (1 + 1e-6) + 1e-6
    assert found.forced <= found.lost * (1 + 1e-6) + 1e-6


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 40), st.integers(1, 30)),
        min_size=1,
        max_size=8,
    )
)
def test_the_least_undone_work_is_what_no_order_of_work_can_avoid(rows):
    """As the textbooks have it: all that had to be done in some interval, less its length."""
    release = np.array([row[0] for row in rows], float)
    due = release + np.array([row[1] for row in rows], float)
    work = np.array([row[2] for row in rows], float)
    late = late_work(release, due, work)
    for now in sorted(set(due.tolist())):
        demands = [
            work[(release >= begin) & (due <= now)].sum() - (now - begin)
            for begin in release
            if begin <= now
        ]
        undone, before = 0.0, 0.0
        for deadline, more in late:
            if deadline <= now:
                undone = max(0.0, undone - (deadline - before)) + more
                before = deadline
        assert max(0.0, undone - (now - before)) == pytest.approx(max(0.0, *demands), abs=1e-4)


def test_two_jobs_that_fill_the_storage_at_once_force_a_loss():
    """Each on one slot brings 300 s of work, due at 300 s: the undone half costs 300/2 * 1."""
    storage = storage_for(SLOTS, lanes=1, targets=1)
    storage = replace(storage, numbers={"node_rate": 1e12, "server_bandwidth": 1e13})
    draw = draw_of([(0, 300, 1)] * 2, io_share=1.0, storage=storage)
    plain = replayed(draw)
    found = bound_with(draw, plain, 0.0)
    assert plain.lost_slot_seconds.sum() == pytest.approx(600, rel=0.01)
    assert found.forced == pytest.approx(150, rel=0.02)
    assert found.station == "storage targets"
    assert found.gain == pytest.approx(450, rel=0.02)


def test_more_patience_forces_less_and_enough_forces_nothing():
    draw = draw_of([(0, 600, 4)] * 4, io_share=0.9)
    plain = replayed(draw)
    forced = [bound_with(draw, plain, delay).forced for delay in (0, 100, 1000, np.inf)]
    assert forced[0] > 0
    assert forced == sorted(forced, reverse=True)
    assert forced[-1] == 0


def test_where_nobody_writes_there_is_nothing_to_gain():
    draw = replace(draw_of([(0, 300, 1)] * 3), profiles=no_profiles(3))
    found = bound_of(draw, replayed(draw))
    assert (found.lost, found.forced, found.gain, found.station) == (0.0, 0.0, 0.0, "")
    assert not found.is_anything_to_gain
    assert found.share(0.0) is None


def test_stations_are_never_asked_for_more_than_they_can_do():
    """Alone, a job takes all of a station at most."""
    draw = draw_of([(0, 300, SLOTS)] * 3, kind=[0, 1, 2], io_share=0.9)
    config = draw.storage.configuration()
    shares = station_shares(draw.profiles.loads(draw.replayable.workload, config), config)
    assert shares.shape == (3, 3)
    assert shares.max() <= 1 + 1e-9
    assert shares[2, 2] > 0


def test_jobs_that_were_killed_do_not_count():
    """A relaxation: what they would have done without a policy is not known."""
    draw = draw_of([(0, 300, 4)] * 3, io_share=0.9)
    plain = replayed(draw)
    config = draw.storage.configuration()
    shares = station_shares(draw.profiles.loads(plain.replayable.workload, config), config)
    assert bound(plain, shares, max_delay=0.0).forced > 0
    plain.results["state"] = 4  # timeout
    assert plain.state.tolist() == ["timeout"] * 3
    assert bound(plain, shares, max_delay=0.0).forced == 0
