"""Processes of a private Slurm, told by the slurm.conf in their environment."""

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

STEP_DAEMON = re.compile(r"slurmstepd: \[(\d+)\.")  # its title, such as `slurmstepd: [49.batch]`


def _stat(pid: int) -> list[str]:
    """/proc/PID/stat behind the command: state, parent, ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def runs(pid: int) -> bool:
    """False also for a zombie: who reaps it, and when, is not ours to wait for."""
    return _state(pid) != "Z"


def wait_gone(pid: int, timeout: float) -> bool:
    """Wait for a process to end; False after so many seconds."""
    deadline = time.monotonic() + timeout
    while runs(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def kill(pids: Iterable[int]) -> None:
    """SIGKILL, as far as they are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def of_cluster(slurm_conf: Path) -> list[int]:
    """All others of this user, or anybody's for root, that were started for this cluster."""
    wanted = f"SLURM_CONF={slurm_conf}".encode()
    found = [pid for pid, environment in _environments() if wanted in environment]
    return [pid for pid in found if pid != os.getpid() and runs(pid)]


def of_jobs(slurm_conf: Path) -> list[int]:
    """Step daemons of this cluster, jobs' processes, and their descendants."""
    parents: dict[int, int] = {}
    roots: set[int] = set()
    for pid, environment in _environments():
        try:
            parents[pid] = int(_stat(pid)[1])
            step = Path(f"/proc/{pid}/comm").read_text().startswith("slurmstepd")
        except OSError:
            continue  # gone meanwhile
        in_job = any(word.startswith(b"SLURM_JOB_ID=") for word in environment)
        if (step or in_job) and f"SLURM_CONF={slurm_conf}".encode() in environment:
            roots.add(pid)
    return [pid for pid in parents if roots & set(_ancestry(pid, parents))]


def going_jobs(slurm_conf: Path) -> set[int]:
    """Ids of the jobs of this cluster of which a process goes on: one that is not stopped.

    A step daemon goes on where it has no other process any more: it reports the end.
    """
    commands: dict[int, list[int]] = {}
    for pid, job_id in _by_job(slurm_conf):
        own = commands.setdefault(job_id, [])
        if not _is_step_daemon(pid):
            own.append(pid)
    return {
        job_id
        for job_id, own in commands.items()
        if not own or any(_state(pid) not in "ZTt" for pid in own)
    }


def of_job(slurm_conf: Path, job_id: int) -> list[str]:
    """Pid, state and command of the processes of one job, with its step daemon."""
    found = [pid for pid, of in _by_job(slurm_conf) if of == job_id]
    return [f"{pid} {_state(pid)} {_command(pid)}" for pid in found]


def _by_job(slurm_conf: Path) -> Iterator[tuple[int, int]]:
    """Pid and job id: of a step daemon by its title, of others by their environment."""
    for pid, environment in _environments():
        if f"SLURM_CONF={slurm_conf}".encode() in environment:
            title = STEP_DAEMON.match(_command(pid))
            told = [word[13:] for word in environment if word.startswith(b"SLURM_JOB_ID=")]
            if title or told:
                yield pid, int(title[1] if title else told[0])


def _is_step_daemon(pid: int) -> bool:
    return STEP_DAEMON.match(_command(pid)) is not None


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return b" ".join(words).decode(errors="replace").strip()


def _state(pid: int) -> str:
    try:
        return _stat(pid)[0]
    except OSError:
        return "Z"


def _environments() -> Iterator[tuple[int, list[bytes]]]:
    """Pid and environment, as it was at the start, of each process that may be looked at."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # gone meanwhile, or somebody else's
                yield int(entry.name), (entry / "environ").read_bytes().split(b"\0")


def _ancestry(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    while pid in parents:
        yield pid
        pid = parents[pid]
