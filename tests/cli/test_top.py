"""`sluice top` where servers count by job, and where nothing reports."""

import itertools
import json
import threading

import pytest
from click.testing import CliRunner
from history_rows import a_job

from sluice.cli.main import main
from sluice.history_db.store import Store

JOB_STATS = """\
obdfilter.fs-OST0000.job_stats=
job_stats:
- job_id:          41
  snapshot_time:   {step}
  read_bytes:      {{ samples: 1, unit: bytes, min: 1, max: 1, sum: {small} }}
  write_bytes:     {{ samples: 1, unit: bytes, min: 1, max: 1, sum: 0 }}
- job_id:          42
  snapshot_time:   {step}
  read_bytes:      {{ samples: 1, unit: bytes, min: 1, max: 1, sum: {large} }}
  write_bytes:     {{ samples: 1, unit: bytes, min: 1, max: 1, sum: {small} }}
  open:            {{ samples: {step}, unit: reqs }}
- job_id:          43
  snapshot_time:   {step}
  read_bytes:      {{ samples: 1, unit: bytes, min: 1, max: 1, sum: 5000 }}
"""


@pytest.fixture
def site(tmp_path):
    conf, history = tmp_path / "sluice.conf", tmp_path / "history.db"
    conf.write_text(f"Mode=observe\nSnapshot={tmp_path}/snapshot\nBundle={tmp_path}/none\n")
    with Store(history, create=True) as store:
        store.jobs.upsert_jobs([a_job(job_id=41, uid=0, name="reader", end=None)])
    return tmp_path, ("--config", str(conf), "--history", str(history))


def run(*words: str) -> str:
    done = CliRunner().invoke(main, ["top", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_servers_say_what_jobs_read_and_what_no_agent_sees(site):
    folder, files = site
    stats = folder / "job_stats"
    ends, written = threading.Event(), threading.Event()

    def count() -> None:
        for step in itertools.count(1):
            text = JOB_STATS.format(step=step, small=step * 1000, large=step * 50_000)
            draft = folder / "draft"
            draft.write_text(text)
            draft.replace(stats)
            written.set()
            if ends.wait(0.02):
                return

    server = threading.Thread(target=count)
    server.start()
    try:
        written.wait()
        words = ("--job-stats", str(stats), "--once", "--json", *files)
        rows = json.loads(run(*words))["rows"]
        by_program = json.loads(run(*words, "--by", "programs"))["rows"]
    finally:
        ends.set()
        server.join()
    assert [row["job_id"] for row in rows] == [42, 41]  # nothing moves for 43
    assert rows[0]["read"] > rows[0]["write"] > 0
    assert rows[0]["operations"] > 0
    assert (rows[1]["name"], rows[1]["by"]) == ("reader", "servers")
    assert [row["program"] for row in by_program] == [None, "reader"]


def test_without_agents_it_says_that_nothing_is_counted(site):
    assert "No agent reports" in run("--once", *site[1])
