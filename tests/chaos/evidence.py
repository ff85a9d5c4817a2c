"""What tells why a job does as it does: Slurm's record and log lines of it, and its processes."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import processes
from private_slurm import parse_record

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from private_slurm import PrivateSlurm

LINES = 12  # of each log, about one job
JOBS = 3  # of which all is printed
NAMED = re.compile(r"\bjob(?:_id=| )(\d+)")
STARTED = re.compile(r"^\[([^\].]+)[^\]]*\] slurm(?:ctld|d) version \S+ started", re.MULTILINE)
CLOCK_BACK = 3  # seconds by which the clock steps back at most, and a second of rounding
TIME = "%Y-%m-%dT%H:%M:%S"


def of_jobs(slurm: PrivateSlurm, text: str) -> str:
    """All that is known of the first jobs that a text names."""
    named = list(dict.fromkeys(int(found) for found in NAMED.findall(text)))
    return "\n".join(of_job(slurm, job_id) for job_id in named[:JOBS])


def of_job(slurm: PrivateSlurm, job_id: int) -> str:
    shown = _shown(slurm, job_id)
    record = parse_record(shown.splitlines()[0] if shown else "")
    names = [str(job_id)]
    if "ArrayTaskId" in record:
        names.append(f"{record['ArrayJobId']}_{record['ArrayTaskId']}")
    parts = [
        f"--- job {job_id}",
        shown.strip(),
        *_log_lines(slurm.controller_log, names, LINES),
        *(line for log in _node_logs(slurm, record) for line in _log_lines(log, names, LINES)),
        *(f"process {text}" for text in processes.of_job(slurm.slurm_conf, job_id)),
    ]
    return "\n".join(parts)


def daemon_started_since(slurm: PrivateSlurm, job_id: int) -> str:
    """Which daemon that knew of a running job started last after it, by its log; empty: none."""
    record = parse_record(_shown(slurm, job_id))
    began = _seconds(record.get("StartTime", "")) or float("inf")
    starts = [
        (_seconds(at) or 0.0, f"{log.stem} started at {at}")
        for log in (slurm.controller_log, *_node_logs(slurm, record))
        for at in STARTED.findall(log.read_text(errors="replace"))
    ]
    latest, text = max(starts, default=(0.0, ""))
    return f"it began at {record['StartTime']}, {text}" if latest >= began - CLOCK_BACK else ""


def _shown(slurm: PrivateSlurm, job_id: int) -> str:
    return slurm.run("scontrol", "show", "job", "-o", str(job_id), check=False).stdout


def _node_logs(slurm: PrivateSlurm, record: dict[str, str]) -> Iterable[Path]:
    """Of the nodes that a job has, or had last."""
    listed = record.get("NodeList", "")
    names = slurm.run("scontrol", "show", "hostnames", listed, check=False).stdout.split()
    logs = (slurm.controller_log.parent / f"slurmd.{name}.log" for name in names)
    return [log for log in logs if log.exists()]


def _log_lines(log: Path, names: list[str], count: int) -> list[str]:
    """The first lines of a log about a job, and its last ones."""
    words = "|".join(map(re.escape, names))
    about = re.compile(rf"(?:job |JobId=|JobId=\S*\(|StepId=|\[)(?:{words})\b")
    found = [line for line in log.read_text(errors="replace").splitlines() if about.search(line)]
    shown = found if len(found) <= count else [*found[: count // 2], "…", *found[-count // 2 :]]
    return [f"{log.stem}: {line}" for line in shown]


def _seconds(text: str) -> float | None:
    """Slurm's local time as seconds, for comparing."""
    try:
        return time.mktime(time.strptime(text, TIME))
    except ValueError:
        return None
