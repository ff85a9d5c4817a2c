"""`sluice site calibrate` starts its programs as tasks of real Slurm jobs."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import probe_program
import pytest
from click.testing import CliRunner
from private_slurm import PrivateSlurm

from sluice.cli.main import main
from sluice.history_db.store import Store

TASKS = 2


def words_for(target: Path, history: Path) -> list[str]:
    words = ["site", "calibrate", "run", "--history", str(history), "--target", f"a={target}"]
    words += ["--srun", f"srun -N 1 -n {TASKS} --overcommit", "--tasks", str(TASKS)]
    words += ["--probe", str(probe_program.build()), "--co-run", "ws:4K:2 aw:64K:2:each"]
    return [*words, "--fill", "0.1", "--json"]


@pytest.mark.acceptance
def test_a_calibration_through_srun_measures_and_leaves_nothing(
    plain: PrivateSlurm, lab_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe alone twice, and alongside a signal that is stopped by a signal through srun.

    Whether the rates agree is the disk's business; that all of them were measured is not.
    """
    target, history = lab_directory / "target", tmp_path / "history.db"
    target.mkdir()
    for name, value in plain.client_environment().items():
        monkeypatch.setenv(name, value)
    words = [*words_for(target, history), "--window", "0.4", "--budget", "10m"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output

    answer = json.loads(done.stdout)
    with Store(history, read_only=True) as store:
        coruns = store.interference.coruns([answer["calibration"]])
    assert len(coruns) == answer["measured"] >= 1
    for corun in coruns:
        assert len(corun.alone) == len(corun.together) == 2
        assert min(*corun.alone, *corun.together) > 0
    assert list(target.iterdir()) == []

    jobs = plain.run("scontrol", "-o", "show", "jobs").stdout.splitlines()
    probes = [line for line in jobs if "JobName=sluice-probe" in line]
    assert len(probes) >= 4 * len(coruns)  # more, where somebody was not ready in time
    assert all(re.search(rf"\bNumTasks={TASKS}\b", line) for line in probes)
    completed = [line for line in probes if "JobState=COMPLETED" in line]
    assert len(completed) >= 4 * len(coruns)


@pytest.mark.acceptance
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_its_steps_end_with_a_calibration_that_is_stopped(
    plain: PrivateSlurm, lab_directory: Path, tmp_path: Path, number: int
) -> None:
    """While two programs are there: the signal would write for a minute more."""
    target, history = lab_directory / f"target-{number}", tmp_path / "history.db"
    target.mkdir()
    words = [*words_for(target, history), "--window", "200", "--budget", "1h", "--seed", "1"]
    process = subprocess.Popen(
        [Path(sys.executable).with_name("sluice"), *words],
        env=os.environ | plain.client_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: len(list(target.glob("*/*.*"))) == 2 * TASKS)
    process.send_signal(number)
    process.wait(timeout=60)
    wait_for(lambda: not list(target.iterdir()))
    wait_for(lambda: not plain.run("squeue", "-h").stdout)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
