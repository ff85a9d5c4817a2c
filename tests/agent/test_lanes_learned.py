"""What the coordinator learns of a lane whose Bandwidth is told wrong, from how fast bursts go."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from turns_daemons import RATE, AgentPage, Cluster, Rank, wait_for

from sluice.cli.gates import _turns
from sluice.policies import core
from sluice.slurm.turns import turns_now


@contextmanager
def lane_of(capacity: float, *jobs: list[tuple[AgentPage, Rank]], wants: float) -> Iterator[None]:
    """Let jobs share a lane of so many B/s equally, each up to what it wants."""
    ends = threading.Event()

    def serve() -> None:
        while not ends.wait(0.02):
            writing = sum(job[0][0].most > 0 for job in jobs)
            for job in jobs:
                for _, rank in job:
                    rank.rate = int(min(wants, capacity / max(1, writing)) / len(job))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def published(cluster: Cluster, *job_ids: int, rate: float) -> None:
    profile = {"rate": rate, "burst_seconds": 600.0, "share": {"aw": 1.0}, "pattern": "aw"}
    cluster.publish_jobs(*({"job_id": job_id, "profile": profile} for job_id in job_ids))


def percent(status: dict) -> int:
    """Of its Bandwidth, that the lane is said to do."""
    named = status["named"]["lanes"]
    return int(re.search(r"(\d+) %", named["sl0"]["text"])[1]) if named else 100


def writers(cluster: Cluster, job_id: int, nodes: int, agents: int = 1) -> list:
    pages = [cluster.page(cluster.agent(), job_id, nodes=nodes) for _ in range(agents)]
    return [(page, cluster.rank(page, rate=RATE // agents)) for page in pages]


def test_a_lane_that_is_told_twice_too_fast_is_not_overfilled(cluster: Cluster) -> None:
    """By the Bandwidth both jobs fit; one of them has two nodes, which report at other times."""
    cluster.configure(bandwidth=2 * RATE, TurnsLatency=100)
    published(cluster, 1, 2, rate=RATE)
    cluster.start_turns()
    wide, narrow = writers(cluster, 1, nodes=64, agents=2), writers(cluster, 2, nodes=1)
    with lane_of(RATE, wide, narrow, wants=RATE):
        wait_for(lambda: narrow[0][0].is_held, "for the narrow job to be held")
        status = cluster.wait_for_status(lambda found: found["named"]["lanes"])
        assert 40 <= percent(status) <= 60
        assert not any(page.is_held for page, _ in wide)
        found = turns_now(core.parse_config("sluice.conf", cluster.config.read_bytes()))
    assert found
    assert re.search(r"Lane sl0 does [45]\d % of its Bandwidth\.", _turns(found))


def test_a_lane_that_is_told_twice_too_slow_does_not_idle(cluster: Cluster) -> None:
    """One job, alone, shows what the lane does; afterwards two go that need most of it."""
    cluster.configure(bandwidth=RATE // 2, TurnsLatency=100)
    published(cluster, 1, rate=RATE)
    cluster.start_turns()
    with lane_of(RATE, alone := writers(cluster, 1, nodes=1), wants=RATE):
        cluster.wait_for_status(lambda found: found["named"].get("lanes") and percent(found) >= 180)
    alone[0][1].finish()
    cluster.wait_for_status(lambda found: found["facts"]["active"] == 0)
    published(cluster, 2, 3, rate=0.4 * RATE)
    pair = [writers(cluster, job_id, nodes=job_id) for job_id in (2, 3)]
    with lane_of(RATE, *pair, wants=0.4 * RATE):
        wait_for(lambda: all(job[0][1].slot.bytes > 4 * RATE for job in pair))
    assert cluster.status()["counts"]["holds"] == 0


def test_jobs_that_fit_are_found_to_where_one_was_held(cluster: Cluster) -> None:
    """Told half of what it does, so that only a hold that ends can show it."""
    cluster.configure(bandwidth=RATE, TurnsLatency=100)
    published(cluster, 1, 2, rate=RATE)
    cluster.start_turns()
    pair = [writers(cluster, job_id, nodes=job_id) for job_id in (1, 2)]
    with lane_of(2 * RATE, *pair, wants=RATE):
        wait_for(lambda: pair[0][0][0].is_held)
        cluster.wait_for_status(lambda found: percent(found) >= 180)
        wait_for(lambda: not any(job[0][0].is_held for job in pair))


def test_a_call_that_writes_for_seconds_says_nothing_of_the_lane(cluster: Cluster) -> None:
    """Its bytes are counted when it ends; until then it seems to stand still."""
    cluster.configure(TurnsLatency=100)
    published(cluster, 1, rate=RATE)
    cluster.start_turns()
    _, rank = writers(cluster, 1, nodes=1)[0]
    rank.kill_thread()
    rank.slot.writing = 1
    for call in range(1, 5):
        begun = time.monotonic()
        wait_for(lambda begun=begun: time.monotonic() > begun + 3)
        rank.slot.bytes += 3 * RATE
        rank.slot.operations += 1
        written = 3 * RATE * call
        cluster.wait_for_status(lambda found, least=written: found["counts"]["bytes"] >= least)
    assert percent(cluster.status()) == 100
