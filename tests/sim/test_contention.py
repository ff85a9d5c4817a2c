"""A replay whose jobs share storage: the engine with the mean-field model as its storage."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.sim import engine
from sluice.sim.engine import StorageModelError
from sluice.sim.storage.mean_field import Contention, configuration, loads_of

MIB = 2.0**20
KINDS = (
    {"pattern": "aw", "chunk_bytes": 4 * MIB, "bytes_per_flush": 1e9, "period_seconds": 900.0},
    {"pattern": "ws", "chunk_bytes": 65536.0, "bytes_per_flush": 65536.0, "period_seconds": 60.0},
    {"pattern": "none"},
)
NONE = len(KINDS) - 1
LANES = ((2, 0.5), (2, 0.5))
CONFIG = configuration(lanes=LANES)


def workload(rows):
    """Jobs of (submit, runtime, slots, limit) on 16 nodes."""
    jobs = np.zeros(len(rows), engine.JOB)
    for i, name in enumerate(("submit", "runtime", "slots", "limit")):
        jobs[name] = [row[i] for row in rows]
    association = np.zeros(1, engine.ASSOCIATION)
    association["shares"] = association["account_shares"] = 1.0
    return engine.Workload(engine.Machine((16,)), jobs, associations=association)


def loads(work, kind, io_share=0.5):
    count = len(work.jobs)
    return loads_of(
        KINDS,
        kind=np.broadcast_to(kind, count),
        io_share=np.where(np.broadcast_to(kind, count) == NONE, 0.0, io_share),
        nodes=work.jobs["slots"],
        runtime=work.jobs["runtime"],
        config=CONFIG,
    )


def replayed(work, kind, **options):
    contention = Contention(CONFIG, loads(work, kind), **options)
    return engine.run(work, storage=contention.storage), contention.results


rows = st.lists(
    st.tuples(
        st.integers(0, 500),
        st.integers(1, 1000),
        st.integers(1, 16),
        st.sampled_from([200.0, 5000.0]),
    ),
    min_size=1,
    max_size=12,
).map(sorted)


@given(rows=rows)
def test_jobs_without_io_are_replayed_as_if_there_were_no_storage(rows):
    """The same schedule, to the last bit."""
    work = workload(rows)
    results, contention = replayed(work, NONE)
    assert results.tobytes() == engine.run(work).tobytes()
    assert not contention["io"].any()


@given(rows=rows, kind=st.integers(0, NONE))
def test_storage_only_ever_delays_a_job(rows, kind):
    """A run lasts at least as long as alone, and a limit still ends it."""
    work = workload(rows)
    results, contention = replayed(work, kind)
    ran = results["start"] >= 0
    length = (results["end"] - results["start"])[ran]
    limit, runtime = work.jobs["limit"][ran], work.jobs["runtime"][ran]
    assert (length >= np.minimum(runtime, limit) - 1e-6).all()
    assert (length <= limit + 1e-6).all()
    assert (contention["io"] >= contention["io_alone"] - 1e-6).all()


def test_two_writers_delay_each_other_and_lanes_keep_them_apart():
    """What a replay is for."""
    work = workload([(0, 1000, 8, 1e6)] * 2)
    together, contention = replayed(work, 1)
    apart, _ = replayed(work, 1, lanes=np.array([1, 2], np.uint32))
    assert (together["end"] > 1100).all()
    assert contention["alone"] == pytest.approx([1000.0, 1000.0])
    assert contention["io_alone"] == pytest.approx([500.0, 500.0])
    assert len(set(apart["end"])) == 1  # confined alike, so late alike


def test_the_same_replay_gives_the_same_bytes_on_any_thread():
    """Nothing is shared between replays."""
    random = np.random.default_rng(3)
    rows = sorted((int(t), 600, int(n), 1e5) for t, n in random.integers(1, 9, (60, 2)))
    work, kind = workload(rows), random.integers(0, 3, 60)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: replayed(work, kind)[0].tobytes(), range(8)))
    assert len(set(results)) == 1


def test_the_table_alone_keeps_its_storage_alive():
    """A caller may keep nothing but what engine.run takes."""
    work = workload([(0, 1000, 8, 1e6)] * 2)
    expected, _ = replayed(work, 1)
    storage = Contention(CONFIG, loads(work, 1)).storage
    others = [Contention(CONFIG, loads(work, 0)) for _ in range(20)]
    assert engine.run(work, storage=storage).tobytes() == expected.tobytes()
    assert len(others) == 20


def test_lanes_for_another_number_of_jobs_are_refused():
    work = workload([(0, 10, 1, 100)] * 2)
    with pytest.raises(StorageModelError, match="2 jobs with lanes for 1"):
        replayed(work, 0, lanes=np.array([1], np.uint32))
