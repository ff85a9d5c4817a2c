"""`make demo` shows what it claims, on one screen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[1] / "lab" / "demo.py"
ACTS = 5
MOST_LINES = 59  # the Makefile adds one, on the build

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.storage,
    pytest.mark.acceptance,
    pytest.mark.skipif(os.geteuid() != 0, reason="throttled targets and turns need root"),
]


def test_each_act_of_the_demo_shows_what_it_claims(tmp_path: Path) -> None:
    words = [sys.executable, DEMO, "--pictures", tmp_path]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    summary = lines[lines.index("Summary") + 2 :][:ACTS]
    assert [line.split()[0] for line in summary] == [f"{n}" for n in range(1, ACTS + 1)]
    assert all(" ok" in line for line in summary)
    assert len(lines) <= MOST_LINES
    assert {path.name for path in tmp_path.iterdir()} == {"turns.png", "targets.png"}
