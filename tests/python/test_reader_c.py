"""The reader of Darshan logs in C (tests/reader): sanitized, and under valgrind."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sluice.classifier.darshan_log import library_path

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "policies" / "core"
READER = ROOT / "classifier" / "reader"
LOGS = sorted((ROOT / "tests" / "data" / "darshan").glob("*.darshan"))[::10]


def built(folder: Path, *flags: str) -> Path:
    program = folder / "reader_test"
    includes = [f"-I{folder}" for folder in (CORE, READER, ROOT / "tests" / "core")]
    sources = [ROOT / "tests" / "reader" / "reader_test.c", *READER.glob("*.c"), CORE / "base.c"]
    warnings = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        ["cc", *warnings, *flags, *includes, "-o", program, *sources, "-ldl"], check=True
    )
    return program


def run(*command: str | Path) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert ", 0 failed" in result.stdout


def test_whole_logs_are_read_under_sanitizers(tmp_path):
    flags = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    run(built(tmp_path, *flags), library_path(), *LOGS)


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_valgrind_finds_nothing_in_the_reader(tmp_path):
    program = built(tmp_path, "-O2", "-g")
    run("valgrind", "--quiet", "--error-exitcode=9", program, library_path(), *LOGS[:3])
