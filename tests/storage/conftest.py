"""Fixtures with storage targets."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from compile_c import compiled
from storage_lab import LIMITS, Remains, require
from storage_targets import StorageTargets
from target_kinds import LABELS

WRITER = Path(__file__).parents[1] / "lab" / "writer.c"


@pytest.fixture(scope="session")
def writer() -> Path:
    return compiled(WRITER, "-pthread")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user can enter; pytest's own cannot be."""
    path = Path(tempfile.mkdtemp(prefix="sluice-storage-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module", params=LABELS)
def targets(request: pytest.FixtureRequest) -> Iterator[StorageTargets]:
    """Two lanes, of each kind that this machine can have."""
    with tempfile.TemporaryDirectory(prefix="sluice-storage-") as name:
        Path(name).chmod(0o755)
        require(request.param, Path(name))
        with StorageTargets(name, limits=LIMITS, kinds=[request.param]) as targets:
            yield targets


@pytest.fixture
def remains(place: Path) -> Remains:
    return Remains(place)
