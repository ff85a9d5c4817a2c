"""What may go wrong, each as a context: made on entering, repaired on leaving.

What it yields tells what exactly was done. The driver waits inside for a while.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import processes
from gated import LANES, TOKENS, licenses
from lab import ChaosLab
from plugin_harness import drain, install
from workload import Workload

if TYPE_CHECKING:
    from pathlib import Path

    from turns_daemons import Daemon

Made = Callable[[ChaosLab, Workload, Random], AbstractContextManager[str]]


@dataclass(frozen=True)
class Fault:
    name: str
    make: Made
    longest: float
    """Seconds that it lasts at most."""


FAULTS: list[Fault] = []


def fault(name: str, *, longest: float = 12.0) -> Callable[[Callable[..., Iterator[str]]], Made]:
    def register(function: Callable[..., Iterator[str]]) -> Made:
        make = contextmanager(function)
        FAULTS.append(Fault(name, make, longest))
        return make

    return register


# Daemons


@fault("sluiced killed")
def sluiced_killed(lab: ChaosLab, _: Workload, __: Random) -> Iterator[str]:
    lab.kill_sluiced()
    yield "kill -9 of sluiced"
    lab.start_sluiced()


@fault("sluiced killed at once again", longest=1)
def sluiced_killed_often(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    times = rng.randint(2, 4)
    for _ in range(times):
        lab.kill_sluiced()
        lab.start_sluiced()
        time.sleep(rng.uniform(0.2, 2))
    yield f"kill -9 and start of sluiced, {times} times"


@fault("sluiced stopped", longest=14)
def sluiced_stopped(lab: ChaosLab, _: Workload, __: Random) -> Iterator[str]:
    lab.stop_sluiced()
    yield "SIGSTOP of sluiced"
    lab.continue_sluiced()


@fault("slurmctld killed", longest=3)
def controller_killed(lab: ChaosLab, _: Workload, __: Random) -> Iterator[str]:
    lab.wait_until_saved()
    lab.slurm.kill_controller()
    yield "kill -9 of slurmctld"
    lab.slurm.start_controller()


@fault("slurmctld restarted", longest=1)
def controller_restarted(lab: ChaosLab, _: Workload, __: Random) -> Iterator[str]:
    lab.slurm.restart_controller()
    yield "slurmctld restarted"


@fault("slurmctld stopped", longest=4)
def controller_stopped(lab: ChaosLab, _: Workload, __: Random) -> Iterator[str]:
    pid = lab.slurm.controller_pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield "SIGSTOP of slurmctld"
    finally:
        os.kill(pid, signal.SIGCONT)


@fault("slurmctld reconfigured", longest=2)
def reconfigured(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    times = rng.randint(1, 3)
    for _ in range(times):
        lab.slurm.reconfigure()
    yield f"scontrol reconfigure, {times} times"


@fault("slurmd killed", longest=4)
def node_killed(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    name = rng.choice(lab.slurm.node_names)
    pid = lab.slurm.node_pid(name)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
        processes.wait_gone(pid, 10)
    yield f"kill -9 of slurmd on {name}"
    lab.slurm.start_node(name)


# Daemons of turns; sluice-turns writes status and journal to the disk of run


def _of_turns(lab: ChaosLab, rng: Random) -> Daemon:
    cluster = lab.turns.cluster
    return rng.choice((*cluster.agents, cluster.turns, cluster.munged))


@fault("turns: daemon killed", longest=4)
def turns_killed(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    daemon = _of_turns(lab, rng)
    daemon.kill()
    yield f"kill -9 of {daemon.name}"
    lab.turns.start(daemon)


@fault("turns: daemon stopped", longest=8)
def turns_stopped(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    daemon = _of_turns(lab, rng)
    daemon.signal(signal.SIGSTOP)
    yield f"SIGSTOP of {daemon.name}"
    daemon.signal(signal.SIGCONT)


@fault("turns: switched off", longest=4)
def turns_off(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    off_file = lab.turns.cluster.off_file
    how = rng.choice(("off", "Mode=observe", "Turns=off"))
    if how == "off":
        off_file.touch()
    else:
        lab.turns.configure(**dict([how.split("=")]))
    yield how
    off_file.unlink(missing_ok=True)
    lab.turns.configure()


@fault("clock stepped", longest=8)
def clock_stepped(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    """Of the whole machine. Far back only as NTP does: Slurm itself stands still until then."""
    seconds = rng.choice((-2, 5, 30, 100))
    lab.step_clock(seconds)
    yield f"the clock steps by {seconds} s"


# Disks


def _fill(disk: Path) -> None:
    with (disk / "fill").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass


@fault("disk full", longest=35)
def disk_full(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    disk = rng.choice((lab.place.history, lab.place.run))
    _fill(disk)
    try:
        yield f"the disk of {disk.name} is full"
    finally:
        (disk / "fill").unlink(missing_ok=True)


@fault("disk read-only", longest=35)
def disk_read_only(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    """Lazily bound over by itself: files that are open for writing would refuse a remount."""
    disk = rng.choice((lab.place.history, lab.place.run))
    subprocess.run(["mount", "--bind", disk, disk], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", disk], check=True)
    try:
        yield f"the disk of {disk.name} is read-only"
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


@fault("history gone", longest=35)
def history_gone(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    how = rng.choice(("removed", "damaged", "a directory"))
    files = list(lab.place.history.glob("history.db*"))
    for path in files:
        path.unlink()
    if how == "damaged":
        lab.sluiced.history.write_bytes(rng.randbytes(20_000))
    elif how == "a directory":
        lab.sluiced.history.mkdir()
    yield f"history {how}"
    with suppress(OSError):
        if how == "a directory":
            lab.sluiced.history.rmdir()
        elif how == "damaged":
            for path in lab.place.history.glob("history.db*"):
                path.unlink()


# Files


def _break_file(path: Path, good: bytes, rng: Random) -> str:
    how = rng.choice(("removed", "cut", "one byte changed", "random", "empty", "a directory"))
    if how == "removed":
        path.unlink(missing_ok=True)
    elif how == "a directory":
        path.unlink(missing_ok=True)
        path.mkdir()
    else:
        changed = bytearray(good)
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        texts = {
            "cut": good[: rng.randrange(len(good) or 1)],
            "one byte changed": bytes(changed),
            "random": rng.randbytes(5000),
            "empty": b"",
        }
        install(path, texts[how])
    return how


def _away(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)


@fault("bundle damaged", longest=10)
def bundle_damaged(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    how = _break_file(lab.files.bundle, lab.files.bundle.read_bytes(), rng)
    try:
        yield f"bundle {how}"
    finally:
        _away(lab.files.bundle)
        lab.publish()


@fault("snapshot damaged", longest=6)
def snapshot_damaged(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    path = lab.files.snapshot
    how = _break_file(path, path.read_bytes() if path.is_file() else b"", rng)
    yield f"snapshot {how}"
    _away(path)


@fault("configuration damaged", longest=12)
def configuration_damaged(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    path = lab.files.config
    good = path.read_bytes()
    how = rng.choice(("a typo", "a directory", "removed", "empty"))
    if how == "a typo":
        install(path, good + b"MaxDealy=3\n")
    elif how == "empty":
        install(path, b"#")  # another Mode: observe
    else:
        path.unlink()
        if how == "a directory":
            path.mkdir()
    try:
        yield f"sluice.conf {how}"
    finally:
        _away(path)
        lab.configure()


@fault("other lanes", longest=12)
def other_lanes(lab: ChaosLab, _: Workload, __: Random) -> Iterator[str]:
    lab.publish(LANES)
    yield "the bundle has two lanes"
    lab.publish()


@fault("other bundle", longest=8)
def other_bundle(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    price = rng.choice((0, 0.2, 1000))
    lab.publish(price=price)
    yield f"another bundle, WaitPrice={price}"
    lab.publish()


@fault("mode", longest=8)
def mode(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    other = rng.choice(("off", "observe", "advise"))
    lab.configure(Mode=other)
    yield f"Mode={other}"
    lab.configure()


@fault("sluice off", longest=8)
def switched_off(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    how = rng.choice(("command", "file", "command with sluiced dead"))
    if how.endswith("dead"):
        lab.kill_sluiced()
    if how == "file":
        lab.files.off_file.touch()
    else:
        done = lab.sluice("off")
        how += f", exit code {done.returncode}"
    yield f"off by {how}"
    lab.files.off_file.unlink(missing_ok=True)
    if lab.dead_since is not None:
        lab.start_sluiced()


# Reservations and licences


@fault("leases deleted", longest=2)
def leases_deleted(lab: ChaosLab, _: Workload, __: Random) -> Iterator[str]:
    for token in TOKENS:
        lab.delete_reservation(f"sluice_{token}")
    yield "leases deleted"


@fault("foreign reservation", longest=35)
def foreign_reservation(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    token = rng.choice(TOKENS)
    what = rng.choice(
        (
            (f"reservationname=sluice_{token}", "licenses=tool:1"),
            ("reservationname=site", f"licenses={token}:10"),
        )
    )
    name = what[0].partition("=")[2]
    create = ("create", "reservation", *what, "starttime=now", "duration=60", "users=root",
              "flags=license_only")  # fmt: skip
    made = False
    for _ in range(10):  # sluiced makes its lease anew meanwhile
        if name.startswith("sluice_"):
            lab.delete_reservation(name)
        if made := lab.scontrol(*create):
            break
    try:
        yield f"{' '.join(what)}, {'made' if made else 'refused'}"
    finally:
        lab.delete_reservation(name if made else "site")


@fault("job inside a lease", longest=5)
def job_inside_a_lease(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    token = rng.choice(TOKENS)
    words = ("-J", "unheard_of", f"--reservation=sluice_{token}", "--wrap=sleep 4")
    done = lab.slurm.run("sbatch", "--parsable", "--output=/dev/null", *words, check=False)
    off = lab.sluice("off")
    yield f"a job in sluice_{token} ({done.returncode}), sluice off: exit code {off.returncode}"
    lab.slurm.run("scancel", "--quiet", done.stdout.split(";")[0].strip() or "0", check=False)
    lab.sluice("on")
    lab.files.off_file.unlink(missing_ok=True)


@fault("lanes of slurm.conf", longest=8)
def lanes_cut(lab: ChaosLab, _: Workload, rng: Random) -> Iterator[str]:
    line, what = rng.choice(
        (
            (licenses(2), "two of each token"),
            (licenses(tokens=TOKENS[1:]), "one token less"),
            ("tool:9", "no token"),
        )
    )
    lab.set_licenses(line)
    yield f"slurm.conf has {what}"
    lab.set_licenses(licenses())


@fault("releases refused", longest=35)
def releases_refused(lab: ChaosLab, workload: Workload, rng: Random) -> Iterator[str]:
    count = rng.randint(5, 15)
    for _ in range(count):
        job = workload.submit(kind="heavy", trait="", nodes=1, seconds=1, uid=0)
        if job and lab.scontrol("update", f"jobid={job.job_id}", "licenses=tool:9,all_stream"):
            job.expected["Licenses"] = "tool:9"
            job.changes.append("licenses=tool:9,all_stream")
    lab.set_licenses(licenses().replace("tool:9", "tool:2"))
    yield f"tool cut to 2, with {count} jobs that want 9"
    lab.set_licenses(licenses())


@fault("tokens from before Sluice", longest=35)
def tokens_from_before(lab: ChaosLab, workload: Workload, rng: Random) -> Iterator[str]:
    """F5: written while no plugin was there."""
    lab.wait_until_saved()
    plugin = lab.slurm.settings.pop("JobSubmitPlugins")
    token = rng.choice(TOKENS)
    try:
        lab.slurm.write_config()
        lab.slurm.restart_controller()
        job = workload.submit(kind="unheard_of", trait="", nodes=1, seconds=13, uid=65534)
        if job:
            lab.scontrol("update", f"jobid={job.job_id}", f"licenses={token}:1000000")
    finally:
        lab.slurm.settings["JobSubmitPlugins"] = plugin
        lab.slurm.write_config()
        lab.slurm.restart_controller()
    yield f"a job with {token}:1000000"


@fault("records lost", longest=10)
def records_lost(lab: ChaosLab, workload: Workload, rng: Random) -> Iterator[str]:
    """F14: taken out of the ring by somebody else."""
    lab.kill_sluiced()
    count = rng.randint(3, 8)
    for _ in range(count):
        workload.submit(trait="")
    with suppress(OSError, ValueError):
        drain(lab.files.socket)
    lab.start_sluiced()
    yield f"records of {count} jobs lost"


@fault("burst", longest=2)
def burst(_: ChaosLab, workload: Workload, rng: Random) -> Iterator[str]:
    count = rng.randint(20, 40)
    for _ in range(count):
        workload.submit(seconds=1)
    yield f"{count} submissions in a row"
