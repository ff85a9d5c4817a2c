"""How the driver ends what Slurm itself has lost, and what it prints of what does not end."""

import shutil
import tempfile
import time
from pathlib import Path

import ending
import evidence
import pytest
from ending import Ending, Lost, parse_left
from lab import ChaosError
from private_slurm import PrivateSlurm

pytestmark = pytest.mark.slurm

WAITS_FOR_FILE = "#!/bin/sh\nwhile ! test -e {}; do sleep 0.1; done\n"


@pytest.fixture(scope="module")
def slurm():
    directory = Path(tempfile.mkdtemp(prefix="sluice-lab-"))
    directory.chmod(0o755)
    with PrivateSlurm(directory, settings={"MinJobAge": "300"}) as cluster:
        yield cluster
    shutil.rmtree(directory, ignore_errors=True)


def wait_until(happened):
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_task_that_slurmctld_recovers_though_it_has_ended_is_ended_and_told(slurm, monkeypatch):
    monkeypatch.setattr(ending, "LAUNCHED", 2.0)
    go = slurm.directory / "go"
    script = slurm.directory / "job.sh"
    script.write_text(WAITS_FOR_FILE.format(go))
    array = slurm.submit("--array=2,3%1", script)
    first = f"{array}_2"
    record = slurm.wait_for_job(first, "RUNNING")
    saved = slurm.directory / "state" / "job_state"
    slurm.run("scontrol", "update", f"jobid={first}", "comment=to be saved")
    wait_until(lambda: saved.exists() and b"to be saved" in saved.read_bytes())
    kept = saved.read_bytes()
    go.touch()
    slurm.wait_for_job(first, "COMPLETED")
    slurm.kill_controller()
    for path in saved.parent.glob("job_state*"):
        path.write_bytes(kept)
    slurm.start_controller()
    assert slurm.job(first)["JobState"] == "RUNNING"

    lost = Lost(slurm)
    end = Ending(slurm, lost, jobs=2)
    wait_until(lambda: not end.step())

    assert list(lost.found) == [first]
    assert f"it began at {record['StartTime']}, slurmctld started at" in lost.found[first]
    shown = evidence.of_jobs(slurm, f"job {record['JobId']} does not end")
    assert f"slurmctld: [{record['StartTime']}" in shown
    assert f"[{record['JobId']}.batch] done with job" in shown


def test_a_job_that_waits_for_ever_is_a_fault_that_names_it(slurm, monkeypatch):
    monkeypatch.setattr(ending, "STALLED", 1.0)
    slurm.run("scontrol", "update", "partitionname=main", "state=down")
    job_id = slurm.submit("--wrap=true")
    end = Ending(slurm, Lost(slurm), jobs=1)
    with pytest.raises(ChaosError, match=rf"1 jobs do not end: job {job_id} \({job_id}\) PENDING"):
        wait_until(lambda: not end.step())
    assert "Reason=PartitionDown" in evidence.of_jobs(slurm, f"job {job_id} waits")
    slurm.run("scancel", str(job_id))
    slurm.run("scontrol", "update", "partitionname=main", "state=up")


def test_a_component_is_helped_by_its_leader_and_waiting_tasks_by_their_array():
    assert parse_left("30+1|31|RUNNING|None|2026-11-23T03:07:37|n2").name == "30"
    assert parse_left("30+1|31|RUNNING|None|2026-11-23T03:07:37|n2").job_id == 30
    assert parse_left("23_[4-5%2]|23|PENDING|None|N/A|").name == "23"
    assert parse_left("23_2|49|RUNNING|None|2026-11-23T03:07:37|n2").job_id == 49
