"""What the command lines in logs run."""

from __future__ import annotations

from functools import lru_cache
from pathlib import PurePosixPath

# The interesting name is that of the script they run.
INTERPRETERS = ("python", "perl", "bash", "sh", "Rscript", "julia", "java", "ruby", "lua")


@lru_cache(maxsize=4096)
def program_name(exe: str) -> str:
    """Return what a command line runs: `md.py` of `/usr/bin/python3 -u md.py 7`."""
    words = exe.split()
    name = PurePosixPath(words[0]).name if words else ""
    if name.rstrip("0123456789.") in INTERPRETERS:
        scripts = (word for word in words[1:] if not word.startswith("-"))
        return PurePosixPath(next(scripts, name)).name
    return name
