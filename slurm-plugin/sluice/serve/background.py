"""Answers that take a minute: computed by processes of their own, and kept with their date."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.history_db.store import Store
    from sluice.policies.core import Config

Facts = dict[str, Any]

NICE = 19
MOST = 64
"""Answers that are kept."""
PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from sluice.serve.background import main; main(*sys.argv[2:])"
)


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked, and how long an answer holds."""

    name: str
    """Of TASKS."""
    words: tuple[str, ...] = ()
    """Of the question."""
    stale_seconds: int = 0
    about: str = ""
    """What an answer is about besides: that about something else is another."""


class Background:
    """The answers so far; a request never waits for a new one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        """One process at a time: pages need a core, too."""
        self._asked: dict[Task, float] = {}
        self._found: dict[Task, Facts] = {}

    def latest(self, config: Path | None, history: Path, task: Task) -> Facts | None:
        """Return the last answer, when it was computed, and what failed; None: not yet.

        Where that is long ago, or never was, somebody begins to compute it.
        """
        with self._lock:
            now = time.monotonic()
            asked = self._asked.get(task)
            if asked is None or now - asked >= task.stale_seconds:
                self._asked[task] = now
                words = [config, history, task]
                threading.Thread(target=self._compute, args=words, daemon=True).start()
            return self._found.get(task)

    def _compute(self, config: Path | None, history: Path, task: Task) -> None:
        """Let another process compute: this one has pages to answer."""
        words = [json.dumps(sys.path), str(config or ""), str(history), task.name, *task.words]
        with self._turn:
            printed, failed = _run(words)
        if failed:
            print(f"{task.name}: {failed}", file=sys.stderr, flush=True)
        found = TASKS[task.name] if failed else json.loads(printed)
        with self._lock:
            self._found[task] = {"computed": int(time.time()), "failed": failed, **found}
            for old in list(self._found)[:-MOST]:
                del self._found[old], self._asked[old]


def _run(words: Sequence[str]) -> tuple[str, str]:
    """Return what the other process printed, and why it failed if it did."""
    command = [sys.executable, "-c", PROGRAM, *words]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True
        )
    except OSError as error:  # without memory or descriptors it does not start
        return "", str(error)
    return done.stdout, done.stderr.strip().rpartition("\n")[2] if done.returncode else ""


TASKS: Mapping[str, Facts] = {
    "rankings": {"pairs": [], "doubts": []},
    "difference": {"changes": []},
    "quality": {"reliability": [], "weeks": []},
}
"""By name, what stands there instead of an answer that could not be computed."""


def main(config: str, history: str, task: str, *words: str) -> None:
    """Print what a page waits for."""
    os.nice(NICE)
    from sluice.history_db.errors import HistoryError  # noqa: PLC0415 - of this process alone
    from sluice.history_db.store import Store  # noqa: PLC0415
    from sluice.policies import core  # noqa: PLC0415
    from sluice.slurm.records import SlurmError  # noqa: PLC0415

    try:
        settings = core.read_config(Path(config)) if config else core.default_config()
        with Store(history, read_only=True) as store:
            print(json.dumps(_computed(store, settings, task, *words)))
    except (HistoryError, SlurmError, core.CoreError, OSError) as error:
        sys.exit(str(error))


def _computed(store: Store, settings: Config, task: str, *words: str) -> Facts:
    now = int(time.time())
    if task == "rankings":
        from sluice.serve import doubt_ranking  # noqa: PLC0415 - of this process alone

        return doubt_ranking.computed(store, settings, now)
    if task == "quality":
        from sluice.prediction.score import quality  # noqa: PLC0415 - likewise

        return quality(store, now)
    from sluice.slurm.model_diff import difference_to  # noqa: PLC0415 - likewise

    model, seconds = map(int, words)
    return difference_to(store, settings, version=model, since=now - seconds, now=now)
