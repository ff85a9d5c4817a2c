"""Rankings that take a minute: computed by a process of their own, and kept with their date."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

STALE_SECONDS = 6 * 3600
NICE = 19
PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from sluice.serve.rankings import main; main(*sys.argv[2:])"
)


class Rankings:
    """The worst pairs of a history, as they were computed last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: float | None = None
        self._pairs: dict[str, Any] | None = None

    def pairs(self, config: Path | None, history: Path) -> dict[str, Any] | None:
        """Return rows, when they were computed, and what failed in it; None: not yet.

        Where that is long ago, or never was, somebody begins to compute them.
        """
        with self._lock:
            now = time.monotonic()
            if self._asked is None or now - self._asked >= STALE_SECONDS:
                self._asked = now
                threading.Thread(target=self._compute, args=[config, history], daemon=True).start()
            return self._pairs

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
        rows = [] if failed else json.loads(done.stdout)
        with self._lock:
            self._pairs = {"computed": int(time.time()), "rows": rows, "failed": failed}


def main(config: str, history: str) -> None:
    """Print the pairs of applications that cost each other most, as the commands name them."""
    os.nice(NICE)
    from sluice.history_db.store import Store  # noqa: PLC0415 - of this process alone
    from sluice.interference.cost import grounds_of  # noqa: PLC0415
    from sluice.policies import core  # noqa: PLC0415

    settings = core.read_config(Path(config)) if config else core.default_config()
    with Store(history, read_only=True) as store:
        grounds = grounds_of(store, settings)
    print(json.dumps([asdict(one) for one in grounds.costs().worst_pairs()]))
