"""Rankings that take a minute: computed by a process of their own, and kept with their date."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

STALE_SECONDS = 6 * 3600
NICE = 19
PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from sluice.serve.rankings import main; main(*sys.argv[2:])"
)


class Rankings:
    """The worst pairs of a history and what is in doubt, as they were computed last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: float | None = None
        self._found: dict[str, Any] | None = None

    def latest(self, config: Path | None, history: Path) -> dict[str, Any] | None:
        """Return `pairs` and `doubts`, when they were computed, and what failed; None: not yet.

        Where that is long ago, or never was, somebody begins to compute them.
        """
        with self._lock:
            now = time.monotonic()
            if self._asked is None or now - self._asked >= STALE_SECONDS:
                self._asked = now
                threading.Thread(target=self._compute, args=[config, history], daemon=True).start()
            return self._found

    def _compute(self, config: Path | None, history: Path) -> None:
        """Let another process compute: this one has pages to answer."""
        words = [json.dumps(sys.path), str(config or ""), str(history)]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
        )
        failed = done.stderr.strip().rpartition("\n")[2] if done.returncode else ""
        found = {"pairs": [], "doubts": []} if failed else json.loads(done.stdout)
        with self._lock:
            self._found = {"computed": int(time.time()), "failed": failed, **found}


def main(config: str, history: str) -> None:
    """Print what a page waits for."""
    os.nice(NICE)
    from sluice.history_db.store import Store  # noqa: PLC0415 - of this process alone
    from sluice.policies import core  # noqa: PLC0415
    from sluice.serve.doubts import computed  # noqa: PLC0415

    settings = core.read_config(Path(config)) if config else core.default_config()
    with Store(history, read_only=True) as store:
        print(json.dumps(computed(store, settings, int(time.time()))))
