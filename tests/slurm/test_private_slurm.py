"""The private cluster that demo and tests use."""

import os
from pathlib import Path

import pytest
from private_slurm import PrivateSlurm, PrivateSlurmError

pytestmark = pytest.mark.slurm


def processes_of(directory: Path) -> list[str]:
    """Command lines of living processes that mention the directory or have its
    slurm.conf in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if str(directory).encode() + b"/" in text:
            found.append(text.decode(errors="replace"))
    return found


def test_two_clusters_run_side_by_side_and_leave_nothing(lab_directory: Path) -> None:
    with (
        PrivateSlurm(lab_directory / "a", nodes=1) as first,
        PrivateSlurm(lab_directory / "b", nodes=3) as second,
    ):
        assert first.run("sinfo", "-h", "-o", "%D").stdout.strip() == "1"
        assert second.run("srun", "-N3", "-l", "true").stderr == ""
        first.submit("--wrap", "sleep 1000 & sleep 1000")
    assert processes_of(lab_directory) == []


def test_a_job_and_its_background_processes_end_with_the_cluster(lab_directory: Path) -> None:
    with PrivateSlurm(lab_directory / "c", nodes=1) as slurm:
        job = slurm.submit("--wrap", "setsid sleep 1000 & sleep 1000")
        slurm.wait_for_job(job, "RUNNING")
    assert processes_of(lab_directory) == []


def test_a_failed_start_shows_the_log_and_leaves_nothing(lab_directory: Path) -> None:
    slurm = PrivateSlurm(lab_directory / "d", settings={"JobSubmitPlugins": "no_such_plugin"})
    with pytest.raises(PrivateSlurmError, match="job_submit/no_such_plugin"):
        slurm.up()
    assert processes_of(lab_directory) == []


def test_a_crashed_controller_comes_back_with_its_jobs(lab_directory: Path) -> None:
    with PrivateSlurm(lab_directory / "e", nodes=1) as slurm:
        job = slurm.submit("--hold", "--wrap", "true")
        slurm.run("scontrol", "update", f"jobid={job}", "comment=kept")
        slurm.restart_controller()  # saves its state
        slurm.kill_controller()
        assert not slurm.controller_alive()
        slurm.start_controller()
        assert slurm.job(job)["Comment"] == "kept"
