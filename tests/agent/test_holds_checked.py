"""Trials of the coordinator: holds that gain nothing stop by themselves, those that help go on."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from turns_daemons import RATE, AgentPage, Cluster, Rank

from sluice.cli.gates import _turns
from sluice.policies import core
from sluice.slurm.metrics import of_turns
from sluice.slurm.turns import turns_now

Speed = Callable[[int], float]
"""Of each job, as a share of its rate alone, by how many write."""


@contextmanager
def storage(pages: list[AgentPage], ranks: list[Rank], speed: Speed) -> Iterator[None]:
    """Let ranks write as fast as a storage would let them."""
    ends = threading.Event()

    def serve() -> None:
        while not ends.wait(0.02):
            writing = sum(not page.is_held for page in pages)
            for rank in ranks:
                rank.rate = int(RATE * speed(max(1, writing)))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


@pytest.fixture
def contended(cluster: Cluster) -> tuple[Cluster, list[AgentPage], list[Rank]]:
    """Two jobs of which each would fill the lane alone."""
    cluster.configure(TurnsLatency=100)
    cluster.publish(1, 2, burst_seconds=600.0)
    cluster.start_turns()
    agent = cluster.agent()
    pages = [cluster.page(agent, job, nodes=nodes) for job, nodes in ((1, 4), (2, 2))]
    return cluster, pages, [cluster.rank(page) for page in pages]


def test_holds_stop_where_jobs_do_not_disturb_each_other(contended) -> None:
    """As where flushes share commits."""
    cluster, pages, ranks = contended
    with storage(pages, ranks, lambda _: 1.0):
        cluster.wait_for_status(lambda found: found["counts"]["no_help"])
        text = "writes, because holds do not help"
        cluster.wait_for_status(lambda found: found["named"]["bursts"]["2"]["text"] == text)
    config = core.parse_config("sluice.conf", cluster.config.read_bytes())
    found = turns_now(config)
    assert found
    assert "1 went on because holds were seen not to help" in _turns(found)
    counted = {name: value for name, _, value in of_turns(config)}
    assert counted["sluice_turns_no_help_total"] == 1
    assert counted["sluice_turns_trials_total"] >= 2
    assert not any(page.is_held for page in pages)


def test_holds_go_on_where_jobs_share_what_the_storage_gives(contended) -> None:
    cluster, pages, ranks = contended
    with storage(pages, ranks, lambda writing: 1 / writing):
        cluster.wait_for_status(lambda found: found["counts"]["trials"])
        before = cluster.status()["counts"]["held_seconds"]
        status = cluster.wait_for_status(
            lambda found: found["counts"]["held_seconds"] > before + 10
        )
    assert status["counts"]["no_help"] == 0
    assert pages[1].is_held


def test_nobody_goes_on_trial_where_nobody_is_held(cluster: Cluster) -> None:
    cluster.configure(mode="observe", TurnsLatency=100)
    cluster.publish(1, 2, burst_seconds=600.0)
    cluster.start_turns()
    agent = cluster.agent()
    for job, nodes in ((1, 4), (2, 2)):
        cluster.rank(cluster.page(agent, job, nodes=nodes))
    status = cluster.wait_for_status(lambda found: found["counts"]["held_seconds"] > 10)
    assert status["counts"]["trials"] == 0
