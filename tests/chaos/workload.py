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
SHOWN = {"licenses": "Licenses", "comment": "Comment", "nice": "Nice", "partition": "Partition"}
"""Options of sbatch, and the fields of scontrol that show them."""

TRAITS = (*("array",) * 2, "dependency", *("licenses",) * 2, "account", "begin", "hold", "comment",
          "nice", "urgent", "greedy", "het")  # fmt: skip


@dataclass(slots=True)
class Job:
    """What was submitted, and what the driver itself changed since."""

    job_id: int
    uid: int
    expected: dict[str, str]
    is_held: bool = False
    is_array: bool = False
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
        chosen = self._choose() | fixed
        uid, kind, nodes = int(chosen["uid"]), str(chosen["kind"]), str(chosen["nodes"])
        limit = self.rng.randint(30, 59)
        expected = {
            "UserId": USERS[uid],
            "JobName": kind,
            "TimeLimit": f"00:{limit}:00",
            "NumNodes": nodes,
            "Partition": "main",
            "WorkDir": "/",
            "Requeue": "1",
        } | dict.fromkeys(("Licenses", "Comment"), "")
        expected["Nice"] = "0"
        trait = str(chosen["trait"])
        options = self._options(trait)
        for option, name in SHOWN.items():
            if option in options:
                expected[name] = options[option]
        expected["Licenses"] = own_licenses(expected["Licenses"])
        words = [f"--{name}={value}" if value else f"--{name}" for name, value in options.items()]
        common = ("--output=/dev/null", "--chdir=/", "--requeue")
        second = (":", "-N1", "-J", "unheard_of", *common) if trait == "het" else ()
        done = self.lab.as_user(
            uid, "sbatch", "--parsable", *common, f"--job-name={kind}", f"--nodes={nodes}",
            f"--time={limit}", *words, *second, self.script, str(chosen["seconds"]),
        )  # fmt: skip
        if done.returncode != 0:
            self.refused.append(done.stderr.strip())
            return None
        job_id = int(done.stdout.split(";")[0])
        return self._keep(Job(job_id, uid, expected, trait == "hold", trait == "array"))

    def _keep(self, job: Job) -> Job:
        if job.job_id in self.jobs:
            raise ChaosError(f"Slurm gave the id {job.job_id} twice")
        self.jobs[job.job_id] = job
        return job

    def _choose(self) -> dict[str, str | int]:
        rng = self.rng
        return {
            "uid": rng.choice(tuple(USERS)),
            "kind": rng.choice(KINDS),
            "nodes": rng.choice((1, 1, 1, 1, 1, 2)),
            "seconds": rng.choice((1, 1, 2, 2, 3, 5)),
            "trait": rng.choice(("",) * 8 + TRAITS),
        }

    def _options(self, trait: str) -> dict[str, str]:
        """Of sbatch; one that has no value is empty."""
        rng = self.rng
        return {
            "array": {"array": rng.choice(("0-2", "1-4%2", "3,5"))},
            "dependency": {"dependency": f"afterany:{rng.choice(sorted(self.jobs)[-20:] or [1])}"},
            "licenses": {"licenses": f"tool:{rng.randint(1, 3)}"},
            "account": {"account": rng.choice(ACCOUNTS)},
            "begin": {"begin": "now+5seconds"},
            "hold": {"hold": ""},
            "comment": {"comment": "all_stream:5 | sluice=1:2"},
            "nice": {"nice": str(rng.randint(1, 50))},
            "urgent": {"partition": "urgent"},
            "greedy": {"licenses": rng.choice(("all_stream:1000000", "tool:1,all_flush:3"))},
        }.get(trait, {})
