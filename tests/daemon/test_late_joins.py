"""Records that sluiced could not join: the accounting's submit lines tell whose they are."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sluice.cli.main import main
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.record import decide
from sluice.prediction.submission_features import Submissions
from sluice.slurm.record_receiver import decision_of

NOW = 1_700_000_000  # long ago: sluiced has given up
HEADING = "JobIDRaw|JobID|Cluster|JobName|UID|Partition|Submit|Start|NNodes|SubmitLine|TimelimitRaw"


class Site:
    """A history with records, and an accounting."""

    def __init__(self, place: Path) -> None:
        self.history, self.sacct = place / "history.db", place / "sacct.txt"
        self.rows = [HEADING]
        self.numbers = 0

    def record(self, line: str, *, now: int = NOW, job_id: int | None = None, **asked) -> None:
        """Decide on a submission as the plugin does; with a job id, sluiced has joined it."""
        request = {"uid": 1000, "name": "sweep", "submit_line": line, **asked}
        submission = core.submission_of(request)
        self.numbers += 1
        record = decide(
            None,
            core.default_config(),
            submission,
            now,
            boot=1,
            number=self.numbers,
            cluster="lab",
        )
        with Store(self.history, create=True) as store:
            store.decisions.insert_decisions([decision_of(record)])
            by = "tie" if job_id is None else "mark"
            store.decisions.join_decisions([(1, self.numbers, job_id, by)])

    def job(self, job_id: int, line: str, *, cluster: str = "lab", shown: str = "") -> None:
        """Account for a job; shown: as users see its number, where it is a task's."""
        name = shown or str(job_id)
        row = (job_id, name, cluster, "sweep", 1000, "main", NOW, NOW + 9, 4, line, 60)
        self.rows.append("|".join(map(str, row)))

    def ingest(self) -> int:
        """Read the accounting; return how many records have found their job."""
        self.sacct.write_text("\n".join(self.rows))
        words = ["--history", str(self.history), "--sacct", str(self.sacct), "--json"]
        result = CliRunner().invoke(main, ["history", "ingest", *words])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)["jobs"]["joined_decisions"]

    def jobs(self) -> dict[int, int | None]:
        """Map the records' numbers to their jobs."""
        with Store(self.history) as store:
            found = store.decisions.decisions_of_user(1000, since=0, until=1 << 40)
        return {decision.number: decision.job_id for decision in found}


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def test_a_sweep_of_one_name_within_a_second_is_told_apart_by_its_lines(site):
    site.record("sbatch -n 8 run.sh a", tasks=8, script="#!/bin/sh\nsrun a\n")
    site.record("sbatch --wrap=set -e\nb | c", script="#!/bin/sh\nset -e\nb | c\n")
    site.job(11, "sbatch -n 8 run.sh a")
    site.job(12, "sbatch --wrap=set -e\nb | c")
    assert site.ingest() == 2
    assert site.jobs() == {1: 11, 2: 12}
    assert site.ingest() == 0
    with Store(site.history) as store:
        job = store.jobs.job(11)
        submission = Submissions(store.decisions.joined_decisions(9)).of(job)
    assert submission.tasks == 8  # what was asked for, not what was given
    assert job.script_signature == submission.script_signature != 0


def test_an_array_is_told_by_the_line_of_its_tasks(site):
    site.record("sbatch -n 8 -a 1-2 run.sh", tasks=8, array="1-2", script="#!/bin/sh\nsrun a\n")
    site.record("sbatch -a 7 other.sh", array="7")
    site.record("sbatch one.sh")
    site.job(12, "sbatch -n 8 -a 1-2 run.sh", shown="11_1")
    site.job(11, "sbatch -n 8 -a 1-2 run.sh", shown="11_2")
    site.job(13, "sbatch -a 7 other.sh", shown="13_[7]")
    site.job(14, "sbatch one.sh")
    assert site.ingest() == 3
    assert site.jobs() == {1: 11, 2: 13, 3: 14}
    assert site.ingest() == 0
    with Store(site.history) as store:
        tasks = [store.jobs.job(job_id) for job_id in (11, 12)]
        submissions = Submissions(store.decisions.joined_decisions(9))
    assert [submissions.of(task).tasks for task in tasks] == [8, 8]
    assert len({task.script_signature for task in tasks}) == 1


def test_two_arrays_of_one_line_stay_a_tie(site):
    for array in (11, 21):
        site.record("sbatch -a 1-2 run.sh", array="1-2")
        site.job(array + 1, "sbatch -a 1-2 run.sh", shown=f"{array}_1")
        site.job(array, "sbatch -a 1-2 run.sh", shown=f"{array}_2")
    assert site.ingest() == 0
    assert set(site.jobs().values()) == {None}


def test_equal_lines_stay_a_tie(site):
    for job_id in (11, 12):
        site.record("sbatch run.sh")
        site.job(job_id, "sbatch run.sh")
    assert site.ingest() == 0
    assert site.jobs() == {1: None, 2: None}


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"uid": 1001}, id="of another user"),
        pytest.param({"name": "other"}, id="of another name"),
        pytest.param({"line": "sbatch run.sh b"}, id="of another line"),
        pytest.param({"now": NOW - 2}, id="of another second"),
        pytest.param({"array": "1-3"}, id="of an array"),
        pytest.param({"nodes": 5}, id="that asked for more nodes"),
    ],
)
def test_a_record_of_something_else_stays_without_a_job(site, asked):
    site.record(**{"line": "sbatch run.sh", **asked})
    site.job(11, "sbatch run.sh")
    assert site.ingest() == 0


def test_a_job_with_a_record_never_takes_that_of_a_rejected_submission(site):
    site.record("sbatch run.sh", job_id=11)
    site.record("sbatch run.sh")
    site.job(11, "sbatch run.sh")
    assert site.ingest() == 0
    assert site.jobs() == {1: 11, 2: None}


def test_jobs_of_another_cluster_or_without_a_line_are_never_joined(site):
    site.record("sbatch run.sh")
    site.job(11, "sbatch run.sh", cluster="other")
    site.job(12, "")
    assert site.ingest() == 0


def test_what_sluiced_may_still_join_is_left_to_it(site, monkeypatch):
    monkeypatch.setattr("time.time", lambda: NOW + 60.0)
    site.record("sbatch run.sh")
    site.job(11, "sbatch run.sh")
    assert site.ingest() == 0
    monkeypatch.setattr("time.time", lambda: NOW + 700.0)
    assert site.ingest() == 1
