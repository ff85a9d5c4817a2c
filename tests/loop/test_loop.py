"""Nobody's hand on it: real programs with co-runners, what Sluice learns, and what is so."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from darshan_runtime import find_runtime
from loop import how_logs_come, run

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.storage,
    pytest.mark.acceptance,  # it takes the better part of an hour
    pytest.mark.skipif(os.geteuid() != 0, reason="users, throttles and slurmdbd need root"),
]
SECONDS = float(os.environ.get("SECONDS_OF_LOOP", "2400"))


@pytest.fixture
def place() -> Iterator[Path]:
    """Where every user can enter; pytest's own directories cannot be."""
    directory = Path(tempfile.mkdtemp(prefix="sluice-loop-"))
    directory.chmod(0o755)
    yield directory / "loop"
    shutil.rmtree(directory, ignore_errors=True)


def test_what_is_learned_of_programs_with_co_runners_is_so(place, capsys):
    runtime = find_runtime()
    with capsys.disabled():
        print(f"\n{how_logs_come(runtime)}")
        findings = run(place, runtime, seconds=SECONDS)
        print(*findings, sep="\n")
    assert [str(finding) for finding in findings if not finding.holds] == []


def test_the_loop_runs_on_synthesised_logs_where_there_is_no_darshan(place):
    """Which of the things that must hold do hold, the real logs say."""
    findings = {finding.name: finding for finding in run(place, None, seconds=0)}
    assert findings["of those, pattern right"].holds
    assert findings["bytes within a factor of two"].holds
