"""Nobody waits beyond the bound, whatever breaks: each fault is made on a real slurmctld.

Waits are told by Slurm's own times: from when a job became eligible, or could have started, to
its start.
"""

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from gated import (
    FLUSH,
    LEASE,
    LONG,
    META,
    STREAM,
    TOKENS,
    configure,
    gates,
    leases,
    licenses,
    reservations,
    running,
    settle,
    submit,
    used_licenses,
    waits,
)
from plugin_harness import PluginFiles, drain
from private_slurm import PrivateSlurm
from sluiced import Sluiced, wait_for

from sluice.slurm.status import LEASES, REFUSED

pytestmark = pytest.mark.slurm

NODES = 4
NOBODY = 65534  # an ordinary user
MAX_DELAY = 8  # seconds, in all that follows unless told
POLL = 1  # seconds: FollowInterval, and what a poll takes
PASS = (
    3  # seconds between two scheduling passes of private_slurm.BASE_SETTINGS, and a second's rest
)
BUSY = 6  # seconds by which a machine that many tests share is slower
PROMPT = 2 * POLL + PASS + BUSY  # the bound for who needs no token
BOUND = MAX_DELAY + PROMPT

# Sharing costs more than waiting, so nobody is released before the bound.
WAITING_IS_FREE = "WaitPrice=0\nMinSaving=0\n"


@pytest.fixture(scope="module")
def slurm(guarded_slurm) -> Iterator[PrivateSlurm]:
    with guarded_slurm("hostile", {"Licenses": licenses()}, nodes=NODES) as slurm:
        yield slurm


@pytest.fixture
def sluiced(slurm: PrivateSlurm, files: PluginFiles) -> Iterator[Sluiced]:
    """Enforces on a quiet cluster with all gates closed; tokens are counted right in the end."""
    for leftover in files.directory.iterdir():
        leftover.unlink()
    daemon = Sluiced(slurm, files)
    enforce(daemon)
    daemon.start()
    try:
        settle(daemon)
        drain(files.socket)
        yield daemon
        slurm.run("scancel", "--quiet", "--state=PENDING", check=False)
        wait_for(lambda: tokens_are_counted(slurm))
        slurm.run("scancel", "--quiet", "--partition=main", check=False)
        wait_for(lambda: not slurm.run("squeue", "--noheader").stdout)
    finally:
        if daemon.process.poll() is None:
            daemon.stop()
    for name in reservations(slurm):
        slurm.run("scontrol", "delete", f"reservationname={name}", check=False)
    wait_for(lambda: not reservations(slurm))


def enforce(daemon: Sluiced, *, max_delay: int = MAX_DELAY, **settings: str | float) -> None:
    policy = f"{WAITING_IS_FREE}MaxDelay={max_delay}\n"
    configure(daemon, policy, **{"FollowInterval": 200} | settings)


def set_licenses(slurm: PrivateSlurm, line: str) -> None:
    slurm.settings["Licenses"] = line
    slurm.write_config()
    slurm.reconfigure()


def tokens_are_counted(slurm: PrivateSlurm) -> bool:
    """Whether Slurm counts as taken what the licences of running jobs add up to."""
    held = dict.fromkeys(TOKENS, 0)
    for line in slurm.run("squeue", "-h", "-t", "R,CG", "-o", "%W").stdout.split():
        for word in line.split(","):
            name, _, count = word.partition(":")
            if name in held:
                held[name] += int(count or 1)
    counted = used_licenses(slurm)
    return all(counted[token] == count for token, count in held.items())


def delay(slurm: PrivateSlurm, job: int, *, since: float = 0) -> int:
    """Seconds by Slurm's clock that a job waited once it could have started, since `since`."""
    started = slurm.wait_for_job(job, "RUNNING", "COMPLETED", timeout=2 * BOUND)
    return round(at(started["StartTime"]) - max(at(started["EligibleTime"]), since))


def at(written: str) -> float:
    return time.mktime(time.strptime(written, "%Y-%m-%dT%H:%M:%S"))


def assert_released_in_time(slurm: PrivateSlurm, *jobs: int, since: float = 0) -> None:
    for job in jobs:
        assert delay(slurm, job, since=since) <= BOUND
        assert not held_tokens(slurm, job)


def exclusive(slurm: PrivateSlurm, kind: str, nodes: int, seconds: int, *words: str) -> int:
    """A job that takes whole nodes; its time limit is far, so that nothing ends by itself."""
    sized = (f"-N{nodes}", "--exclusive", *words)
    return slurm.submit("-J", kind, *sized, f"--wrap=sleep {seconds}")


def hold_the_gate(slurm: PrivateSlurm) -> int:
    holder = submit(slurm, "heavy", LONG)
    running(slurm, holder)
    return holder


def wait_for_a_token(slurm: PrivateSlurm, kind: str, *words: str) -> int:
    """An array: sluiced lets a single job share where its bound is shorter than the conflict."""
    return submit(slurm, kind, "--array=0", *words, LONG)


def held_tokens(slurm: PrivateSlurm, job: int) -> list[str]:
    return [
        word for word in slurm.job(job)["Licenses"].split(",") if word.partition(":")[0] in TOKENS
    ]


# The bound itself


def test_a_job_waits_for_the_one_it_would_ruin_and_starts_when_that_ends(sluiced, slurm):
    enforce(sluiced, max_delay=600)
    holder = hold_the_gate(slurm)
    waiter = wait_for_a_token(slurm, "heavy")
    waits(slurm, waiter)
    seen = wait_for(lambda: g if (g := gates(sluiced))["gates"][STREAM]["waiting"] == 1 else None)
    assert seen["gates"][STREAM]["held"] == used_licenses(slurm)[STREAM] == 1
    assert not seen["differences"]
    slurm.run("scancel", str(holder))
    running(slurm, waiter)
    assert held_tokens(slurm, waiter)


def test_after_max_delay_the_token_is_taken_off_and_nothing_else(sluiced, slurm):
    enforce(sluiced, max_delay=3)
    holder = hold_the_gate(slurm)
    waiter = wait_for_a_token(slurm, "heavy", "--licenses=tool:2")
    waits(slurm, waiter)
    running(slurm, waiter)
    assert slurm.job(waiter)["Licenses"] == "tool:2"
    assert slurm.job(holder)["JobState"] == "RUNNING"
    wait_for(lambda: gates(sluiced)["released"] == {"max_delay": 1})


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
def test_sluiced_dead_its_leases_run_out(sluiced, slurm, number):
    enforce(sluiced, max_delay=600)
    hold_the_gate(slurm)
    waiter = wait_for_a_token(slurm, "heavy")
    waits(slurm, waiter)
    dead = time.time()
    sluiced.process.send_signal(number)
    assert delay(slurm, waiter, since=dead) <= LEASE + PASS + BUSY
    sluiced.process.kill()
    sluiced.process.wait()


def test_a_crash_of_slurmctld_loses_neither_gate_nor_token(sluiced, slurm):
    enforce(sluiced, max_delay=600)
    holder = hold_the_gate(slurm)
    waiter = wait_for_a_token(slurm, "heavy")
    waits(slurm, waiter)
    time.sleep(6)  # Slurm saves its state every five seconds
    slurm.kill_controller()
    slurm.start_controller()
    waits(slurm, waiter)
    assert used_licenses(slurm)[STREAM] == 1
    settle(sluiced)
    wait_for(lambda: not gates(sluiced)["differences"])
    slurm.run("scancel", str(holder))
    running(slurm, waiter)


@pytest.mark.parametrize("how", ["command", "file"])
def test_off_opens_the_gates_and_on_closes_them_again(sluiced, slurm, how):
    enforce(sluiced, max_delay=600)
    hold_the_gate(slurm)
    waiter = wait_for_a_token(slurm, "heavy")
    waits(slurm, waiter)
    if how == "command":
        assert "All gates are open" in sluiced.command("off")
    else:
        sluiced.files.off_file.touch()
    running(slurm, waiter)
    wait_for(lambda: not leases(slurm))
    sluiced.files.wait_for(lambda seen: seen["mode"] == "off")
    assert not held_tokens(slurm, submit(slurm, "heavy", LONG))
    assert "is on" in sluiced.command("on")
    settle(sluiced)
    sluiced.files.wait_for(lambda seen: seen["mode"] == "enforce")
    # the plugin takes up the snapshot without the flag at its next poll
    waits(slurm, wait_for(lambda: job_with_token(slurm)))


def job_with_token(slurm: PrivateSlurm) -> int | None:
    job = wait_for_a_token(slurm, "heavy")
    return job if held_tokens(slurm, job) else None


# A history that stores nothing


def test_a_full_disk_keeps_nobody_waiting(sluiced, slurm, lab_directory):
    """Releases need no history: they come about though not a byte of them can be stored."""
    sluiced.stop()
    disk = lab_directory / "disk"
    disk.mkdir(exist_ok=True)
    enforce(sluiced, History=disk / "history.db")
    # a mount of sluiced's own, gone with it
    mount = f'mount -t tmpfs -o size=2m none {disk} && exec "$@"'
    sluiced.start(wrapper=("unshare", "--mount", "sh", "-c", mount, "sh"))
    settle(sluiced)
    full = Path(f"/proc/{sluiced.process.pid}/root{disk}")
    wait_for((full / "history.db").exists)
    hold_the_gate(slurm)
    fill(full)
    waiters = [wait_for_a_token(slurm, kind) for kind in ("heavy", "flusher", "heavy", "flusher")]
    assert_released_in_time(slurm, *waiters)
    assert sluiced.process.poll() is None


def fill(disk: Path) -> None:
    """Leave no byte free, in large pieces and small."""
    with (disk / "fill").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    assert shutil.disk_usage(disk).free == 0


# Reasons that Slurm shows


@pytest.mark.usefixtures("sluiced")
def test_behind_a_blocked_job_the_bound_holds_whatever_reason_slurm_shows(slurm):
    """Nodes are idle, and backfill steps over the waiter for its licence alone."""
    holder = exclusive(slurm, "heavy", 1, 600, "--time=30")
    running(slurm, holder)
    blocked = exclusive(slurm, "unheard_of", NODES, 1, "--time=30")
    wait_for(lambda: slurm.job(blocked)["Reason"] == "Resources")
    waiters = [
        exclusive(slurm, kind, 1, 600, "--time=9", "--array=0") for kind in ("heavy", "flusher")
    ]
    assert_released_in_time(slurm, *waiters)
    wait_for(lambda: tokens_are_counted(slurm))
    assert slurm.job(blocked)["JobState"] == "PENDING"


@pytest.mark.parametrize(
    ("max_delay", "count"), [(4, 20), pytest.param(8, 200, marks=pytest.mark.acceptance)]
)
def test_a_machine_that_is_full_burns_nobodys_budget(sluiced, slurm, max_delay, count):
    """Full for five times MaxDelay: when their turn comes, jobs still go one by one."""
    enforce(sluiced, max_delay=max_delay)
    filler = exclusive(slurm, "unheard_of", NODES, 600)
    running(slurm, filler)
    for _ in range(count):
        exclusive(slurm, "heavy", 1, 600)
    time.sleep(5 * max_delay)
    slurm.run("scancel", str(filler))
    first = wait_for(lambda: started(slurm))
    assert len(first) == 1
    assert used_licenses(slurm)[STREAM] == 1


def started(slurm: PrivateSlurm) -> list[str]:
    return slurm.run("squeue", "-h", "-t", "R", "-n", "heavy", "-o", "%i").stdout.split()


# Leases that fail


@pytest.mark.parametrize(
    "of_the_site",
    [
        pytest.param((f"reservationname=sluice_{STREAM}", "licenses=tool:1"), id="name"),
        pytest.param(("reservationname=site", f"licenses={STREAM}:10"), id="licences"),
    ],
)
def test_a_lease_that_fails_ends_nobody_elses_bound(sluiced, slurm, of_the_site):
    """A site's own reservation has the lease's name, or some of its licences."""
    sluiced.stop()
    slurm.run("scontrol", "create", "reservation", *of_the_site, "starttime=now", "duration=60",
              "users=root", "flags=license_only")  # fmt: skip
    before = reservations(slurm)
    sluiced.start()
    wait_for(lambda: {FLUSH, META} <= set(leases(slurm)))
    hold_the_gate(slurm)
    waiters = [wait_for_a_token(slurm, kind) for kind in ("heavy", "flusher", "flusher")]
    said = sluiced.wait_for_finding(LEASES, STREAM)
    assert "reservation" in said["remedy"]
    assert max(delay(slurm, job) for job in waiters) <= BOUND
    after = reservations(slurm)
    assert all(after[name] == before[name] for name in before)


# Releases that Slurm refuses


def test_releases_that_slurm_refuses_take_nobodys_place(sluiced, slurm):
    """Slurm refuses any change of licences to a job whose own were cut from slurm.conf."""
    hold_the_gate(slurm)
    enforce(sluiced)
    refused = [wait_for_a_token(slurm, "heavy", "--licenses=tool:9") for _ in range(50)]
    try:
        set_licenses(slurm, licenses().replace("tool:9", "tool:2"))
        answer = slurm.run(
            "scontrol", "update", f"jobid={refused[0]}", "licenses=tool:9", check=False
        )
        assert "Invalid license" in answer.stderr
        waiter = wait_for_a_token(slurm, "heavy")
        # by its release, or because the gate behind which the others wait is given up
        assert delay(slurm, waiter) <= BOUND
        if slurm.job(refused[0])["Priority"] == "0":
            return  # from 26.05 Slurm itself holds them, and nothing is to be released
        said = sluiced.wait_for_finding(REFUSED, "Invalid license")
        assert "slurm.conf" in said["remedy"]
        own = slurm.job(refused[0])["Licenses"].split(",")
        assert "tool:9" in own  # not at the price of what the user asked for
    finally:
        slurm.run("scancel", "--quiet", "--state=PENDING")
        set_licenses(slurm, licenses())


# Tokens that users write


def test_tokens_that_a_user_took_before_sluice_keep_nobody_waiting(sluiced, slurm):
    """`-L all_stream:1000000`, written while no plugin was there to take it off."""
    sluiced.stop()
    plugin = slurm.settings.pop("JobSubmitPlugins")
    try:
        restart(slurm)
        greedy = as_nobody(slurm, f"--licenses={STREAM}:1000000", LONG)
        running(slurm, greedy)
    finally:
        slurm.settings["JobSubmitPlugins"] = plugin
        restart(slurm)
    enforce(sluiced, max_delay=600)
    sluiced.start()
    wait_for(lambda: {FLUSH, META} <= set(leases(slurm)))
    waiter = submit(slurm, "heavy", LONG)
    assert delay(slurm, waiter) <= PROMPT
    assert slurm.job(greedy)["JobState"] == "RUNNING"


def restart(slurm: PrivateSlurm) -> None:
    slurm.write_config()
    slurm.restart_controller()


def as_nobody(slurm: PrivateSlurm, *words: str) -> int:
    user = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    done = slurm.run(*user, "sbatch", "--parsable", "--output=/dev/null", "--chdir=/", *words)
    return int(done.stdout)


# Records that were lost


def test_jobs_whose_record_was_lost_shut_no_gate(sluiced, slurm):
    """Behind a blocked job: they wait for nothing, on a storage that nobody uses."""
    sluiced.stop(signal.SIGKILL)
    filler = exclusive(slurm, "unheard_of", 1, 600, "--time=30")
    running(slurm, filler)
    exclusive(slurm, "unheard_of", NODES, 1, "--time=30")
    lost = [exclusive(slurm, "heavy", 1, 600, "--time=9") for _ in range(2)]
    drain(sluiced.files.socket)
    known = exclusive(slurm, "heavy", 1, 600, "--time=9")
    since = time.time()
    sluiced.start()
    assert max(delay(slurm, job, since=since) for job in (*lost, known)) <= BOUND
