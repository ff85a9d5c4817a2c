"""A lab in another process, which may be killed."""

import os
import subprocess
import sys
from pathlib import Path


def other_owner(program: str, *arguments: str | Path) -> subprocess.Popen[str]:
    """Run a Python program that brings a lab up; return once it is, and it stays so until killed.

    What is in this folder can be imported there.
    """
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"{program}\nprint('up', flush=True); input()",
            *map(str, arguments),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL: nothing of the process's own runs any more."""
    process.kill()
    process.communicate()


def guard_of(process: subprocess.Popen[str]) -> int:
    """Pid of the one process that a lab's owner has started and that still runs."""
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(child)
