"""A site with logs that claim terabytes, and a sacct that says what Slurm counted of their jobs.

What is learned there goes the way of production: `sluice-learn` asks sacct, reads the logs that
arrived, trains and publishes.
"""

import os
import subprocess
import time
from pathlib import Path

from made_logs import MIB, MadeLog, appended
from sacct_stand_in import write_sacct
from sluiced import BIN

CHUNK, CHUNKS = 1024 * MIB, 3482  # 3.4 TiB, as one appended file
JOBS = 12
SECONDS = 3600
FIELDS = (
    *("JobIDRaw", "JobID", "Cluster", "JobName", "User", "UID", "Submit", "Start", "End"),
    *("State", "NNodes", "NTasks", "TRESUsageInTot", "TRESUsageOutTot"),
)


class ClaimedSite:
    """Logs and accounting below one directory; only root can give logs to users."""

    def __init__(self, directory: Path) -> None:
        self.logs = directory / "logs"
        self.logs.mkdir(parents=True)
        self._tools = directory / "bin"
        self._tools.mkdir()
        self._said = directory / "said"
        self._said.write_text("|".join(FIELDS) + "\n")
        write_sacct(self._tools, self._said)
        self._latest = 900_000  # job id, far from those of a private Slurm

    def ran(self, name: str, uid: int, *, counted: int | None) -> None:
        """Let jobs of a user have run: their logs claim the same, Slurm counted this of each."""
        for place in range(JOBS, 0, -1):
            self._latest += 1
            end = int(time.time()) - 2 * SECONDS * place
            start = end - SECONDS
            log = MadeLog(uid=uid, jobid=self._latest, start=start + 5, end=end - 5)
            busy = {"F_WRITE_TIME": SECONDS / 2, "F_WRITE_END_TIMESTAMP": SECONDS - 20.0}
            appended(log, chunk=CHUNK, count=CHUNKS, **busy)
            path = log.write(self.logs / f"{self._latest}.darshan")
            os.chown(path, uid, uid)
            self._account(name, uid, start, end, counted)

    def _account(self, name: str, uid: int, start: int, end: int, counted: int | None) -> None:
        job = str(self._latest)
        usage = ("", "") if counted is None else ("fs/disk=0", f"fs/disk={counted}")
        times = (start - 10, start, end, "COMPLETED", 1)
        rows = (
            (job, job, "claimed", name, f"user{uid}", uid, *times, "", "", ""),
            (f"{job}.batch", f"{job}.batch", "claimed", "batch", "", "", *times, 1, *usage),
        )
        with self._said.open("a") as said:
            said.writelines("|".join(map(str, row)) + "\n" for row in rows)

    def learn(self, config: Path) -> None:
        """Take all of it up, train and publish, as the daemon does at each poll."""
        path = f"{self._tools}:{os.environ['PATH']}"
        subprocess.run(
            [BIN / "sluice-learn", "--once", "--config", config, self.logs],
            env=os.environ | {"PATH": path, "TZ": "UTC"},
            check=True,
        )
