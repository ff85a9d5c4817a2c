"""The reader of Darshan logs in C (reader_test.c): sanitized, and under valgrind."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from stored_logs import LACKING, packed, record, write_log

from sluice.darshan.log import library_paths

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "policies" / "core"
READER = ROOT / "classifier" / "reader"
LOGS = sorted((ROOT / "tests" / "data" / "darshan").glob("*.darshan"))[::10]
SHARED = Path(os.environ.get("SLUICE_SHARED", ROOT.parent / "shared"))
OLD_LOGS = sorted((SHARED / "data" / "darshan" / "real").glob("mpi-io-test-*"))


def built(folder: Path, *flags: str) -> Path:
    program = folder / "reader_test"
    includes = [f"-I{folder}" for folder in (CORE, READER, ROOT / "tests" / "core")]
    sources = [Path(__file__).with_name("reader_test.c"), *READER.glob("*.c"), CORE / "base.c"]
    warnings = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        ["cc", *warnings, *flags, *includes, "-o", program, *sources, "-lm", "-ldl", "-ldeflate"],
        check=True,
    )
    return program


def logs_of_every_form(folder: Path) -> list[Path]:
    """Logs with two streams of records of each version, in either byte order."""
    paths = []
    for module, version in LACKING:
        for order, name in (("<", "little"), (">", "big")):
            several = [
                record(
                    module,
                    version,
                    {"OPENS": 3, "F_WRITE_TIME": 0.5},
                    file=9,
                    rank=rank,
                    order=order,
                )
                for rank in range(2)
            ]
            path = folder / f"{module}{version}-{name}.darshan"
            regions = {module: (version, packed(several))}
            paths.append(write_log(path, regions, nprocs=2, order=order))
    return paths


def run(*command: str | Path) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert ", 0 failed" in result.stdout


def test_whole_logs_are_read_under_sanitizers_as_the_library_reads_them(tmp_path):
    flags = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    made = logs_of_every_form(tmp_path)
    run(built(tmp_path, *flags), library_paths()[0], *LOGS, *OLD_LOGS, *made)


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_valgrind_finds_nothing_in_the_reader(tmp_path):
    program = built(tmp_path, "-O2", "-g")
    run("valgrind", "--quiet", "--error-exitcode=9", program, library_paths()[0], *LOGS[:3])
