"""The shim and the real Darshan runtime in one program, in both orders."""

import shutil
import subprocess
from pathlib import Path

import pytest
from darshan_runtime import find_runtime
from log_rows import rows_of
from shim_programs import MPI_COMPILER, built
from turns_page import SHIM, TurnsPage

HERE = Path(__file__).parent
RUNTIME = find_runtime()
MODULES = {"write": "posix", "fwrite": "stdio"}
needs_darshan = pytest.mark.skipif(
    RUNTIME is None, reason="no Darshan runtime: set DARSHAN_RUNTIME to its folder"
)


def run(page: TurnsPage, place: Path, command: list[str | Path], *libraries: Path) -> Path:
    """Run it with these libraries preloaded, in this order; the log that it left."""
    logs = place / "logs"
    logs.mkdir()
    environment = {
        **page.environment(),
        "LD_PRELOAD": ":".join(map(str, libraries)),
        "DARSHAN_LOGPATH": str(logs),
        "DARSHAN_ENABLE_NONMPI": "1",
    }
    job = page.start(*command, env=environment, stdout=subprocess.DEVNULL)
    assert job.wait(timeout=120) == 0
    (log,) = logs.iterdir()
    return log


def written(log: Path, module: str) -> tuple[int, int]:
    """Bytes and calls that Darshan counted, of one module."""
    rows = rows_of(log)
    return int(rows[f"{module}_bytes_written"].sum()), int(rows[f"{module}_writes"].sum())


@needs_darshan
@pytest.mark.parametrize("is_first", [True, False], ids=["shim first", "Darshan first"])
@pytest.mark.parametrize("hold", [0, 0.3])
@pytest.mark.parametrize("kind", MODULES)
def test_both_count_all(page, kinds, tmp_path, is_first, hold, kind):  # noqa: PLR0917 -- fixtures
    size = 100 << 10
    page.hold(hold)
    order = (SHIM, RUNTIME.plain) if is_first else (RUNTIME.plain, SHIM)
    log = run(page, tmp_path, [kinds, kind, tmp_path / "file"], *order)
    assert (tmp_path / "file").read_bytes() == b"b" * size
    assert written(log, MODULES[kind]) == (size, 100)
    assert page.sum("bursts") == 1
    assert (page.sum("holds") > 0) == (hold > 0)
    # in front, Darshan writes its log through the shim
    assert page.sum("bytes") == size if is_first else page.sum("bytes") >= size


@needs_darshan
@pytest.mark.parametrize("is_first", [True, False], ids=["shim first", "Darshan first"])
def test_both_count_what_mpi_io_writes(page, tmp_path, is_first):
    if RUNTIME.mpi is None or not shutil.which(MPI_COMPILER):
        pytest.skip("no Darshan runtime for MPI, or no MPI compiler")
    program = built(HERE / "mpi_writes.c", MPI_COMPILER)
    order = (SHIM, RUNTIME.mpi) if is_first else (RUNTIME.mpi, SHIM)
    log = run(page, tmp_path, [program, tmp_path], *order)
    assert written(log, "posix") == (512 << 10, 8)
    assert page.sum("bytes") >= 512 << 10
