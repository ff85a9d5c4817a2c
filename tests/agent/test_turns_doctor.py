"""What `sluice doctor` says of a real coordinator, and of its agents."""

import json

import pytest
from turns_daemons import Cluster, wait_for

from sluice.policies import core
from sluice.slurm.doctor import findings
from sluice.slurm.doctor.findings import Finding, Site
from sluice.slurm.status import SnapshotLock, status_path, turns_path


def found(cluster: Cluster) -> list[Finding]:
    site = Site(cluster.config, config=core.read_config(cluster.config))
    return list(findings.turns(site))


def texts(cluster: Cluster, level: str = "WARN") -> str:
    return "\n".join(one.text for one in found(cluster) if one.level == level)


def test_it_says_nothing_where_the_site_has_no_coordinator(cluster: Cluster) -> None:
    for settings in ({"TurnsPort": 0}, {"Turns": "off"}, {"Mode": "off"}):
        cluster.configure(**settings)  # type: ignore[arg-type]
        assert found(cluster) == []


def test_a_dead_coordinator_is_named(cluster: Cluster) -> None:
    [never] = found(cluster)
    cluster.start_turns()
    cluster.wait_for_status(lambda _: True)
    [well] = found(cluster)
    assert (well.level, well.text.split(";")[0]) == ("OK", "enforce")
    cluster.turns.kill()
    [dead] = found(cluster)
    assert (never.level, dead.level) == ("FAIL", "FAIL")
    assert "sluice-turns does not run" in dead.text
    assert "sluiced starts it" in dead.remedy


def test_a_coordinator_that_hangs_is_named(cluster: Cluster, monkeypatch) -> None:
    monkeypatch.setattr(findings, "SILENT_SECONDS", 3)
    cluster.start_turns()
    cluster.wait_for_status(lambda _: True)
    cluster.turns.signal(19)
    wait_for(lambda: "has not written" in texts(cluster, "FAIL"))
    cluster.turns.signal(18)
    wait_for(lambda: not texts(cluster, "FAIL"))


def test_an_agent_that_is_gone_with_its_jobs_is_named_until_it_is_back(cluster: Cluster) -> None:
    cluster.start_turns()
    agent = cluster.agent()
    cluster.rank(cluster.page(agent, 1))
    cluster.wait_for_status(lambda status: status["facts"]["active"] == 1)
    agent.kill()
    cluster.wait_for_status(lambda status: status["named"]["lost"])
    assert "agents with jobs are not heard of: 127.0.0.1" in texts(cluster)
    cluster.rank(cluster.page(cluster.agent(), 2))
    cluster.wait_for_status(lambda status: not status["named"]["lost"])
    assert "not heard of" not in texts(cluster)


def test_a_job_that_never_writes_is_named_after_a_while(cluster: Cluster, monkeypatch) -> None:
    """As one whose container lacks the library."""
    cluster.start_turns()
    agent = cluster.agent()
    cluster.page(agent, 7)
    cluster.rank(cluster.page(agent, 8))
    cluster.wait_for_status(lambda status: list(status["named"]["unseen"]) == ["7"])
    assert texts(cluster) == ""
    monkeypatch.setattr(findings, "UNSEEN_SECONDS", -60)
    assert "no write was seen: 7 (" in texts(cluster)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"Lane": "sl1 Targets=1"}, "of lane sl1 the Bandwidth is not known"),
    ],
)
def test_settings_that_leave_turns_without_effect_are_named(
    cluster: Cluster, settings: dict[str, object], text: str
) -> None:
    cluster.configure(**settings)
    assert text in texts(cluster)


@pytest.mark.parametrize(
    ("counts", "facts", "text"),
    [
        ({"uncovered_bytes": 900}, {}, "only 10% of the bytes"),
        ({"refused": 3}, {}, "3 processes found no room"),
        ({}, {"refused_agents": 2}, "2 connections of agents were refused"),
        ({}, {"unkept": 4}, "4 held bursts were not kept"),
    ],
)
def test_what_the_coordinator_counts_is_judged(
    cluster: Cluster, counts: dict[str, int], facts: dict[str, int], text: str
) -> None:
    status = {
        "failing": {},
        "named": {},
        "counts": {"bytes": 100} | counts,
        "facts": {"mode": "enforce", "agents": 1, "jobs": 1} | facts,
    }
    path = turns_path(cluster.snapshot)
    with SnapshotLock() as lock:  # in the coordinator's place
        lock.move(path)
        status_path(path).write_text(json.dumps(status))
        assert text in texts(cluster)
