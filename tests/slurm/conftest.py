"""Fixtures with real Slurm daemons."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def lab_directory() -> Iterator[Path]:
    """A directory that every user can enter, as munged and slurmd ask for;
    pytest's own temporary directories cannot be."""
    path = Path(tempfile.mkdtemp(prefix="sluice-lab-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)
