"""The probe costs nothing of its own: it writes as fast as fio does the same."""

import json
import statistics
import subprocess
import tempfile
from pathlib import Path

import pytest
from probe_program import probe
from storage_targets import StorageTargets
from target_kinds import Limits

SECONDS = 3
ROUNDS = 5
PROCESSES = 2
MIB = 1 << 20
LIMITS = Limits(size=4096 * MIB)

# The same system calls: synchronous writes of 1 MiB, flushed where the pattern flushes,
# into files that are not laid out beforehand.
FIO = {
    "owc": (
        *("--filesize=1M", "--nrfiles=1000", "--openfiles=1", "--create_on_open=1"),
        *("--file_service_type=sequential", "--fsync=1"),
    ),
    "ws": ("--size=1M", "--fsync=1"),
    "aw": ("--size=900M",),
}


def by_fio(pattern: str, place: Path) -> float:
    """Bytes a second."""
    words = ("fio", "--name=x", f"--directory={place}", "--rw=write", "--bs=1M", "--fallocate=none")
    words += (f"--numjobs={PROCESSES}", f"--runtime={SECONDS}", "--time_based", "--group_reporting")
    words += ("--ioengine=sync", "--thread=0", "--output-format=json")
    done = subprocess.run(
        [*words, *FIO[pattern]], check=True, capture_output=True, text=True, cwd=place
    )
    (job,) = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    for left in place.glob("x.*"):
        left.unlink()
    return float(job["write"]["bw_bytes"])


def by_probe(pattern: str, place: Path, program: Path) -> float:
    words = ("--pattern", pattern, "--processes", str(PROCESSES), "--duration", str(SECONDS))
    total = probe(program, *words, place).total
    return float(total["bytes"] / (total["end"] - total["start"]))


@pytest.mark.acceptance
@pytest.mark.storage
@pytest.mark.parametrize("pattern", FIO)
def test_the_probe_writes_within_5_percent_of_fio(program, pattern, capsys):
    """Interleaved on one target, so that what else goes on hits both."""
    with tempfile.TemporaryDirectory(prefix="sluice-storage-") as name:
        targets = StorageTargets(name, lanes=["a"], limits=LIMITS, kinds=["blkio", "io.max"])
        with targets:
            place = targets.path("a")
            rates: dict[str, list[float]] = {"fio": [], "probe": []}
            for _ in range(ROUNDS):
                targets.settle()
                rates["fio"].append(by_fio(pattern, place))
                targets.settle()
                rates["probe"].append(by_probe(pattern, place, program))
    fio, ours = (statistics.median(rates[name]) for name in ("fio", "probe"))
    with capsys.disabled():
        print(f"\n{pattern}: fio {fio / 1e6:.1f} MB/s, probe {ours / 1e6:.1f}, {ours / fio:.3f}")
    assert abs(ours / fio - 1) <= 0.05
