"""Deciding again: who is let go past a shut gate, who waits, who takes other lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import core_worlds as worlds
import pytest
from core_worlds import NOW, STREAMING
from waiting_jobs import holding, job

from sluice.history_db.records import Snapshot as StoredSnapshot
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.snapshot import Snapshot, pack_snapshot
from sluice.slurm.records import License
from sluice.slurm.second import LET_GO, MOVES, SecondDecisions

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.policies.structs import View
    from sluice.slurm.holdings import Holding, Key
    from sluice.slurm.records import QueuedJob

LANES = "Lane=sl0 Targets=1 Bandwidth=1G\nLane=sl1 Targets=1 Bandwidth=1G\n"
ENFORCE = "Mode=enforce\nControlledUsers=1000\n"
HEAVY = STREAMING | {"io_share": 0.9, "runtime_seconds": 600.0}
LICENSES = {
    name: License(name, 1_000_000, 0, 0)
    for lane in (0, 1)
    for name in (f"sl{lane}_stream", f"sl{lane}_flush", f"sl{lane}_meta")
}
SHUT = dict.fromkeys(LICENSES, 0)
OPEN = dict.fromkeys(LICENSES, 10)
BOTH = "sl0_stream,sl1_stream"


class Ledger:
    """Knows what every waiting job was submitted as."""

    cluster = "lab"

    def submission(self, job: QueuedJob) -> View | None:
        return None if job.name == "stranger" else worlds.submission()


class Cluster:
    """What sluiced looks at: who writes, who waits."""

    def __init__(self, conf: str = "", rate: float = 1e9) -> None:
        self.second = SecondDecisions()
        self.profile = HEAVY | {"rate": rate}
        self.bundle = worlds.bundle(worlds.application(self.profile), conf=LANES + conf)
        self.now = NOW
        self.found: list[Holding] = []

    def look(
        self,
        *waiting: Holding,
        writers: tuple[int, ...] = (0,),
        conf: str = ENFORCE,
        age: int = 0,
    ) -> SecondDecisions:
        """Look at jobs that wait beside one writer for each of these lane masks."""
        rows = [
            worlds.corunner(
                100 + i, self.profile, lane_mask=mask, nodes=4, expected_end=self.now + 600
            )
            for i, mask in enumerate(writers)
        ]
        state = {"sequence": 1, "taken": self.now - age, "running": len(rows)}
        content = pack_snapshot(state=state, corunners=rows)
        self.found = list(waiting)
        self.second.look(
            waiting,
            Ledger(),
            self.bundle,
            StoredSnapshot(Snapshot.parse(content).checksum, 1, self.now, content),
            config=core.parse_config("sluice.conf", conf.encode()),
            licenses=LICENSES,
            now=self.now,
        )
        return self.second

    def releases(self, gates: dict[str, int], *others: QueuedJob) -> dict[Key, str]:
        queue = [waiting.job for waiting in self.found] + list(others)
        return self.second.releases(self.found, queue, gates, self.now)


def waiting(job_id: int = 1, licenses: str = BOTH, **members: Any) -> Holding:
    return holding(job_id, licenses=licenses, **members)


SHARE = "WaitPrice=1000\n"
"""Lanes or not, it is cheaper to share than to wait; two lanes save nothing for two such jobs."""
UNCONTROLLED = "Mode=enforce\n"


def test_whoever_had_better_share_is_let_go_where_the_gate_is_shut():
    cluster = Cluster(SHARE)
    cluster.look(waiting(), conf=UNCONTROLLED)
    assert cluster.releases(OPEN) == {}
    assert cluster.releases(SHUT) == {waiting().key: "sharing"}


def test_the_next_is_let_go_once_the_one_before_has_started():
    cluster = Cluster(SHARE)
    first, second = waiting(1), waiting(2)
    cluster.look(first, second, conf=UNCONTROLLED)
    assert cluster.releases(SHUT) == {first.key: "sharing"}
    cluster.look(second, conf=UNCONTROLLED)
    assert cluster.releases(SHUT, job(1, licenses="")) == {}
    assert cluster.releases(SHUT, job(1, licenses="", state="RUNNING")) == {second.key: "sharing"}


def test_one_that_was_let_go_and_does_not_start_keeps_others_for_seconds_only():
    cluster = Cluster(SHARE)
    first, second = waiting(1), waiting(2)
    cluster.look(first, second, conf=UNCONTROLLED)
    assert cluster.releases(SHUT) == {first.key: "sharing"}
    cluster.now += LET_GO
    cluster.look(second, conf=UNCONTROLLED)
    assert cluster.releases(SHUT, job(1, licenses="")) == {second.key: "sharing"}


def test_an_array_is_never_let_go_for_all_of_its_tasks_would_be():
    cluster = Cluster(SHARE)
    cluster.look(waiting(is_array=True, tasks_waiting=1000), conf=UNCONTROLLED)
    assert cluster.releases(SHUT) == {}


def test_whoever_had_better_wait_is_not_let_go():
    cluster = Cluster("WaitPrice=0.01\n", rate=2e9)
    second = cluster.look(waiting(), conf=UNCONTROLLED)
    assert cluster.releases(SHUT) == {}
    assert second.should_wait(waiting())
    cluster.look(waiting(), writers=(), conf=UNCONTROLLED)
    assert not second.should_wait(waiting())


@pytest.mark.parametrize("reason", ["Priority", "BeginTime", "JobHeldUser", "Dependency"])
def test_only_jobs_near_their_start_are_decided_on(reason):
    cluster = Cluster(SHARE)
    cluster.look(waiting(reason=reason), conf=UNCONTROLLED)
    assert cluster.releases(SHUT) == {}


def test_a_job_of_which_there_is_no_record_is_left_alone():
    cluster = Cluster(SHARE)
    cluster.look(waiting(name="stranger"))
    assert cluster.releases(SHUT) == {}


def test_a_job_that_the_site_exempts_by_now_needs_no_token():
    cluster = Cluster()
    cluster.look(waiting(), conf=ENFORCE + "ExemptUsers=1000\n")
    assert cluster.releases(OPEN) == {waiting().key: "left"}


def test_a_snapshot_that_is_too_old_says_nothing_of_a_job():
    cluster = Cluster(SHARE)
    cluster.look(waiting(), age=100)
    assert cluster.releases(SHUT) == {}


def exchanged(cluster: Cluster) -> list[tuple[int, int]]:
    return [
        (holding.job.job_id, tokens.lane_mask)
        for holding, tokens in cluster.second.exchanges(cluster.found)
    ]


def test_a_job_takes_the_lane_that_is_free_now():
    cluster = Cluster("MaxDelay=0\n")
    cluster.look(waiting(licenses="sl0_stream"), writers=(1,))
    assert exchanged(cluster) == [(1, 2)]
    cluster.look(waiting(licenses="sl0_stream"), writers=(2,))
    assert exchanged(cluster) == []


def test_a_lane_that_is_hardly_better_keeps_a_job_where_it_is():
    cluster = Cluster("MaxDelay=0\nMinSaving=1000000\n")
    cluster.look(waiting(licenses="sl0_stream"), writers=(1,))
    assert exchanged(cluster) == []


def test_a_job_is_confined_no_longer_than_somebody_is_there_to_be_kept_from():
    cluster = Cluster()
    cluster.look(waiting(licenses="sl0_stream"), writers=())
    assert exchanged(cluster) == [(1, 3)]


def test_a_job_does_not_go_to_and_fro_for_ever():
    cluster = Cluster("MaxDelay=0\n")
    moves = 0
    for i in range(2 * MOVES):
        lane = i % 2
        cluster.look(waiting(licenses=f"sl{lane}_stream"), writers=(1 << lane,))
        moves += len(exchanged(cluster))
    assert moves == MOVES


def test_an_array_whose_tasks_run_keeps_the_lane_on_which_they_write():
    cluster = Cluster("MaxDelay=0\n")
    array = {"submission_id": 7, "is_array": True, "licenses": "sl0_stream"}
    cluster.look(waiting(1, **array), waiting(2, state="RUNNING", **array), writers=(1,))
    assert exchanged(cluster) == []
    cluster.look(waiting(1, **array), writers=(1,))
    assert exchanged(cluster) == [(1, 2)]


def test_what_is_acted_on_is_kept_and_can_be_made_again(tmp_path: Path):
    cluster = Cluster(SHARE)
    cluster.look(waiting(), conf=UNCONTROLLED)
    assert cluster.releases(SHUT)
    with Store(tmp_path / "history.db", create=True) as store:
        cluster.second.keep(store, cluster.found)
        [kept] = store.second_decisions(1, since=NOW)
        assert store.decisions_for_job(1) == []
        assert store.unjoined_decisions() == []
        assert store.snapshot(kept.snapshot) is not None
        assert (kept.is_second, kept.cluster, kept.bundle) == (
            True,
            "lab",
            cluster.bundle.checksum,
        )
