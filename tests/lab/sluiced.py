"""A real sluiced process alongside a private Slurm, for tests."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from plugin_harness import PluginFiles
from private_slurm import PrivateSlurm

from sluice.history_db.records import Job
from sluice.history_db.store import Store
from sluice.policies.snapshot import Snapshot

BIN = Path(sys.executable).parent
PATIENCE = 60.0  # seconds; much of it passes where many tests share two cores


class Sluiced:
    """A sluiced process, and what it left in the history.

    wrapper is a command that starts it, as one that gives it a name space of its own.
    """

    def __init__(
        self, slurm: PrivateSlurm, files: PluginFiles, *, wrapper: Sequence[str] = ()
    ) -> None:
        self.slurm = slurm
        self.files = files
        self.wrapper = wrapper
        self.history = files.directory / "history.db"
        self.log = files.directory / "sluiced.log"

    def start(self, *options: str, wrapper: Sequence[str | Path] = ()) -> Self:
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*self.wrapper, *wrapper, BIN / "sluiced", "--config", self.files.config, *options],
                env=self.slurm.client_environment(),
                stdout=log,
                stderr=log,
            )
        return self

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def run(
        self, *words: str | Path, wrapper: Sequence[str | Path] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of sluice alongside this slurmctld, whatever comes of it."""
        return subprocess.run(
            [*wrapper, BIN / "sluice", *words],
            env=self.slurm.client_environment() | {"SLUICE_CONF": str(self.files.config)},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def command(self, *words: str) -> str:
        """What a command of sluice prints; it must succeed."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def sluice(self, *words: str) -> Any:
        return json.loads(self.command(*words, "--json"))

    def diagnose(self, *topics: str) -> list[dict[str, str]]:
        """What the doctor finds wrong, of these topics or of all."""
        wrong = [row for row in self.findings() if row["level"] != "OK"]
        return [row for row in wrong if row["topic"] in topics or not topics]

    def findings(self) -> list[dict[str, str]]:
        """All that the doctor says: exit code 1 where anything fails, a remedy for each."""
        done = self.run("doctor", "--json")
        assert done.returncode in {0, 1}, done.stderr
        findings: list[dict[str, str]] = json.loads(done.stdout)["findings"]
        assert done.returncode == any(row["level"] == "FAIL" for row in findings)
        assert all(row["remedy"] for row in findings if row["level"] != "OK")
        return findings

    def wait_for_finding(self, topic: str, words: str) -> dict[str, str]:
        def found() -> dict[str, str] | None:
            return next((row for row in self.diagnose(topic) if words in row["text"]), None)

        return wait_for(found)

    def decisions(self) -> list[dict[str, Any]]:
        if not self.history.exists():
            return []
        found: list[dict[str, Any]] = self.sluice("decisions", "--limit", "10000")["decisions"]
        return found

    def ended(self) -> list[Job]:
        """The jobs of the history that have ended."""
        if not self.history.exists():
            return []
        with Store(self.history) as store:
            return [job for job in store.jobs.all_jobs() if job.end is not None]

    def joined(self) -> dict[int, dict[str, Any]]:
        return {row["job_id"]: row for row in self.decisions() if row["job_id"] is not None}

    def snapshot(self) -> Snapshot:
        return Snapshot.parse(self.files.snapshot.read_bytes())

    def wait_for_snapshots(self, count: int = 2) -> Snapshot:
        """Wait for snapshots that were begun after this call."""
        wanted = self.snapshot().state.sequence + count if self.files.snapshot.exists() else 1
        wait_for(lambda: self.files.snapshot.exists() and self.sequence() >= wanted)
        return self.snapshot()

    def wait_until_followed(self) -> None:
        """Wait until the plugin has a snapshot of this run, not one of a daemon before it."""
        self.wait_for_snapshots(1)
        self.wait_until_loaded()

    def wait_until_loaded(self) -> None:
        """Wait until the plugin has a snapshot that was there after this call."""
        current: set[int] = set()  # checksums

        def is_loaded(stats: dict[str, Any]) -> bool:
            current.add(self.snapshot().checksum)
            return int(stats["snapshot"]["checksum"], 16) in current

        self.files.wait_for(is_loaded)

    def sequence(self) -> int:
        return int(self.snapshot().state.sequence)

    def wait_until_joined(self, *job_ids: int) -> dict[int, dict[str, Any]]:
        return wait_for(lambda: rows if set(job_ids) <= set(rows := self.joined()) else None)


def wait_for(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (answer := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return answer
