"""Where new files of jobs go: to targets of their lane where no burst is under way."""

import time

import pytest
from turns_daemons import RATE, Cluster, wait_for
from turns_page import IN_BLOCKS, PLACED, now_ns

TARGETS = 8


def targets_of(page):
    """What the words say now, as a set; empty: anywhere."""
    if page.words.place_until <= now_ns():
        return set()
    bits = page.words.place.bits
    return {target for target in range(512) if bits[target // 64] >> target % 64 & 1}


def job(job_id, width=2.0, **members):
    profile = {
        "rate": float(RATE),
        "targets": width,
        "burst_seconds": 60.0,
        "io_share": 0.5,
        "share": {"aw": 1.0},
        "pattern": "aw",
    }
    return {"job_id": job_id, "lane_mask": 1, "profile": profile} | members


def start(cluster: Cluster, *jobs, mode="enforce", lanes=("sl0",)):
    cluster.configure(mode=mode, targets=TARGETS, bandwidth=TARGETS * RATE, lanes=lanes)
    cluster.publish_jobs(*jobs)
    cluster.start_turns()
    return cluster.agent()


def wait_for_targets(page, count):
    wait_for(lambda: len(targets_of(page)) == count, f"for {count} targets")
    return targets_of(page)


def begin(cluster: Cluster, page, job_id):
    """A burst of the job, known to the coordinator."""
    rank = cluster.rank(page)
    cluster.wait_for_status(lambda found: str(job_id) in found["named"]["bursts"])
    return rank


def test_jobs_between_bursts_get_targets_that_differ(cluster):
    agent = start(cluster, *(job(i) for i in (1, 2, 3, 4)))
    pages = [cluster.page(agent, i, flags=PLACED) for i in (1, 2, 3, 4)]
    found = [wait_for_targets(page, 2) for page in pages]
    assert set.union(*found) == set(range(TARGETS))


def test_a_job_leaves_targets_on_which_a_burst_begins(cluster):
    agent = start(cluster, job(1), job(2))
    placed = cluster.page(agent, 1, flags=PLACED)
    before = wait_for_targets(placed, 2)
    first = min(before) // 2 * 2
    other = cluster.page(agent, 2, block=(first, 2))
    rank = begin(cluster, other, 2)
    wait_for(lambda: not targets_of(placed) & {first, first + 1}, "for other targets")
    assert len(targets_of(placed)) == 2
    rank.finish()
    after = targets_of(placed)
    time.sleep(1.5)
    assert targets_of(placed) == after  # nothing disturbs it there


def test_a_job_keeps_its_targets_while_it_writes(cluster):
    agent = start(cluster, job(1), job(2))
    placed = cluster.page(agent, 1, flags=PLACED)
    before = wait_for_targets(placed, 2)
    begin(cluster, placed, 1)
    other = cluster.page(agent, 2, block=(min(before) // 2 * 2, 2))
    begin(cluster, other, 2)
    time.sleep(1.5)
    assert targets_of(placed) == before


def test_a_block_that_the_node_knows_counts_before_the_profile(cluster):
    agent = start(cluster, job(1))
    assert len(wait_for_targets(cluster.page(agent, 1, flags=PLACED, block=(4, 4)), 4)) == 4


def test_where_targets_come_in_blocks_a_job_gets_a_whole_free_one(cluster):
    agent = start(cluster, *(job(i) for i in (1, 2, 3)))
    busy = cluster.page(agent, 1, block=(2, 1))
    begin(cluster, busy, 1)
    pages = [cluster.page(agent, i, flags=PLACED | IN_BLOCKS) for i in (2, 3)]
    found = [wait_for_targets(page, 2) for page in pages]
    assert all(targets in ({0, 1}, {4, 5}, {6, 7}) for targets in found)
    assert found[0] != found[1]


def test_when_the_coordinator_ends_files_go_anywhere(cluster):
    agent = start(cluster, job(1))
    placed = cluster.page(agent, 1, flags=PLACED)
    wait_for_targets(placed, 2)
    cluster.turns.kill()
    wait_for_targets(placed, 0)


def test_a_job_on_all_of_one_lane_is_on_that_lane(cluster):
    agent = start(cluster, job(1, lane_mask=0))
    wait_for_targets(cluster.page(agent, 1, flags=PLACED), 2)


@pytest.mark.parametrize(
    "one",
    [
        job(1, width=-1.0) | {"profile": {"share": {"aw": 1.0}, "pattern": "aw"}},
        job(1, width=float(TARGETS)),
        job(1, lane_mask=0),
    ],
    ids=["its targets are not known", "it uses all targets", "it writes on any lane"],
)
def test_nothing_is_said_to_a_job(cluster, one):
    agent = start(cluster, one, job(2), lanes=("sl0", "sl1"))
    placed, other = (cluster.page(agent, i, flags=PLACED) for i in (1, 2))
    wait_for_targets(other, 2)
    assert targets_of(placed) == set()


def test_nothing_is_said_to_a_job_that_does_not_follow(cluster):
    agent = start(cluster, job(1), job(2))
    placed, other = cluster.page(agent, 1), cluster.page(agent, 2, flags=PLACED)
    wait_for_targets(other, 2)
    assert targets_of(placed) == set()


def test_where_sluice_only_observes_nothing_is_said(cluster):
    agent = start(cluster, job(1), mode="observe")
    placed = cluster.page(agent, 1, flags=PLACED)
    cluster.wait_for_status(lambda found: found["facts"]["jobs"] == 1)
    time.sleep(0.5)
    assert targets_of(placed) == set()


@pytest.mark.parametrize(("other", "is_held"), [((0, 2), True), ((1, 1), True), ((2, 2), False)])
def test_a_burst_is_held_for_one_that_fills_a_target_of_its(cluster, other, is_held):
    """The lane as a whole has room for many of them."""
    jobs = [job(1), job(2), job(3)]
    for one in jobs:
        one["profile"]["rate"] = 2.0 * RATE
    agent = start(cluster, *jobs)
    wide = cluster.page(agent, 1, nodes=64, block=other)
    narrow = cluster.page(agent, 2, block=(0, 2))
    cluster.rank(wide, rate=2 * RATE)
    begin(cluster, narrow, 2)
    if is_held:
        wait_for(lambda: narrow.is_held, "for the narrow job to be held")
        assert not wide.is_held
    else:
        time.sleep(2.0)
        assert not narrow.is_held
