"""`sluice off` on a real slurmctld: it opens the gates whatever is broken."""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import made_model
import numpy as np
import pytest
from plugin_harness import PluginFiles, install
from private_slurm import PrivateSlurm
from sluiced import BIN, PATIENCE, Sluiced, wait_for

from sluice.slurm.gates.leases import EMPTY

pytestmark = pytest.mark.slurm

TOKENS = ("all_stream", "all_flush", "all_meta")
HEAVY = made_model.profile(np.random.default_rng(1), "aw") | {
    "runtime_seconds": 600.0,
    "io_share": 0.9,
    "burst_seconds": 0.0,
    "period_seconds": 0.0,
}
LONG = "--wrap=sleep 600"
# /run of its own, so that the default OffFile switches nothing else of this machine off
OWN_RUN = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh")


@pytest.fixture(scope="module")
def slurm(guarded_slurm) -> Iterator[PrivateSlurm]:
    licenses = ",".join(f"{token}:1000000" for token in TOKENS)
    with guarded_slurm("switch", {"Licenses": licenses}, nodes=3) as slurm:
        yield slurm


@pytest.fixture
def sluiced(slurm: PrivateSlurm, files: PluginFiles) -> Iterator[Sluiced]:
    """Enforcing, with every gate closed for longer than a test takes."""
    for leftover in files.directory.iterdir():
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    install(
        files.bundle,
        made_model.bundle_of_names({"heavy": HEAVY}, "WaitPrice=0\n", created=int(time.time())),
    )
    configure(files)
    daemon = Sluiced(slurm, files, wrapper=OWN_RUN).start()
    files.wait_for(lambda seen: seen["mode"] == "enforce")
    daemon.wait_until_followed()
    wait_for(lambda: set(closed(slurm)) == set(TOKENS))
    yield daemon
    slurm.run("scancel", "--quiet", "--user=root", check=False)
    wait_for(lambda: not slurm.run("squeue", "--noheader").stdout)
    if daemon.process.poll() is None:
        daemon.stop()
    for name in reservations(slurm):
        slurm.run("scontrol", "delete", f"reservationname={name}", check=False)


def configure(files: PluginFiles, **settings: str | float) -> None:
    files.configure(**{"Mode": "enforce", "FollowInterval": 100, "LeaseSeconds": 600} | settings)


def reservations(slurm: PrivateSlurm) -> dict[str, str]:
    """Licences of each reservation, by its name."""
    lines = slurm.run("scontrol", "show", "reservation", "-o").stdout.splitlines()
    rows = [dict(word.partition("=")[::2] for word in line.split()) for line in lines]
    return {row["ReservationName"]: row["Licenses"] for row in rows if "ReservationName" in row}


def closed(slurm: PrivateSlurm) -> list[str]:
    """Tokens of which enough is reserved to close a gate."""
    return [
        name.removeprefix("sluice_")
        for name, licenses in reservations(slurm).items()
        if name.startswith("sluice_") and not licenses.endswith(f":{EMPTY}")
    ]


def sluice(daemon: Sluiced, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command where the daemon lives, or, if that is dead, with a /run of its own."""
    is_alive = daemon.process.poll() is None
    where = ("nsenter", "--mount", f"--target={daemon.process.pid}") if is_alive else OWN_RUN
    return daemon.run(*words, wrapper=where)


def waiter(slurm: PrivateSlurm) -> int:
    """A job that waits for a token that another one holds."""
    holder = slurm.submit("-J", "heavy", LONG)
    slurm.wait_for_job(holder, "RUNNING")
    job = slurm.submit("-J", "heavy", LONG)
    wait_for(lambda: slurm.job(job)["Reason"] == "Licenses")
    return job


def typo(files: PluginFiles) -> None:
    files.configure(Mode="enforce", FolowInterval=100)


def missing(files: PluginFiles) -> None:
    files.config.unlink()


def directory(files: PluginFiles) -> None:
    files.config.unlink()
    files.config.mkdir()


def garbage(files: PluginFiles) -> None:
    files.config.write_bytes(b"\x00\xff\n" * 1000)


@pytest.mark.parametrize("damage", [typo, missing, directory, garbage])
def test_off_opens_the_gates_for_good_whatever_the_configuration(
    sluiced: Sluiced, slurm, damage: Callable[[PluginFiles], None]
):
    """Though sluiced goes on with the last good one, and renews leases by that."""
    job = waiter(slurm)
    damage(sluiced.files)
    done = sluice(sluiced, "off")
    assert done.returncode == 0, done.stderr
    assert "sluice.conf" in done.stderr  # what is wrong with it
    assert "All gates are open" in done.stdout
    slurm.wait_for_job(job, "RUNNING")
    sluiced.wait_for_snapshots(5)
    assert "off" in sluiced.snapshot().state.flags
    assert not closed(slurm)
    if damage is directory:
        sluiced.files.config.rmdir()
    configure(sluiced.files)
    sluiced.wait_for_snapshots(5)
    assert not closed(slurm)  # the repair is no `sluice on`
    assert sluice(sluiced, "on").returncode == 0
    wait_for(lambda: set(closed(slurm)) == set(TOKENS))


@pytest.mark.parametrize("damage", [typo, missing])
def test_off_needs_neither_sluiced_nor_configuration_nor_history(sluiced: Sluiced, slurm, damage):
    job = waiter(slurm)
    stuck = slurm.submit("-J", "heavy", "-N3", "--exclusive", LONG)
    sluiced.stop(signal.SIGKILL)
    damage(sluiced.files)
    for path in sluiced.files.directory.glob("history.db*"):
        path.unlink()
    done = sluice(sluiced, "off")
    assert done.returncode == 0, done.stderr
    assert "sluiced is not running; tokens taken off" in done.stdout
    assert not reservations(slurm)
    slurm.wait_for_job(job, "RUNNING")
    assert slurm.job(stuck)["Licenses"] in {"", "(null)"}


@pytest.mark.parametrize("is_alive", [True, False])
def test_off_opens_a_gate_in_whose_lease_a_job_sits(sluiced: Sluiced, slurm, is_alive):
    """Slurm deletes no reservation with a job inside, and that job must not suffer."""
    job = waiter(slurm)
    inside = slurm.submit("--reservation=sluice_all_stream", LONG)
    slurm.wait_for_job(inside, "RUNNING")
    if not is_alive:
        sluiced.stop(signal.SIGKILL)
    done = sluice(sluiced, "off")
    assert done.returncode == 0, done.stderr
    assert "A job sits in the lease of all_stream" in done.stdout
    slurm.wait_for_job(job, "RUNNING")
    assert not closed(slurm)
    assert slurm.job(inside)["JobState"] == "RUNNING"
    if is_alive:
        assert "gates" not in sluiced.log.read_text()  # no poll of it failed
        assert sluice(sluiced, "on").returncode == 0
        wait_for(lambda: set(closed(slurm)) == set(TOKENS))


@pytest.mark.acceptance  # Slurm tidies away every 30 s
def test_a_job_in_an_emptied_lease_outlives_it(sluiced: Sluiced, slurm):
    inside = slurm.submit("--reservation=sluice_all_stream", LONG)
    slurm.wait_for_job(inside, "RUNNING")
    sluiced.stop(signal.SIGKILL)
    assert sluice(sluiced, "off").returncode == 0
    slurm.run("scontrol", "update", "reservationname=sluice_all_stream", "endtime=now+1seconds")
    wait_for(lambda: not reservations(slurm))
    assert slurm.job(inside)["JobState"] == "RUNNING"


def test_off_opens_the_gates_though_its_file_cannot_be_made(sluiced: Sluiced, slurm):
    job = waiter(slurm)
    sluiced.stop(signal.SIGKILL)
    configure(sluiced.files, OffFile="/proc/off")
    done = sluice(sluiced, "off")
    assert done.returncode == 1
    assert "/proc/off" in done.stderr
    assert "stop sluiced" in done.stderr
    assert not reservations(slurm)
    slurm.wait_for_job(job, "RUNNING")


def test_off_names_a_lease_that_it_may_not_delete(sluiced: Sluiced, slurm, tmp_path):
    """Each lease stands alone: one that cannot be opened keeps no other one shut."""
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f'#!/bin/sh\ngrep -v all_flush | {shutil.which("scontrol")} "$@"\n')
    scontrol.chmod(0o755)
    sluiced.stop(signal.SIGKILL)
    path = f"PATH={tmp_path}:{slurm.client_environment()['PATH']}"
    done = sluiced.run("off", wrapper=("env", path))
    assert done.returncode == 1
    assert "the gate of all_flush is still closed" in done.stderr
    assert "All gates are open" not in done.stdout
    assert closed(slurm) == ["all_flush"]


def test_off_leaves_reservations_alone_that_are_not_leases(sluiced: Sluiced, slurm):
    sluiced.stop()
    for name, what in {"sluice_all_stream": "nodes=n1", "mine": "licenses=all_meta:3"}.items():
        flags = "flags=license_only" if what.startswith("licenses") else "flags=ignore_jobs"
        slurm.run("scontrol", "create", "reservation", f"reservationname={name}", "users=root",
                  "starttime=now", "duration=5", what, flags)  # fmt: skip
    assert sluice(sluiced, "off").returncode == 0
    assert set(reservations(slurm)) == {"sluice_all_stream", "mine"}


def test_off_says_that_slurm_cannot_be_asked(tmp_path):
    files = PluginFiles(tmp_path)
    configure(files)
    done = subprocess.run(
        [BIN / "sluice", "off", f"--config={files.config}"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert "the leases could not be deleted" in done.stderr
    assert files.off_file.exists()


def test_one_that_hung_during_off_opens_the_gates_when_it_wakes(sluiced: Sluiced, slurm):
    job = waiter(slurm)
    sluiced.process.send_signal(signal.SIGSTOP)
    assert sluice(sluiced, "off").returncode == 0
    slurm.wait_for_job(job, "RUNNING")
    sluiced.process.send_signal(signal.SIGCONT)
    sluiced.wait_for_snapshots(5)
    assert not closed(slurm)
