"""What the coordinator leaves for sluiced of each burst that it held, and how that is read."""

import json
from pathlib import Path

import pytest
from turns_daemons import Cluster, wait_for

from sluice.history_db.records import HeldBurst
from sluice.history_db.store import Store
from sluice.slurm.status import held_path
from sluice.slurm.turns import HeldBurstReader

LINE = {
    "boot": "00000000000000ab", "number": 1, "job_id": 4712, "nodes": 2, "first_job": 4711,
    "first_nodes": 64, "lane_mask": 0, "holds": 1, "is_held": True, "ended": "turn",
    "began": 1_700_000_000.25, "lasted": 20.0, "held": 12.5,
    "bytes": 1e9, "saving": None,
}  # fmt: skip


def read(cluster: Cluster) -> list[HeldBurst]:
    return HeldBurstReader().poll(cluster.snapshot, "lab")


def held_burst(cluster: Cluster) -> HeldBurst:
    """A narrow job waits for a wide one, then writes and ends its burst."""
    cluster.publish(1, 2)
    cluster.start_turns()
    agent = cluster.agent()
    wide = cluster.rank(cluster.page(agent, 1, nodes=64))
    narrow = cluster.rank(cluster.page(agent, 2, nodes=2))
    cluster.wait_for_status(lambda found: found["counts"]["held_seconds"] > 1)
    wide.finish()
    cluster.wait_for_status(lambda found: found["named"]["bursts"]["2"]["text"] == "writes")
    narrow.finish()
    [burst] = wait_for(lambda: read(cluster), "for a line on it")
    return burst


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_a_burst_that_was_held_is_told_when_it_ends(cluster: Cluster, mode: str) -> None:
    """Also one that would have been."""
    cluster.configure(mode=mode)
    burst = held_burst(cluster)
    assert (burst.cluster, burst.job_id, burst.nodes) == ("lab", 2, 2)
    assert (burst.first_job, burst.first_nodes) == (1, 64)
    assert (burst.is_held, burst.ended) == (mode == "enforce", "turn")
    assert 1 < burst.held < burst.lasted
    assert burst.saving is not None
    assert burst.saving > 0
    assert held_path(cluster.snapshot).stat().st_mode & 0o777 == 0o640


def test_lines_are_read_once_and_a_full_file_to_its_end(tmp_path: Path) -> None:
    snapshot = tmp_path / "cluster.snapshot"
    path, reader = held_path(snapshot), HeldBurstReader()
    written = 0

    def write(count: int, rest: str = "") -> None:
        nonlocal written
        with path.open("a") as file:
            for _ in range(count):
                written += 1
                file.write(json.dumps(LINE | {"number": written}) + "\n")
            file.write(rest)

    def numbers() -> list[int]:
        return [burst.number for burst in reader.poll(snapshot, "lab")]

    assert numbers() == []
    write(2, rest="{")
    assert numbers() == [1, 2]
    write(0, rest="broken}\n")
    write(1)
    assert numbers() == [3]
    assert numbers() == []
    write(1)
    path.rename(path.with_name(path.name + ".1"))
    write(1)
    assert numbers() + numbers() == [4, 5]
    assert numbers() == []
    reader = HeldBurstReader()
    assert numbers() + numbers() == [1, 2, 3, 4, 5]


def test_the_history_keeps_each_burst_once(tmp_path: Path) -> None:
    snapshot = tmp_path / "cluster.snapshot"
    lines = [LINE, LINE | {"number": 2, "ended": "budget", "saving": 100.0, "is_held": False}]
    held_path(snapshot).write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Store(tmp_path / "history.db", create=True) as store:
        for _ in range(2):
            store.gates.add_held_bursts(HeldBurstReader().poll(snapshot, "lab"))
        first, second = store.gates.held_bursts(4712, "lab", since=0)
        assert (first.is_held, first.saving, second.saving) == (True, None, 100.0)
        assert store.gates.held_bursts(4712, "other", since=0) == []
        totals = store.gates.held_totals(since=0, is_held=False)
        assert (totals.bursts, totals.budgets, totals.node_seconds) == (1, 1, 25.0)
        store.upkeep.prune(before=1_800_000_000)
        assert store.gates.held_bursts(4712, "lab", since=0) == []
