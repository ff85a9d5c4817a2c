"""Processes of a private Slurm, told by the slurm.conf in their environment."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path


def _stat(pid: int) -> list[str]:
    """/proc/PID/stat behind the command: state, parent, ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def runs(pid: int) -> bool:
    """False also for a zombie: who reaps it, and when, is not ours to wait for."""
    try:
        return _stat(pid)[0] != "Z"
    except OSError:
        return False


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
