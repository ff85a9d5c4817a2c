"""Build and run `sluice-probe`, and read its report."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compile_c import BUILD, make


def build(name: str = "", *variables: str) -> Path:
    """The probe, built in build/NAME with make's variables; what is up to date stays."""
    return make("classifier/probe", BUILD / name, *variables) / "bin" / "sluice-probe"


@dataclass(frozen=True)
class Report:
    run: dict[str, Any]
    slices: list[dict[str, Any]]
    total: dict[str, Any]


def read_report(text: str) -> Report:
    first, *slices, last = (json.loads(line) for line in text.splitlines())
    assert (first["type"], last["type"]) == ("run", "total")
    assert all(item["type"] == "slice" for item in slices)
    return Report(first, slices, last)


def probe(program: Path, *words: str | Path, prefix: Sequence[str] = ()) -> Report:
    """Run the probe to its end, which must be a good one."""
    done = subprocess.run(
        [*prefix, program, *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return read_report(done.stdout)
