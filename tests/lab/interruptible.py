"""Processes that Ctrl-C reaches."""

import subprocess
from pathlib import Path


def start(*command: str | Path) -> subprocess.Popen[str]:
    """Start a command that SIGINT interrupts, with pipes for what it prints.

    A shell without job control has its background jobs ignore SIGINT, and all that they start.
    """
    return subprocess.Popen(
        ["env", "--default-signal=INT", *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
