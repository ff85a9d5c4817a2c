"""Whatever is wrong, a job runs as it would without Sluice and its output is its own."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from private_slurm import PrivateSlurm
from spank_lab import OTHER_USER, PLUGIN, Lab, needs_root, printed, variables

pytestmark = pytest.mark.slurm

HOLDING = "--licenses=sl0_stream"
# what users run: success and failure, output on both streams, an own environment
COMMANDS: list[Sequence[str]] = [
    ("srun", "-Q", "-N2", "sh", "-c", "echo out; echo err >&2; exit 3"),
    ("srun", "-Q", HOLDING, "sh", "-c", "echo out; echo err >&2; exit 3"),
    ("srun", "-Q", HOLDING, "no-such-program"),
    ("srun", "-Q", "--licenses=undefined", "true"),
    ("srun", "-Q", HOLDING, "cat"),
    ("salloc", HOLDING, "-Q", "srun", "sh", "-c", "exit 4"),
    ("sbatch", "-Q", "--wait", "-o/dev/null", HOLDING, "--wrap=exit 5"),
    ("sbatch", "--no-such-option"),
]
# arguments that leave nothing to work with, or too much
BROKEN = {
    "no arguments": "",
    "unknown arguments": "nonsense lanes=3 backend=tape timeout=never lane=bad =",
    "a base that does not exist": "lane=sl0:/nonexistent/base:4",
    "a base that is a file": "lane=sl0:/etc/passwd:4",
    "a command that does not exist": "backend=lustre command=/nonexistent lane=sl0:{base}:4:pool",
    "a command that fails": "backend=lustre command=/bin/false lane=sl0:{base}:4:pool",
    "a command that hangs": "backend=lustre command={hang} timeout=1 lane=sl0:{base}:4:pool",
    "a command that kills itself": "backend=lustre command={kill} lane=sl0:{base}:4:pool",
    "a command that is noisy and fails": "backend=lustre command={noise} lane=sl0:{base}:4:pool",
    "a command that is no program": "backend=lustre command=/etc/passwd lane=sl0:{base}:4:pool",
}


@pytest.fixture(scope="module")
def scripts(cluster: Lab) -> dict[str, str]:
    """Placement commands that misbehave."""
    bodies = {
        "hang": "sleep 1000 & sleep 1000",
        "kill": "kill -SEGV $$",
        "noise": "echo noise; echo noise >&2; exit 1",
    }
    found = {"base": str(cluster.lanes["sl0"])}
    for name, body in bodies.items():
        path = cluster.place / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        found[name] = str(path)
    return found


def outcome(lab: Lab, command: Sequence[str]) -> tuple[int, list[str], list[str]]:
    """Exit code and both outputs, without the job ids in Slurm's own messages."""
    done = lab.slurm.run(*command, check=False)
    masked = [
        ["".join("#" if c.isdigit() else c for c in line) for line in text.splitlines()]
        for text in (done.stdout, done.stderr)
    ]
    return done.returncode, sorted(masked[0]), sorted(masked[1])


def test_outputs_and_exit_codes_are_those_without_the_plugin(lab: Lab) -> None:
    with_plugin = [outcome(lab, command) for command in COMMANDS]
    lab.write_plugstack("")
    assert with_plugin == [outcome(lab, command) for command in COMMANDS]


def test_scripts_write_nothing_of_ours_into_their_output(lab: Lab) -> None:
    body = "echo out; echo err >&2; srun -N2 sh -c 'echo step'"
    texts = [lab.script("-N2", *options, body=body)[1] for options in ([], [HOLDING])]
    lab.write_plugstack("")
    texts.append(lab.script("-N2", HOLDING, body=body)[1])
    assert texts == ["out\nerr\nstep\nstep\n"] * 3


@pytest.mark.parametrize("case", BROKEN)
def test_jobs_run_and_get_nothing_with(lab: Lab, scripts: dict[str, str], case: str) -> None:
    before = lab.made()
    lab.plugstack(BROKEN[case].format(**scripts))
    _, text = lab.script(HOLDING, body="env; srun env; echo -- done; exit 0")
    assert variables(text) == {}
    assert text.endswith("-- done\n")
    assert "luice:" not in text
    assert "noise" not in text
    done = lab.srun(HOLDING, "env")
    assert variables(done.stdout) == {}
    assert done.stderr == ""
    assert lab.made() == before  # a directory without placement is taken away again


def test_the_log_says_what_was_wrong(lab: Lab, scripts: dict[str, str]) -> None:
    lab.plugstack("nonsense=1", *BROKEN["a command that fails"].format(**scripts).split())
    job, _ = lab.script(HOLDING)
    log = lab.node_log()
    assert "sluice: plugstack.conf: nonsense=1: unknown" in log
    assert f"sluice: job {job} has no directory on lane sl0: the placement command failed" in log
    said = lab.srun("-v", HOLDING, "true").stderr
    assert "srun: sluice: job" in said


def test_a_command_that_hangs_is_ended_with_all_it_started(
    lab: Lab, scripts: dict[str, str]
) -> None:
    lab.plugstack(*BROKEN["a command that hangs"].format(**scripts).split())
    lab.srun(HOLDING, "true")
    lab.script(HOLDING)

    def processes() -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if scripts["hang"].encode() in (entry / "cmdline").read_bytes():
                    found.append(entry.name)
            except OSError:
                continue
        return found

    lab.wait_for(lambda: processes() == [], timeout=5)


@needs_root
def test_a_base_that_its_user_cannot_write_gives_nothing(lab: Lab) -> None:
    base = lab.place / "closed"
    base.mkdir(exist_ok=True, mode=0o755)
    lab.plugstack(f"lane=sl0:{base}:4")
    _, text = lab.script(HOLDING, f"--uid={OTHER_USER}", "--chdir=/", body="env; srun env")
    assert variables(text) == {}
    assert list(base.iterdir()) == []


def test_a_missing_plugin_that_is_optional_lets_jobs_run(lab: Lab) -> None:
    lab.plugstack(plugin="/nonexistent/spank_sluice.so")
    done = lab.srun(HOLDING, "echo", "ran")
    assert done.stdout == "ran\n"
    job, text = lab.script(HOLDING, body="echo ran; srun echo step")
    assert text.startswith("ran\n")
    assert text.endswith("step\n")
    assert lab.slurm.job(job)["JobState"] == "COMPLETED"


def test_a_controller_that_hangs_costs_the_job_its_directory_only(lab: Lab) -> None:
    """The prolog holds the job back until slurmctld is stopped."""
    gate = lab.place / "gate"
    gate.touch()
    prolog = lab.place / "prolog.sh"
    prolog.write_text(f"#!/bin/sh\nwhile test -e {gate}; do sleep 0.05; done\n")
    prolog.chmod(0o755)
    output = lab.output()
    settings = {"Licenses": "sl0_stream:1000000", "Prolog": str(prolog), "MessageTimeout": "3"}
    with PrivateSlurm(lab.place / "hangs", nodes=1, settings=settings) as slurm:
        other = Lab(slurm, lab.place, lab.lanes)
        other.plugstack()
        job = slurm.submit(HOLDING, f"--output={output}", "--wrap=env; echo end")
        slurm.wait_for_job(job, "RUNNING")
        pid = slurm.controller_pid()
        assert pid
        os.kill(pid, signal.SIGSTOP)
        try:
            gate.unlink()
            lab.wait_for(lambda: printed(output).endswith("end\n"))
        finally:
            os.kill(pid, signal.SIGCONT)
        slurm.wait_for_job(job, "COMPLETED")
        assert "sluice: slurmctld does not say what job" in other.node_log()
    assert variables(printed(output)) == {}


def test_no_node_is_drained_by_many_short_jobs(lab: Lab) -> None:
    started = time.time()
    done = lab.slurm.run(
        "sbatch", "--wait", "--array=1-20", HOLDING, "-o/dev/null", "--wrap=srun true", timeout=90
    )
    assert done.returncode == 0
    assert len([path for path in lab.made() if path.lstat().st_ctime >= started - 2]) >= 20


@pytest.mark.usefixtures("built")
def test_the_plugin_exports_only_what_slurm_looks_up() -> None:
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", PLUGIN], check=True, capture_output=True, text=True
    )
    assert sorted(listing.stdout.split()[2::3]) == [
        "plugin_name",
        "plugin_type",
        "plugin_version",
        "slurm_spank_init",
        "slurm_spank_init_post_opt",
        "slurm_spank_job_epilog",
        "slurm_spank_local_user_init",
        "slurm_spank_task_exit",
        "slurm_spank_task_init",
        "slurm_spank_task_post_fork",
        "slurm_spank_user_init",
        "spank_plugin_version",
    ]
