"""`sluice top` on agents and a coordinator that run: which job writes most, and what is done."""

import json
import time

import pytest
from click.testing import CliRunner
from history_rows import a_job
from turns_daemons import RATE, Cluster, wait_for

from sluice.cli.main import main
from sluice.history_db.store import Store
from sluice.slurm.views.top import top
from sluice.slurm.visibility import OWNER, Viewer


@pytest.fixture
def history(tmp_path):
    path = tmp_path / "history.db"
    with Store(path, create=True) as store:
        store.jobs.upsert_jobs(
            a_job(job_id=job, uid=uid, name=f"run_{job}", start=int(time.time()), end=None)
            for job, uid in ((1, 1), (2, 2), (3, 2))
        )
    return path


def asked(cluster: Cluster, history, *options: str) -> list[dict]:
    words = ("--config", str(cluster.config), "--history", str(history), "--once", "--json")
    done = CliRunner().invoke(main, ["top", *words, *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["rows"]


def test_the_job_that_writes_most_comes_first_and_expected_ones_last(cluster, history):
    cluster.configure("observe")
    cluster.publish(1, 2, 3)
    cluster.start_turns()
    agent = cluster.agent()
    cluster.rank(cluster.page(agent, 1), rate=RATE // 10)
    cluster.rank(cluster.page(agent, 2), rate=RATE)
    wait_for(
        lambda: [row["job_id"] for row in asked(cluster, history)] == [2, 1, 3],
        "for both to be seen at their rates",
    )
    rows = asked(cluster, history)
    assert [row["by"] for row in rows] == ["agents", "agents", "expected"]
    assert rows[0]["write"] > rows[1]["write"] > 0
    assert rows[0]["state"].startswith("writes")
    assert rows[0]["name"] == "run_2"
    by_user = asked(cluster, history, "--by", "users")
    assert [row["jobs"] for row in by_user] == [2, 1]
    assert len(asked(cluster, history, "--limit", "1")) == 1


def test_a_job_that_is_held_says_so_and_others_jobs_are_hidden(cluster, history):
    cluster.publish(1, 2)
    cluster.start_turns()
    agent = cluster.agent()
    wide, narrow = cluster.page(agent, 1, nodes=64), cluster.page(agent, 2, nodes=1)
    cluster.rank(wide)
    cluster.rank(narrow)
    wait_for(lambda: narrow.is_held, "for the narrow job to be held")
    states = wait_for(
        lambda: (
            (found := {row["job_id"]: row["state"] for row in asked(cluster, history)})
            and found.get(2, "").startswith("held")
            and found
        ),
        "for the status to say so",
    )
    assert "behind job 1" in states[2]
    from sluice.policies import core  # noqa: PLC0415

    config = core.parse_config("sluice.conf", cluster.config.read_bytes())
    with Store(history, read_only=True) as store:
        for viewer, seen in ((OWNER, {1, 2}), (Viewer(2, sees_all=False), {2})):
            found = top(store, viewer, config, int(time.time()))
            assert {row["job_id"] for row in found["jobs"]} == seen
