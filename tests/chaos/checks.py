"""What must hold after each step, whatever was done in it."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from gated import used_licenses
from lab import ALL_TOKENS, ChaosLab
from sampler import parse_licenses

if TYPE_CHECKING:
    from workload import Workload

LIVE = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
HOLDING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED"})
SETTLED = 15.0  # seconds in which Slurm's counts and its jobs agree, once
READINGS = 3  # that differ are a fault; one may have been made while a job ended


def after_step(lab: ChaosLab, workload: Workload) -> list[str]:
    records = lab.jobs()
    return [
        *dead_daemons(lab),
        *lost(lab, workload, records),
        *altered(workload, records),
        *token_differences(lab),
    ]


def dead_daemons(lab: ChaosLab) -> list[str]:
    found = [] if lab.slurm.controller_alive() else ["slurmctld is gone, and nobody ended it"]
    code = lab.sluiced.process.poll()
    if code is not None and not lab.is_killed:
        found.append(f"sluiced has ended by itself with {code}; see {lab.sluiced.log}")
    return found


def lost(lab: ChaosLab, workload: Workload, records: dict[int, dict[str, str]]) -> list[str]:
    """Every job is in the controller's memory, or has ended by Slurm's own file."""
    known = set(records)
    for record in records.values():
        known |= {int(record[name]) for name in ("ArrayJobId", "HetJobId") if name in record}
    completions = lab.place.root / "jobcomp.log"
    if completions.exists():
        text = completions.read_text(errors="replace")
        known |= {int(found) for found in re.findall(r"^JobId=(\d+)", text, re.MULTILINE)}
    return [f"job {job_id} is lost: {workload.jobs[job_id].expected}"
            for job_id in sorted(set(workload.jobs) - known)]  # fmt: skip


def altered(workload: Workload, records: dict[int, dict[str, str]]) -> list[str]:
    """No field of a live job is other than submitted, or than the driver made it; none is held."""
    found = []
    for record in records.values():
        if record["JobState"].split()[0] not in LIVE:
            continue
        job_id = int(record.get("ArrayJobId", record["JobId"]))
        job = workload.jobs.get(job_id)
        if job is None:
            continue  # a later component
        found += [f"{text} ({', '.join(job.changes)})" for text in job.differences(record)]
        if record["Reason"].startswith("JobHeld") and not job.is_held:
            found.append(f"job {job_id} is held, and the driver did not do it")
    return found


def token_differences(lab: ChaosLab) -> list[str]:
    """Slurm counts as taken what its jobs hold; of each token asked until they agree once.

    Both move while jobs start and end, and Slurm tells them one after the other. So only a
    reading counts during which Slurm's count stood still, and only several that differ.
    """
    deadline = time.monotonic() + SETTLED
    differing: dict[str, list[str]] = {token: [] for token in ALL_TOKENS}
    while differing and time.monotonic() < deadline:
        for token, (held, counted) in steady_counts(lab).items():
            if held == counted:
                differing.pop(token, None)
            elif token in differing:
                differing[token].append(f"{token}: jobs hold {held}, Slurm counts {counted}")
        time.sleep(0.3 if differing else 0)
    return [texts[-1] for texts in differing.values() if len(texts) >= READINGS]


def steady_counts(lab: ChaosLab) -> dict[str, tuple[int, int]]:
    """How many of each token jobs hold and Slurm counts, where its count stood still meanwhile.

    After a reconfiguration Slurm 22.05 forgets those of suspended jobs, so these may count or not.
    """
    before = used_licenses(lab.slurm)
    held, suspended = dict.fromkeys(ALL_TOKENS, 0), dict.fromkeys(ALL_TOKENS, 0)
    for record in lab.jobs().values():
        if HOLDING & set(record["JobState"].split(",")) or record["JobState"] in HOLDING:
            counts = suspended if record["JobState"].startswith("SUSPENDED") else held
            for name, count in parse_licenses(record["Licenses"]).items():
                if name in counts:
                    counts[name] += count
    after = used_licenses(lab.slurm)
    found = {}
    for token in ALL_TOKENS:
        counted = before.get(token, 0)
        if counted == after.get(token, 0):
            most = held[token] + suspended[token]
            found[token] = (min(max(counted, held[token]), most), counted)
    return found


def at_the_end(lab: ChaosLab) -> list[str]:
    """No lease, no token taken, no job."""
    found = [f"{name} is left" for name in lab.reservations() if name.startswith("sluice_")]
    used = used_licenses(lab.slurm)
    found += [f"{token} is taken {used[token]} times" for token in ALL_TOKENS if used.get(token)]
    left = lab.slurm.run("squeue", "-h", "-o", "%i").stdout.split()
    return [*found, *(f"job {job_id} is still there" for job_id in left)]
