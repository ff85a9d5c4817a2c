"""The core's own tests in C (tests/core): sanitized, under valgrind, and without malloc."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from core_cases import (
    FLUSHING,
    NOW,
    STREAMING,
    application,
    bundle_bytes,
    corunner,
)

from sluice.policies.snapshot import pack_snapshot

ROOT = Path(__file__).resolve().parents[2]
CORE = (ROOT / "policies" / "core", ROOT / "policies" / "files")
INCLUDES = [f"-I{folder}" for folder in CORE]
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

NEEDED = {
    *("calloc", "free", "madvise", "malloc", "posix_memalign", "qsort"),
    *("memchr", "memcmp", "memcpy", "memmove", "memset", "snprintf", "vsnprintf"),
    *("strchr", "strcmp", "strcspn", "strlen", "strnlen", "strspn"),
    *("erfc", "exp", "exp2", "fmax", "fmin", "fmod", "ilogb", "ldexp"),
    *("log", "log1p", "log2", "lround", "pow", "sqrt"),
}
"""Of the C library, by the core: memory, text and numbers."""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Compile a test of tests/core; the core itself once for each set of flags."""

    @cache
    def core(*flags: str) -> list[Path]:
        folder = tmp_path_factory.mktemp("core")
        sources = sorted(path for folder in CORE for path in folder.glob("*.c"))
        command = ["cc", *WARNINGS, *flags, *INCLUDES, "-c", *sources]
        subprocess.run(command, check=True, cwd=folder)
        return sorted(folder.glob("*.o"))

    @cache
    def build(name: str, *flags: str) -> Path:
        program = tmp_path_factory.mktemp(name) / name
        sources = [ROOT / "tests" / "core" / f"{name}.c", *core(*flags)]
        command = ["cc", *WARNINGS, *flags, *INCLUDES, "-o", program, *sources, "-lm"]
        subprocess.run(command, check=True)
        return program

    return build


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[Path]:
    """A small bundle and a small snapshot with everything in them."""
    folder = tmp_path_factory.mktemp("files")
    bundle = bundle_bytes(
        application({**FLUSHING, "io_share": 0.9}),
        conf="Lane=a Targets=2\nLane=b Targets=2",
    )
    snapshot = pack_snapshot(
        state={"taken": NOW},
        corunners=[corunner(i, STREAMING, lane_mask=1) for i in range(1, 4)],
        partitions=[{"name": "batch", "flags": ["default"]}],
        users=[{"uid": 1, "account": "physics"}],
    )
    paths = [folder / "bundle", folder / "snapshot"]
    for path, content in zip(paths, (bundle, snapshot), strict=True):
        path.write_bytes(content)
        path.chmod(0o644)
    return paths


def run(*command: str | Path) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_texts_are_bounded_under_sanitizers(built):
    assert ", 0 failed" in run(built("text_test", *SANITIZERS))


@pytest.mark.parametrize("name", ["interference_test", "profile_test", "turns_test"])
def test_loads_profiles_and_turns_are_what_their_headers_say_under_sanitizers(built, name):
    assert ", 0 failed" in run(built(name, *SANITIZERS))


@pytest.mark.parametrize("stride", ["11", pytest.param("1", marks=pytest.mark.acceptance)])
def test_no_damaged_file_gets_past_the_sanitizers(built, files, stride):
    assert ", 0 failed" in run(built("damage_test", *SANITIZERS), *files, stride)


def test_decisions_are_a_function_of_their_inputs_under_sanitizers(built, files):
    assert ", 0 failed" in run(built("decide_test", *SANITIZERS), *files)


def test_the_control_loop_takes_any_queue_under_sanitizers(built, files):
    assert ", 0 failed" in run(built("control_test", *SANITIZERS), *files)


def test_nothing_is_allocated_for_a_decision(built, files):
    assert ", 0 failed" in run(built("allocation_test", "-O2", "-fno-builtin"), *files)


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.parametrize("name", ["text_test", "decide_test"])
def test_valgrind_finds_nothing(built, files, name):
    program = built(name, "-O2", "-g")
    arguments = files if name == "decide_test" else []
    run("valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full", program, *arguments)


def test_the_core_does_no_io(tmp_path):
    """It takes bytes and returns objects; policies/files reads."""
    folder = CORE[0]
    command = ["cc", *WARNINGS, "-O1", *INCLUDES, "-c", *sorted(folder.glob("*.c"))]
    subprocess.run(command, check=True, cwd=tmp_path)
    objects = sorted(tmp_path.glob("*.o"))
    command = ["nm", "--format=just-symbols", "--undefined-only", *objects]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    foreign = {name for name in listed if not name.endswith(":")}
    foreign -= {name for name in foreign if name.startswith(("sluice_", "turns_"))}
    assert foreign <= NEEDED
