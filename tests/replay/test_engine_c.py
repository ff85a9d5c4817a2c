"""The engine in C with storage and a policy, sanitized and under valgrind."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "sim" / "engine" / "scheduler"
CORE = ROOT / "policies" / "core"
NAMES = ("availability", "engine", "priority", "queue", "run", "schedule", "workload")
SOURCES = [ENGINE / f"{name}.c" for name in NAMES]
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-g"]
SANITIZERS = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def build(program: Path, flags: list[str]) -> Path:
    test = Path(__file__).with_name("engine_test.c")
    includes = [f"-I{folder}" for folder in (ENGINE, CORE, ROOT / "tests" / "core")]
    sources = [test, *SOURCES, CORE / "base.c"]
    subprocess.run(["cc", *FLAGS, *flags, *includes, "-o", program, *sources, "-lm"], check=True)
    return program


def run(*command: str | Path) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert ", 0 failed" in result.stdout


def test_storage_and_policy_are_obeyed_under_sanitizers(tmp_path):
    run(build(tmp_path / "sanitized", SANITIZERS))


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_valgrind_finds_nothing(tmp_path):
    program = build(tmp_path / "plain", ["-O2"])
    run("valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full", program)
