"""What scripts and tasks get, for each way of starting a job."""

import os
import stat
import time
from pathlib import Path

import pytest
from spank_lab import Lab, printed, variables

pytestmark = pytest.mark.slurm

HOLDING = "--licenses=sl0_stream"


def check_grant(lab: Lab, values: dict[str, str], lane: str, targets: int) -> Path:
    """All variables belong together and the directory is a fresh private one."""
    assert values["SLUICE_LANE"] == lane
    assert values["SLUICE_TARGETS"] == str(targets)
    directory = Path(values["SLUICE_DIR"])
    assert directory.parent == lab.lanes[lane]
    assert directory.name.startswith(f"job-{values['SLUICE_JOB_ID']}.")
    assert stat.S_IMODE(directory.lstat().st_mode) == 0o700
    assert directory.is_dir()
    assert not directory.is_symlink()
    return directory


def test_a_batch_script_and_its_steps_share_one_directory(lab: Lab) -> None:
    job, text = lab.script("-N2", HOLDING, body="env; srun -N2 env")
    values = variables(text)
    assert values["SLUICE_JOB_ID"] == str(job)
    check_grant(lab, values, "sl0", 4)
    # once for the script and once for each task, all equal
    assert text.count(f"SLUICE_DIR={values['SLUICE_DIR']}\n") == 3
    assert text.count("SLUICE_DIR=") == 3
    assert text.count("SLUICE_LANE=sl0\n") == 3


def test_srun_by_itself_makes_the_directory_before_any_task_starts(lab: Lab) -> None:
    done = lab.srun("-N2", "--licenses=sl1_flush:1,matlab:2", "sh", "-c", "env; ls -d $SLUICE_DIR")
    values = variables(done.stdout)
    check_grant(lab, values, "sl1", 2)
    assert done.stdout.count(f"SLUICE_DIR={values['SLUICE_DIR']}\n") == 2
    assert done.stdout.splitlines().count(values["SLUICE_DIR"]) == 2  # both tasks saw it


def test_every_srun_inside_salloc_gets_the_same_directory(lab: Lab) -> None:
    done = lab.slurm.run(
        "salloc", "--quiet", HOLDING, "sh", "-c", "env; echo ---; srun env; echo ---; srun env"
    )
    shell, first, second = done.stdout.split("---\n")
    assert variables(shell) == {}  # no hook runs between allocation and shell
    assert variables(first) == variables(second)
    check_grant(lab, variables(first), "sl0", 4)


def test_an_srun_that_joins_by_the_jobs_id_finds_its_directory(lab: Lab) -> None:
    """Of a batch script, or of an earlier srun, without what these inherited."""
    output = lab.output()
    job = lab.slurm.submit(
        HOLDING, f"--output={output}", "--wrap=printenv SLUICE_DIR; while sleep 0.1; do :; done"
    )
    lab.wait_for(lambda: printed(output) != "")
    joined = lab.srun(f"--jobid={job}", "--overlap", "printenv", "SLUICE_DIR").stdout
    lab.slurm.run("scancel", str(job))
    assert joined == printed(output).splitlines(keepends=True)[0]
    name = f"alone-{job}"
    lab.slurm.run("salloc", "-Q", "--no-shell", f"--job-name={name}", HOLDING)
    held = lab.slurm.run("squeue", "-h", f"--name={name}", "-o%i").stdout.strip()
    found = {
        lab.srun(f"--jobid={held}", "--overlap", "printenv", "SLUICE_DIR").stdout for _ in range(2)
    }
    lab.slurm.run("scancel", held)
    assert len(found) == 1
    assert Path(found.pop().strip()).is_dir()


def test_each_task_of_an_array_has_a_directory_of_its_own(lab: Lab) -> None:
    output = lab.output()
    lab.slurm.run(
        "sbatch",
        "--wait",
        "--array=1-3",
        HOLDING,
        "--open-mode=append",
        f"-o{output}",
        "--wrap=env",
    )
    lines = printed(output).splitlines()
    directories = {line for line in lines if line.startswith("SLUICE_DIR=")}
    assert len(directories) == 3
    assert all(Path(line.split("=")[1]).is_dir() for line in directories)


def test_all_components_of_a_heterogeneous_job_use_the_leaders_directory(lab: Lab) -> None:
    script = lab.place / "het.sh"
    script.write_text(
        "#!/bin/sh\n"
        "#SBATCH -n1 --licenses=sl0_stream\n"
        "#SBATCH hetjob\n"
        "#SBATCH -n1\n"
        "env; echo ---; srun --het-group=0,1 env; echo ---; srun --het-group=1 env\n"
    )
    output = lab.output()
    lab.slurm.run("sbatch", "--wait", f"--output={output}", script, timeout=90)
    batch, both, second = printed(output).split("---\n")
    values = variables(batch)
    check_grant(lab, values, "sl0", 4)
    assert both.count(f"SLUICE_DIR={values['SLUICE_DIR']}\n") == 2
    assert variables(second) == values


def test_a_heterogeneous_srun_or_salloc_gets_nothing(lab: Lab) -> None:
    """srun could serve one of its components only, and not always the same."""
    before = lab.made()
    done = lab.slurm.run("srun", "-n1", HOLDING, "env", ":", "-n1", "env", timeout=90)
    assert variables(done.stdout) == {}
    inside = ("salloc", "-Q", "-n1", HOLDING, ":", "-n1", "srun", "--het-group=0,1", "env")
    assert variables(lab.slurm.run(*inside, timeout=90).stdout) == {}
    assert lab.made() == before


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "it holds no licence"),
        (["--licenses=matlab:2"], "the licence is no token"),
        (["--licenses=sl0_stream,sl1_stream"], "its output is not confined to one lane"),
        ([HOLDING, "--no-sluice"], "the user opted out"),
    ],
)
def test_nothing_is_set_and_nothing_made_when(lab: Lab, options: list[str], why: str) -> None:
    before = lab.made()
    _, script = lab.script(*options, body="env; srun env")
    assert variables(script) == {}, why
    assert variables(lab.srun(*options, "env").stdout) == {}, why
    assert lab.made() == before, why


def test_tokens_of_several_classes_of_one_lane_are_one_lane(lab: Lab) -> None:
    done = lab.srun("--licenses=sl1_stream,sl1_meta:2", "env")
    check_grant(lab, variables(done.stdout), "sl1", 2)


def test_the_lane_is_the_one_held_at_the_start_and_not_at_submission(lab: Lab) -> None:
    output = lab.output()
    job = lab.slurm.submit("--hold", HOLDING, f"--output={output}", "--wrap=env")
    lab.slurm.run("scontrol", "update", f"jobid={job}", "licenses=sl1_flush")
    lab.slurm.run("scontrol", "release", str(job))
    lab.slurm.wait_for_job(job, "COMPLETED")
    check_grant(lab, variables(printed(output)), "sl1", 2)


def test_a_job_that_lost_its_token_while_it_waited_gets_nothing(lab: Lab) -> None:
    output = lab.output()
    job = lab.slurm.submit("--hold", HOLDING, f"--output={output}", "--wrap=env")
    lab.slurm.run("scontrol", "update", f"jobid={job}", "licenses=")
    lab.slurm.run("scontrol", "release", str(job))
    lab.slurm.wait_for_job(job, "COMPLETED")
    assert variables(printed(output)) == {}


def test_a_restarted_job_gets_a_new_directory_and_keeps_the_old_one(lab: Lab) -> None:
    output = lab.output()
    body = 'echo $SLUICE_DIR; echo x > "$SLUICE_DIR/data"; test $SLURM_RESTART_COUNT || sleep 60'
    job = lab.slurm.submit(
        "--requeue", HOLDING, f"-o{output}", "--open-mode=append", "--wrap", body
    )
    lab.slurm.wait_for_job(job, "RUNNING")
    lab.wait_for(lambda: len(printed(output).splitlines()) == 1)
    lab.slurm.run("scontrol", "requeue", str(job))
    lab.slurm.wait_for_job(job, "PENDING")
    # slurmd refuses a credential made in the second in which it revoked the first
    time.sleep(2)
    lab.slurm.run("scontrol", "update", f"jobid={job}", "starttime=now")
    lab.slurm.wait_for_job(job, "COMPLETED")
    first, second = [line for line in printed(output).splitlines() if line.startswith("/")]
    assert first != second
    assert (Path(first) / "data").exists()
    assert (Path(second) / "data").exists()


def test_an_io_dir_is_made_where_the_user_names_it(lab: Lab) -> None:
    wanted = lab.lanes["sl0"] / "mine-%j"
    job, text = lab.script(HOLDING, f"--io-dir={wanted}/", body="env; echo ---; srun env")
    script, step = text.split("---\n")
    directory = Path(variables(script)["SLUICE_DIR"])
    assert directory == lab.lanes["sl0"] / f"mine-{job}"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert variables(step) == variables(script)


def test_an_io_dir_off_the_lanes_file_system_is_not_made(lab: Lab) -> None:
    elsewhere = Path("/dev/shm")  # noqa: S108 -- a second file system that every Linux has
    if elsewhere.stat().st_dev == lab.lanes["sl0"].stat().st_dev:
        pytest.skip("no second file system")
    wanted = elsewhere / f"sluice-test-{os.getpid()}"
    done = lab.srun(HOLDING, f"--io-dir={wanted}", "env")
    assert variables(done.stdout) == {}
    assert not wanted.exists()


def test_no_token_makes_no_io_dir(lab: Lab) -> None:
    wanted = lab.lanes["sl0"] / "unwanted"
    assert variables(lab.srun(f"--io-dir={wanted}", "env").stdout) == {}
    assert not wanted.exists()


def test_steps_that_want_no_environment_get_no_variables(lab: Lab) -> None:
    _, text = lab.script(HOLDING, "--export=NONE", body="/usr/bin/env; echo ---; srun /usr/bin/env")
    script, step = text.split("---\n")
    check_grant(lab, variables(script), "sl0", 4)
    assert variables(step) == {}  # SLURM_EXPORT_ENV=NONE


def test_a_job_inside_a_job_does_not_use_the_outer_ones_directory(lab: Lab) -> None:
    """Its environment names the outer directory, but it holds no token."""
    inner = lab.output()
    _, text = lab.script(HOLDING, body=f"env; sbatch --wait -o {inner} --wrap 'env; srun env'")
    assert "SLUICE_DIR" in variables(text)
    assert variables(inner.read_text()) == {}
