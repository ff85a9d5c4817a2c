"""Takes a lab down when its owner dies, also by kill -9.

A process of its own, in a session of its own, waits for the owner's end and then
calls the program that takes the lab down. So nothing that an owner can suffer, and
no signal to its group, leaves daemons or mounts behind.
"""

import os
import select
import subprocess
import sys
from pathlib import Path


class Guard:
    """Watches the process that starts it, until it is dismissed."""

    def __init__(self, program: str, *arguments: str | Path) -> None:
        """Take the Python program that takes the lab down."""
        self._take_down = [Path(program).resolve(), *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Watch from now on; to be called before there is anything to take down."""
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).resolve(), str(os.getpid()), *self._take_down],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",  # not on what is to be unmounted
        )

    def dismiss(self) -> None:
        """Forget the lab, because it is down or because it shall stay; may be repeated."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def main() -> None:
    owner, *take_down = sys.argv[1:]
    try:
        end = os.pidfd_open(int(owner))
    except ProcessLookupError:
        end = None
    # whose parent is another by now has opened nobody, or a stranger of the same number
    if end is not None and os.getppid() == int(owner):
        select.select([end], [], [])
    subprocess.run([sys.executable, *take_down], check=True)


if __name__ == "__main__":
    main()
