"""What users see of a cluster: the same commands on two clusters, compared.

Job ids, times and the cluster's own paths differ between any two clusters and
are taken out; everything else has to be the same byte for byte.
"""

import re
import time
from dataclasses import dataclass

from private_slurm import PrivateSlurm

SCRIPT = "#!/bin/sh\n#SBATCH --comment=mine\nsrun true\n"

# Every way to submit a job, each also with something Slurm refuses or answers
# by a message. Held jobs stay for `scontrol show job`.
SHORT = (
    ("sbatch", "--hold", "--job-name=app", "--wrap=true"),
    ("srun", "-n2", "true"),
    ("salloc", "-n1", "true"),
)
COMMANDS = (
    *SHORT,
    ("sbatch", "--hold", "--parsable", "--time=5", "--nodes=2", "--mem=100M", "--wrap=true"),
    ("sbatch", "--hold", "--array=0-9:3%2", "--wrap=true"),
    ("sbatch", "--hold", "--partition=long,main", "--wrap=true"),
    ("sbatch", "--hold", "--licenses=tool:2", "--comment=mine", "--wrap=true"),
    ("sbatch", "--hold", "--begin=now+1hour", "--wrap=true"),
    ("sbatch", "--hold", "--deadline=now+2hours", "--time=5", "--wrap=true"),
    ("sbatch", "--hold", "-n1", ":", "-n2", "job.sh"),
    ("sbatch", "--test-only", "--wrap=true"),
    ("sbatch", "--licenses=tool:9", "--wrap=true"),
    ("sbatch", "--licenses=none_such", "--wrap=true"),
    ("sbatch", "--partition=none_such", "--wrap=true"),
    ("sbatch", "--array=nonsense", "--wrap=true"),
    ("srun", "--immediate=5", "-n1", "true"),
    ("srun", "--test-only", "-n1", "true"),
    ("srun", "--licenses=tool", "-n1", "sh", "-c", "echo out; exit 3"),
    ("srun", "-n1", "sh", "-c", "echo problem >&2"),
    ("srun", "--partition=none_such", "true"),
    ("srun", "-n1", ":", "-n1", "true"),
    ("salloc", "--licenses=tool", "-n1", "sh", "-c", "exit 4"),
    ("salloc", "--immediate=5", "-n1", "true"),
    ("salloc", "--licenses=tool:9", "true"),
    ("sbatch", "--time=1000", "--wrap=true"),  # stays pending: the last one
)

VARYING = re.compile(
    r"(?<=JobId=)\d+|(?<=[jJ]ob )\d+|(?<=allocation )\d+|(?<=HetJobId=)\d+|(?<=ArrayJobId=)\d+"
    r"|(?<=HetJobIdSet=)\S+|(?<=AllocNode:Sid=)\S+|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
    r"|(?<=Priority=)\d+|(?<=Scheduler=)\w+|(?<=slurm-)\d+|^\d+$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Seen:
    """One command as its user sees it."""

    command: tuple[str, ...]
    rc: int
    stdout: str
    stderr: str


def normal(text: str, slurm: PrivateSlurm) -> str:
    """The text without what differs between any two clusters."""
    return VARYING.sub("#", text.replace(str(slurm.directory), "DIR"))


def transcript(slurm: PrivateSlurm, commands: tuple[tuple[str, ...], ...]) -> list[Seen]:
    """Run the commands one by one, each in a cluster where nothing else runs."""
    script = slurm.directory / "job.sh"
    script.write_text(SCRIPT)
    seen = []
    for command in commands:
        wait_until_idle(slurm)
        done = slurm.run(*command, check=False)
        out, err = (normal(text, slurm) for text in (done.stdout, done.stderr))
        seen.append(Seen(command, done.returncode, out, err))
    return seen


def wait_until_idle(slurm: PrivateSlurm) -> None:
    """Wait until all jobs but held ones are gone: one on its way out may make the
    next one queue for a moment, and salloc says so."""
    deadline = time.monotonic() + 30
    while set(slurm.run("squeue", "-h", "-o", "%r").stdout.split("\n")) - {"JobHeldUser", ""}:
        if time.monotonic() > deadline:
            raise TimeoutError(slurm.run("squeue").stdout)
        time.sleep(0.02)


def held_jobs(slurm: PrivateSlurm) -> list[str]:
    """All that Slurm says about each job that is held, oldest first."""
    lines = slurm.run("scontrol", "show", "job", "-o").stdout.splitlines()
    return [normal(line, slurm) for line in lines if "JobState=PENDING Reason=JobHeldUser" in line]


def clear(slurm: PrivateSlurm) -> None:
    """Cancel what was held."""
    slurm.run("scancel", "--state=PENDING", "--quiet")
