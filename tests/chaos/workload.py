"""Jobs of several users, and what each of them must look like as long as Slurm knows it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab import ALL_TOKENS, ChaosError
from sampler import parse_licenses

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from lab import ChaosLab

USERS = {0: "root", 1: "daemon", 5: "games", 65534: "nobody"}  # games is exempt
KINDS = ("heavy",) * 4 + ("flusher",) * 3 + ("light", "dripper", "flood") + ("unheard_of",) * 3
ACCOUNTS = ("physics", "sl0_stream", "a\x1fb", "Licenses=all_stream:9")
FIELDS = ("UserId", "JobName", "TimeLimit", "NumNodes", "Nice", "Comment", "Partition", "WorkDir",
          "Requeue", "Licenses", "Account")  # fmt: skip


@dataclass(slots=True)
class Job:
    """What was submitted, and what the driver itself changed since."""

    job_id: int
    uid: int
    expected: dict[str, str]
    is_array: bool = False
    is_held: bool = False
    is_het: bool = False
    changes: list[str] = field(default_factory=list)

    def differences(self, record: Mapping[str, str]) -> list[str]:
        """What of a record of scontrol is neither as submitted nor as the driver changed it."""
        return [
            f"job {self.job_id}: {name} is {seen!r}, not {wanted!r}"
            for name, wanted in self.expected.items()
            if (seen := told(record, name)) != wanted
        ]


def told(record: Mapping[str, str], name: str) -> str:
    """A field of scontrol as Job.expected has it: without Sluice's tokens and mark."""
    value = record.get(name, "")
    if name == "Licenses":
        return own_licenses(value)
    if name in {"UserId", "NumNodes"}:
        return re.split("[(-]", value)[0]
    return "" if value == "(null)" else value


def own_licenses(text: str) -> str:
    counts = parse_licenses(text)
    return ",".join(f"{name}:{counts[name]}" for name in sorted(counts) if name not in ALL_TOKENS)


class Workload:
    def __init__(self, lab: ChaosLab, rng: Random) -> None:
        self.lab = lab
        self.rng = rng
        self.jobs: dict[int, Job] = {}
        self.refused: list[str] = []
        """Submissions that Slurm did not take, and why."""
        self.script = lab.place.configuration / "job.sh"
        self.script.write_text('#!/bin/sh\nexec sleep "$1"\n')
        self.script.chmod(0o755)

    def submit(self, **fixed: str | int) -> Job | None:
        """Submit one job of the mix; None where Slurm refused it."""
        rng = self.rng
        uid = int(fixed.get("uid", rng.choice(tuple(USERS))))
        nodes = int(fixed.get("nodes", rng.choice((1, 1, 1, 1, 2, 3))))
        limit = rng.randint(30, 59)
        kind = str(fixed.get("kind", rng.choice(KINDS)))
        options = {"job-name": kind, "nodes": str(nodes), "time": str(limit)}
        expected = {
            "UserId": USERS[uid],
            "JobName": kind,
            "TimeLimit": f"00:{limit}:00",
            "NumNodes": str(nodes),
            "Licenses": "",
            "Nice": "0",
            "Partition": "main",
            "WorkDir": "/",
            "Requeue": "1",
            "Comment": "",
        }
        is_held = is_array = is_het = False
        trait = str(fixed.get("trait", rng.choice(("",) * 8 + TRAITS)))
        seconds = str(fixed.get("seconds", rng.choice((1, 2, 2, 3, 5, 8))))
        if trait == "array":
            options["array"] = rng.choice(("0-2", "1-4%2", "3,5"))
            is_array = True
        elif trait == "dependency" and self.jobs:
            options["dependency"] = f"afterany:{rng.choice(sorted(self.jobs)[-20:])}"
        elif trait == "licenses":
            expected["Licenses"] = options["licenses"] = f"tool:{rng.randint(1, 3)}"
        elif trait == "account":
            options["account"] = rng.choice(ACCOUNTS)
        elif trait == "begin":
            options["begin"] = "now+5seconds"
        elif trait == "hold":
            options["hold"] = ""
            is_held = True
        elif trait == "comment":
            expected["Comment"] = options["comment"] = "all_stream:5 | sluice=1:2"
        elif trait == "nice":
            options["nice"] = expected["Nice"] = str(rng.randint(1, 50))
        elif trait == "urgent":
            options["partition"] = expected["Partition"] = "urgent"
        elif trait == "greedy":
            options["licenses"] = rng.choice(("all_stream:1000000", "tool:1,all_flush:3"))
            expected["Licenses"] = own_licenses(options["licenses"])
        is_het = trait == "het"
        words = [f"--{name}={value}" if value else f"--{name}" for name, value in options.items()]
        common = ("--output=/dev/null", "--chdir=/", "--requeue")
        second = (":", "-N1", "-J", "unheard_of", *common) if is_het else ()
        done = self.lab.as_user(
            uid, "sbatch", "--parsable", *common, *words, *second, self.script, seconds
        )
        if done.returncode != 0:
            self.refused.append(done.stderr.strip())
            return None
        job = Job(int(done.stdout.split(";")[0]), uid, expected, is_array, is_held, is_het)
        if job.job_id in self.jobs:
            raise ChaosError(f"Slurm gave the id {job.job_id} twice")
        self.jobs[job.job_id] = job
        return job


TRAITS = ("array", "array", "dependency", "licenses", "licenses", "account", "begin", "hold", "comment",
          "nice", "urgent", "greedy", "het")  # fmt: skip
