"""A short run of the chaos driver; the long ones are `make chaos` and `make acceptance`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).with_name("chaos.py")

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(os.geteuid() != 0, reason="its disks are mounts, so it needs root"),
]


@pytest.mark.parametrize(
    ("seconds", "seed", "jobs", "pace"),
    [
        pytest.param(50, 11, 40, 0.3, id="short"),
        pytest.param(600, 12, 200, 1, marks=pytest.mark.acceptance, id="long"),
        pytest.param(600, 13, 200, 1, marks=pytest.mark.acceptance, id="another"),
    ],
)
def test_nothing_is_lost_stuck_or_altered_and_no_bound_broken(seconds, seed, jobs, pace):
    words = (f"--seconds={seconds}", f"--seed={seed}", f"--jobs={jobs}", f"--pace={pace}")
    done = subprocess.run(
        [sys.executable, DRIVER, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Survived:" in done.stdout
