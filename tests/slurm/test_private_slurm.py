"""The private cluster that demo and tests use."""

import os
from pathlib import Path

import pytest
from other_owner import kill, other_owner
from private_slurm import PrivateSlurm, PrivateSlurmError, without_waiting
from sluiced import wait_for

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


def test_two_clusters_run_side_by_side_and_leave_nothing_of_themselves_or_jobs(
    lab_directory: Path,
) -> None:
    with (
        PrivateSlurm(lab_directory / "a", nodes=1) as first,
        PrivateSlurm(lab_directory / "b", nodes=3) as second,
    ):
        assert first.run("sinfo", "-h", "-o", "%D").stdout.strip() == "1"
        assert second.run("srun", "-N3", "-l", "true").stderr == ""
        job = first.submit("--wrap", "setsid sleep 1000 & sleep 1000")
        first.wait_for_job(job, "RUNNING")
    assert processes_of(lab_directory) == []


def test_a_cluster_ends_with_its_killed_owner_and_so_do_jobs_and_commands(
    lab_directory: Path,
) -> None:
    owner = other_owner(
        "import subprocess, sys; from private_slurm import PrivateSlurm\n"
        "slurm = PrivateSlurm(sys.argv[1], nodes=1); slurm.up()\n"
        "job = slurm.submit('--wrap', 'setsid sleep 1000 & sleep 1000')\n"
        "slurm.wait_for_job(job, 'RUNNING')\n"
        "command, environment = ['srun', '--exclusive', 'true'], slurm.client_environment()\n"
        "subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)",
        lab_directory / "killed",
    )
    kill(owner)
    wait_for(lambda: not processes_of(lab_directory))


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


@pytest.mark.parametrize(
    "added",
    [
        "srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)\n",
        "srun: Job 7 step creation still disabled, retrying (Requested nodes are busy)\n",
        "srun: Job step creation temporarily disabled, retrying (Requested nodes are busy)\n",
        "srun: Step created for job 7\nsrun: Step created for StepId=7.0\n",
        "srun: job 7 queued and waiting for resources\nsrun: job 7 has been allocated resources\n",
        "salloc: Pending job allocation 7\nsalloc: Nodes n[1-2] are ready for job\n",
        "salloc: Job allocation 7 has been revoked.\n",
    ],
)
def test_what_slurm_says_of_a_wait_is_no_part_of_what_was_printed(added: str) -> None:
    said = "srun: error: n1: task 0: Exited with exit code 3\nout\nsrun: Sluice: no page\n"
    assert without_waiting(added + said + added) == said
