"""The fuzzers build, and their committed seeds pass under the sanitizers."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.mark.skipif(not shutil.which("clang"), reason="libFuzzer needs clang; `make deps`")
def test_every_seed_is_refused_with_a_reason_or_can_be_decided_with(tmp_path):
    """As `make fuzz` begins, without going on to look for more."""
    done = subprocess.run(
        ["make", "--jobs=2", "-C", HERE, "check", f"OUT={tmp_path}"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ERROR" not in done.stderr
