"""The cluster that chaos is made on: a private Slurm in `enforce`, disks that can be filled,
and what has to be known to tell a fault of Sluice from what the driver did itself.

In a mount namespace of its own (`enter_namespace`), so that nothing that happens to the disks
is seen outside, nor outlives the driver.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import subprocess
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import made_model
from account import Limits
from compile_c import compiled
from gated import KINDS, LANE_TOKENS, TOKENS, licenses, reservations
from plugin_harness import PluginFiles, install
from private_slurm import PrivateSlurm, parse_record
from sluiced import Sluiced
from turns_writers import TurnsWriters
from up_and_down import UpAndDown

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[2]
CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
DISK = "4m"  # of history and of what is in /run; the history has more to say in an hour
HISTORY_DISK = "256m"

ALL_TOKENS = TOKENS + LANE_TOKENS
POLL_SECONDS = 1.0
PASS_SECONDS = 3.0
LIMITS = Limits(max_delay=8.0, lease=5.0, poll=POLL_SECONDS, pass_seconds=PASS_SECONDS, slack=8.0)
# Predicted to end within MaxDelay: so waiting may be cheaper than sharing.
SECONDS = {"runtime_seconds": 6.0}
SAVE_SECONDS = 6.0
"""Slurm saves its state every five seconds: what is younger is lost when slurmctld is killed."""
PATIENCE = 60.0

WAIT_PRICE = 0.01
EXEMPT = "games"


class ChaosError(Exception):
    """Something that must hold does not."""


def enter_namespace() -> None:
    """Mounts from now on are this process's and its children's."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
        raise ChaosError(f"no mount namespace: {os.strerror(ctypes.get_errno())}; run as root")


@dataclass(frozen=True)
class Place:
    """Directories; history and run are disks of their own."""

    root: Path

    @property
    def history(self) -> Path:
        return self.root / "history"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def configuration(self) -> Path:
        return self.root / "sluice"


class ChaosLab(UpAndDown):
    def __init__(self, root: Path, *, nodes: int) -> None:
        self.place = Place(root)
        self.nodes = nodes
        self.files = PluginFiles(self.place.configuration)
        self.files.snapshot = self.place.run / "cluster.snapshot"
        self.files.socket = self.place.run / "plugin.sock"
        self.files.off_file = self.place.run / "off"
        self.slurm = PrivateSlurm(
            root / "slurm",
            nodes=nodes,
            plugin_dir=ROOT / "build" / "plugins",
            partitions={
                "main": "Default=YES OverSubscribe=EXCLUSIVE PriorityTier=1 PreemptMode=REQUEUE",
                "urgent": "OverSubscribe=EXCLUSIVE PriorityTier=10 PreemptMode=OFF",
            },
            settings={
                "JobSubmitPlugins": "sluice",
                "Licenses": licenses(),
                "PreemptType": "preempt/partition_prio",
                "PreemptMode": "REQUEUE",
                "JobCompType": "jobcomp/filetxt",
                "JobCompLoc": str(root / "jobcomp.log"),
                "MinJobAge": "300",
                # a requeued job may start again after this, and a second
                "AuthInfo": f"socket={root.resolve()}/slurm/munge/socket,cred_expire=20",
            },
            environment={"SLUICE_CONF": str(self.files.config)},
        )
        self.sluiced = Sluiced(self.slurm, self.files)
        self.sluiced.history = self.place.history / "history.db"
        self.turns = TurnsWriters(root / "turns", snapshot=self.place.run / "turns.snapshot")
        self.is_killed = False
        self.alive_since: float | None = None
        self.dead_since: float | None = None
        self.last_submission = 0.0
        self.clock_offset = 0
        self._stack = ExitStack()

    # -- life ------------------------------------------------------------------

    def up(self) -> None:
        with ExitStack() as stack:
            for directory in (self.place.root, self.place.configuration):
                directory.mkdir(parents=True, exist_ok=True)
                directory.chmod(0o755)
            for disk, size in ((self.place.history, HISTORY_DISK), (self.place.run, DISK)):
                disk.mkdir()
                options = f"size={size},mode=755"
                subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", disk], check=True)
                stack.callback(subprocess.run, ["umount", "--lazy", disk], check=False)
            self._take_clock(stack)
            self.publish()
            self.configure()
            stack.enter_context(self.slurm)
            stack.callback(self.kill_sluiced)
            self.start_sluiced()
            stack.enter_context(self.turns)
            self._stack = stack.pop_all()

    def down(self) -> None:
        self._stack.close()

    # -- the machine's clock ---------------------------------------------------

    def _take_clock(self, stack: ExitStack) -> None:
        """Let `step_clock` set the clock of all that is started from now on: clock.c."""
        self._clock.write_bytes(struct.pack("=q", 0))
        library = compiled(Path(__file__).with_name("clock.c"), "-shared", "-fPIC", suffix=".so")
        preloaded = {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(self._clock)}
        os.environ |= preloaded
        stack.callback(lambda: [os.environ.pop(name) for name in preloaded])

    def step_clock(self, seconds: int) -> None:
        self.clock_offset += seconds
        with self._clock.open("r+b") as file:  # mapped by many: never another file
            file.write(struct.pack("=q", self.clock_offset))

    def now(self) -> float:
        """By the clock of all that the lab has started."""
        return time.time() + self.clock_offset

    @property
    def _clock(self) -> Path:
        return self.place.root / "clock"

    # -- Sluice ----------------------------------------------------------------

    def configure(self, **settings: str | float) -> None:
        """Write sluice.conf with these next to its usual settings."""
        self.files.configure(
            **{
                "Mode": "enforce",
                "FollowInterval": 300,
                "LeaseSeconds": int(LIMITS.lease),
                "History": str(self.sluiced.history),
                "ModeOf": f"off Users={EXEMPT}",
            }
            | settings
        )

    def publish(self, lanes: str = "", *, price: float = WAIT_PRICE) -> None:
        kinds = {name: profile | SECONDS for name, profile in KINDS.items()}
        numbers = {"WaitPrice": price, "MinSaving": 0}
        policy = "".join(f"{name}={value}\n" for name, value in numbers.items())
        policy += f"MaxDelay={LIMITS.max_delay:g}\n"
        content = made_model.bundle_of_names(kinds, policy + lanes, created=int(self.now()))
        install(self.files.bundle, content)

    def start_sluiced(self) -> None:
        self.sluiced.start()
        self.is_killed = False
        self._lives()

    def kill_sluiced(self) -> None:
        self.is_killed = True
        process = self.sluiced.process
        process.kill()
        process.wait()
        self._died()

    def stop_sluiced(self) -> None:
        self.sluiced.process.send_signal(signal.SIGSTOP)
        self._died()

    def continue_sluiced(self) -> None:
        self.sluiced.process.send_signal(signal.SIGCONT)
        self._lives()

    def notice_sluiced(self) -> None:
        """Take note if it has ended by itself."""
        if self.dead_since is None and self.sluiced.process.poll() is not None:
            self._died()

    def _lives(self) -> None:
        self.alive_since, self.dead_since = time.monotonic(), None

    def _died(self) -> None:
        if self.dead_since is None:
            self.alive_since, self.dead_since = None, time.monotonic()

    def sluice(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.sluiced.run(*words)

    # -- Slurm -----------------------------------------------------------------

    def as_user(self, uid: int, *command: str | Path) -> subprocess.CompletedProcess[str]:
        words = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups") if uid else ()
        return self.slurm.run(*words, *command, check=False)

    def scontrol(self, *words: str) -> bool:
        """Whether Slurm did it."""
        return self.slurm.run("scontrol", *words, check=False).returncode == 0

    def set_licenses(self, line: str) -> None:
        self.slurm.settings["Licenses"] = line
        self.slurm.write_config()
        self.slurm.reconfigure()

    def wait_until_saved(self) -> None:
        left = self.last_submission + SAVE_SECONDS - time.monotonic()
        time.sleep(max(0.0, left))

    def jobs(self) -> dict[int, dict[str, str]]:
        """All records of `scontrol show job`, by job id; asked again while Slurm has no answer."""
        deadline = time.monotonic() + PATIENCE
        while (done := self.slurm.run("scontrol", "show", "job", "-o", check=False)).returncode:
            if time.monotonic() > deadline:
                raise ChaosError(f"scontrol show job: {done.stderr.strip()}")
            time.sleep(1)
        lines = done.stdout.split("\nJobId=")
        rows = [
            parse_record(line if line.startswith("JobId=") else f"JobId={line}") for line in lines
        ]
        return {int(row["JobId"]): row for row in rows if row.get("JobId", "").isdecimal()}

    def reservations(self) -> Mapping[str, Mapping[str, str]]:
        return reservations(self.slurm)

    def delete_reservation(self, name: str) -> None:
        with suppress(Exception):
            self.slurm.run("scontrol", "delete", f"reservationname={name}", check=False)
