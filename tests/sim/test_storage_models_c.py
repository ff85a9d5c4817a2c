"""Both storage model in C, under sanitizers and valgrind (storage_models_test.c)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STORAGE, CORE = ROOT / "sim" / "engine" / "storage", ROOT / "policies" / "core"
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
SANITIZERS = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def built(folder: Path, flags: list[str]) -> Path:
    program = folder / "storage_models_test"
    core = [
        *CORE.glob("turns*.c"),
        *(CORE / name for name in ("base.c", "placement.c", "profile.c")),
    ]
    storage_models = [path for path in STORAGE.glob("*.c") if path.name != "contended.c"]
    sources = [Path(__file__).with_name("storage_models_test.c"), *storage_models, *core]
    includes = [f"-I{STORAGE}", f"-I{CORE}"]
    command = ["cc", *WARNINGS, "-g", *flags, *includes, "-o", program, *sources, "-lm"]
    subprocess.run(command, check=True)
    return program


def test_the_storage_models_are_clean_under_the_sanitizers(tmp_path):
    """No undefined behaviour, no leak, through every mechanism."""
    subprocess.run([built(tmp_path, SANITIZERS)], check=True)


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_the_storage_models_are_clean_under_valgrind(tmp_path):
    """Nothing is read before it was written."""
    command = ["valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full"]
    subprocess.run([*command, built(tmp_path, ["-O1"])], check=True)
