"""What the SPANK tests share: a private Slurm, two lanes, and how jobs are run there."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from compile_c import BUILD
from private_slurm import PrivateSlurm, without_waiting

PLUGIN = BUILD / "plugins" / "spank_sluice.so"
NAMES = ("SLUICE_LANE", "SLUICE_TARGETS", "SLUICE_DIR", "SLUICE_JOB_ID")
OTHER_USER = 65534  # nobody

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")


def printed(output: Path) -> str:
    """Return what a job wrote, without the lines by which Slurm waits."""
    return without_waiting(output.read_text())


@dataclass
class Lab:
    """The cluster, its lanes `sl0` (4 targets) and `sl1` (2), and a place for output."""

    slurm: PrivateSlurm
    place: Path
    lanes: dict[str, Path] = field(default_factory=dict)

    def plugstack(self, *arguments: str, plugin: Path | str = PLUGIN) -> None:
        """Write plugstack.conf; without arguments, the two lanes as directories."""
        words = arguments or (f"lane=sl0:{self.lanes['sl0']}:4", f"lane=sl1:{self.lanes['sl1']}:2")
        self.write_plugstack(f"optional {plugin} {' '.join(words)}\n")

    def write_plugstack(self, text: str) -> None:
        (self.slurm.directory / "etc" / "plugstack.conf").write_text(text)

    def output(self) -> Path:
        """A fresh file name that jobs of every user can write."""
        handle, name = tempfile.mkstemp(dir=self.place / "out")
        os.close(handle)
        Path(name).chmod(0o666)
        return Path(name)

    def script(self, *options: str, body: str = "env", **environment: str) -> tuple[int, str]:
        """Run a batch script to its end: job id and all its output."""
        output = self.output()
        done = self.slurm.run(
            "sbatch",
            "--parsable",
            f"--output={output}",
            f"--wrap={body}",
            *options,
            environment=environment,
        )
        job = int(done.stdout)
        self.slurm.wait_for_job(job, "COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL")
        return job, printed(output)

    def srun(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.slurm.run("srun", *arguments, environment=environment)

    def made(self) -> set[Path]:
        """All that lies on the lanes."""
        return {path for lane in self.lanes.values() for path in lane.iterdir()}

    def wait_for(self, condition: Callable[[], bool], timeout: float = 30.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, "what the test waits for does not happen"
            time.sleep(0.1)

    def node_log(self) -> str:
        return "".join(
            path.read_text(errors="replace")
            for path in (self.slurm.directory / "log").glob("slurmd.*.log")
        )


def variables(text: str) -> dict[str, str]:
    """The plugin's variables in the output of `env`."""
    pairs = (line.split("=", 1) for line in text.splitlines() if line.startswith("SLUICE_"))
    return {name: value for name, value in pairs if name in NAMES}
