"""The policies in C with engine, storage model and decision core, sanitized and under valgrind."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from core_calls import write_bundle

from sluice.policies import core
from sluice.policies.bundle_writer import BundleApplication

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "sim" / "engine"
FOLDERS = (
    *(ENGINE / name for name in ("scheduler", "storage", "policies")),
    *(ROOT / "policies" / name for name in ("core", "files")),
)
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-g"]
SANITIZERS = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
MIB = 2.0**20
NAMES = ("synchronous", "stream", "quiet")
PROFILES = (
    {"pattern": "ws", "chunk_bytes": MIB / 16, "bytes_per_flush": MIB / 16, "io_share": 0.5},
    {"pattern": "aw", "chunk_bytes": 4 * MIB, "bytes_per_flush": 1024 * MIB, "io_share": 0.5,
     "runtime_seconds": 600.0},
    {"pattern": "none", "io_share": 0.0},
)  # fmt: skip


def build(program: Path, flags: list[str]) -> Path:
    test = Path(__file__).with_name("policies_test.c")
    includes = [f"-I{folder}" for folder in (*FOLDERS, ROOT / "tests" / "core")]
    sources = [test, *(file for folder in FOLDERS for file in sorted(folder.glob("*.c")))]
    subprocess.run(["cc", *FLAGS, *flags, *includes, "-o", program, *sources, "-lm"], check=True)
    return program


def make_bundle(path: Path) -> Path:
    """Of Sluice with cheap waits, which keeps many jobs back, on one undivided file system."""
    config = core.parse_config("sluice.conf", b"MaxDelay=900\nWaitPrice=0\nMinSaving=0\n")
    applications = []
    for i, (name, profile) in enumerate(zip(NAMES, PROFILES, strict=True)):
        submission = core.submission_of({"uid": 1, "name": name, "script": "#!/bin/sh\n"})
        known = {"share": {profile["pattern"]: 1.0}, "confidence": 0.95, "runs": 9, **profile}
        key = core.application_key(submission, "user_name")
        applications.append(
            BundleApplication(key=key, evidence="user_name", id=i + 1, profile=known)
        )
    write_bundle(
        path,
        policy=config.policy,
        interference=core.default_interference(),
        applications=applications,
        text="{}",
        created=0,
    )
    return path


def run(*command: str | Path) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert ", 0 failed" in result.stdout


@pytest.mark.acceptance
def test_policies_keep_their_bounds_under_sanitizers(tmp_path):
    bundle = make_bundle(tmp_path / "bundle")
    run(build(tmp_path / "sanitized", SANITIZERS), bundle, str(os.geteuid()), *NAMES)


@pytest.mark.acceptance
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_valgrind_finds_nothing_in_the_policies(tmp_path):
    bundle = make_bundle(tmp_path / "bundle")
    program = build(tmp_path / "plain", ["-O2"])
    valgrind = ("valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full")
    run(*valgrind, program, bundle, str(os.geteuid()), *NAMES)
