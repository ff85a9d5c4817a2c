"""Two programs that write real files, and what they do to the targets they write to.

`VICTIM` creates files, flushes each and computes in between; `STREAM` appends in one
stream, as a checkpoint does. `learn` runs each alone and both together, and makes of it
what a site gets from its Darshan logs and from a calibration: the programs' profiles and
the coefficients of the interference model. The published coefficients are Lustre's; on
throttled targets of one host a stream takes more from a flushing writer.
"""

import json
import math
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compile_c import compiled
from storage_targets import StorageTargets
from target_kinds import MIB

from sluice.policies import core

TIMEOUT = 120.0  # seconds for any one run
HEAD_START = 0.5  # seconds until the stream has filled the caches
LEAST_SD = 0.1  # of ln w: a handful of bursts do not make a model exact


class MeasurementError(Exception):
    """A program failed, or did not meet the other; the text says which."""


@dataclass(frozen=True)
class Program:
    """A job's name and what the writer is to do; volume and chunk in MiB a process."""

    name: str
    pattern: str
    volume: int
    bursts: int = 1
    pause: float = 0.0  # seconds of computing between bursts
    processes: int = 2

    def command(self, targets: StorageTargets, directories: Sequence[str | Path]) -> list[str]:
        words = [
            *("--pattern", self.pattern, "--volume", f"{self.volume}M"),
            *("--processes", str(self.processes), "--bursts", str(self.bursts)),
            *("--pause", str(self.pause), "--remove"),
            *(["--flush"] if self.pattern == "aw" else []),
        ]
        return targets.command(writer(), *words, *directories)


VICTIM = Program("mesh", "owc", volume=4, bursts=15, pause=0.75)
STREAM = Program("checkpoint", "aw", volume=600)
PROBE = replace(VICTIM, bursts=4)  # as many as the stream outlasts


def writer() -> Path:
    return compiled(Path(__file__).with_name("writer.c"), "-pthread")


@dataclass(frozen=True)
class Lesson:
    """What was measured."""

    profiles: dict[str, dict[str, Any]]  # struct sluice_profile, by the program's name
    interference: dict[str, float]  # struct sluice_interference
    alone: dict[str, float]  # seconds, by the program's name
    bandwidth: float  # B/s of a target: what the stream reaches alone


def learn(targets: StorageTargets) -> Lesson:
    """Run alone, together, and work out what that says. Takes half a minute."""
    victim, stream = (_run(targets, program) for program in (VICTIM, STREAM))
    alongside, slowed = _run_together(targets)
    burst = statistics.median(burst["seconds"] for burst in victim["bursts"])
    kept = [burst / seconds for seconds in alongside]
    stream_kept = min(1.0, stream["io_seconds"] / slowed["io_seconds"])
    profiles = {
        VICTIM.name: _profile(VICTIM, victim, burst=burst),
        STREAM.name: _profile(STREAM, stream, burst=stream["io_seconds"]),
    }
    filled = profiles[STREAM.name]["rate"]  # a stream fills all targets
    demand = min(1.0, profiles[VICTIM.name]["rate"] / filled)
    return Lesson(
        profiles=profiles,
        interference=interference(kept, stream_kept, victim_demand=demand),
        alone={VICTIM.name: victim["wall_seconds"], STREAM.name: stream["wall_seconds"]},
        bandwidth=filled / len(targets.lanes),
    )


def interference(
    kept: Sequence[float], stream_kept: float, *, victim_demand: float
) -> dict[str, float]:
    """The published coefficients, with those replaced that were measured.

    Where two programs fill the targets, their rates are as their weights, and add up to
    the capacity (policies/core/interference.h). kept is the share of its rate that the
    victim kept in each of several bursts: its spread is what ln w leaves unexplained.
    victim_demand is the victim's rate alone as a share of the stream's.
    """
    logs = [math.log(share) for share in kept]
    victim_rate = math.exp(statistics.mean(logs)) * victim_demand
    model = core.default_interference()
    spread = statistics.stdev(logs) / math.sqrt(2) if len(logs) > 1 else 0.0
    return model | {
        "stream_level": math.log(stream_kept / victim_rate),
        "capacity": max(1.0, victim_rate + stream_kept),
        "log_sd": max(LEAST_SD, spread),
        # both were on all targets, so that none of these was hotter than the others
        "hot_write_loss": 0.0,
        "hot_read_loss": 0.0,
    }


def _profile(program: Program, report: dict[str, Any], *, burst: float) -> dict[str, Any]:
    """What Darshan would tell of the run."""
    a_process = program.volume * program.bursts * MIB
    streams = program.pattern == "aw"
    return {
        "pattern": program.pattern,
        "share": {program.pattern: 1.0},
        "confidence": 0.95,
        "runs": 1,
        "chunk_bytes": report["chunk_bytes"],
        "nprocs": program.processes,
        "write_bytes": report["bytes"],
        "read_bytes": 0.0,
        "files": program.processes if streams else report["operations"],
        "rate": report["bytes"] / report["io_seconds"],
        "burst_seconds": burst,
        "period_seconds": burst + program.pause if program.bursts > 1 else 0.0,
        "io_share": report["io_seconds"] / report["wall_seconds"],
        "runtime_seconds": report["wall_seconds"],
        "bytes_per_flush": a_process if streams else report["chunk_bytes"],
        "creates_per_mib": 1 / program.volume if streams else MIB / report["chunk_bytes"],
        "unflushed_bytes": a_process if streams else 0.0,
        "log_sd": 0.0,
    }


def _run_together(targets: StorageTargets) -> tuple[list[float], dict[str, Any]]:
    """Seconds of the probe's bursts that the stream covered, and the stream's report."""
    targets.settle()
    stream = _start(targets, STREAM)
    time.sleep(HEAD_START)
    probe = _finish(_start(targets, PROBE), PROBE)
    slowed = _finish(stream, STREAM)
    end = slowed["started"] + slowed["wall_seconds"]
    covered = [
        burst["seconds"]
        for burst in probe["bursts"]
        if probe["started"] + burst["offset_seconds"] + burst["seconds"] <= end
    ]
    if not covered:
        raise MeasurementError("the stream ended before the probe's first burst did")
    return covered, slowed


def _run(targets: StorageTargets, program: Program) -> dict[str, Any]:
    targets.settle()
    return _finish(_start(targets, program), program)


def _start(targets: StorageTargets, program: Program) -> subprocess.Popen[str]:
    directories = [targets.path(lane) for lane in targets.lanes]
    return subprocess.Popen(
        program.command(targets, directories),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _finish(process: subprocess.Popen[str], program: Program) -> dict[str, Any]:
    try:
        output, complaint = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    if process.returncode != 0:
        raise MeasurementError(f"{program.name}: {complaint}")
    report: dict[str, Any] = json.loads(output)
    return report
