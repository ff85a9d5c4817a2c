"""What is killed, stopped, restarted or forged in mid-hold: every hold ends within its lease."""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest
from turns_daemons import NOBODY, Cluster, wait_for
from turns_page import NUMBERS, now_ns

LEASE = NUMBERS["LONGEST_NS"]
HELLO, REPORT = 1, 3


@pytest.fixture
def held(cluster: Cluster):
    """A cluster, and the page of a job that is held on the first of two nodes."""
    cluster.publish(1, 2)
    cluster.start_turns()
    agents = [cluster.agent(), cluster.agent()]
    cluster.rank(cluster.page(agents[1], 1, nodes=64))
    page = cluster.page(agents[0], 2)
    cluster.rank(page)
    wait_for(lambda: page.is_held)
    return cluster, page


def wait_until_it_goes(page, since: int) -> None:
    """No word lasts longer than a lease from then on, and the job writes again."""
    latest = 0
    while page.is_held:
        latest = max(latest, page.words.until)
        time.sleep(0.01)
    assert latest <= since + LEASE
    moved = page.sum("bytes")
    wait_for(lambda: page.sum("bytes") > moved)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
@pytest.mark.parametrize("daemon", ["turns", "agent"])
def test_holds_end_when_a_daemon_does(held, daemon, number):
    cluster, page = held
    since = now_ns()
    (cluster.turns if daemon == "turns" else cluster.agents[0]).signal(number)
    if number != signal.SIGSTOP or daemon == "agent":
        wait_until_it_goes(page, since + 100_000_000)  # what it was about to say
    else:
        wait_until_it_goes(page, since)


def test_a_stopped_munged_stops_nobody(held):
    """It is asked once a session, so words go on being renewed; newcomers have to wait."""
    cluster, page = held
    cluster.munged.signal(signal.SIGSTOP)
    try:
        newcomer = cluster.agent()
        cluster.page(newcomer, 3)
        until = page.words.until
        wait_for(lambda: page.words.until > until + 3e9)
        assert cluster.status()["facts"]["agents"] == 2
    finally:
        cluster.munged.signal(signal.SIGCONT)
    cluster.wait_for_status(lambda found: found["facts"]["agents"] == 3)


def test_a_coordinator_that_starts_again_has_forgotten_everything(held):
    """Agents find it by themselves, and holds begin anew."""
    cluster, page = held
    cluster.wait_for_status(lambda found: found["counts"]["holds"] == 1)
    since = now_ns()
    cluster.turns.kill()
    wait_until_it_goes(page, since + 100_000_000)
    cluster.restart_turns()
    wait_for(lambda: page.is_held)
    assert cluster.wait_for_status(lambda found: found["counts"]["holds"] == 1)


def test_jobs_of_an_agent_that_starts_again_are_left_alone(held):
    """Their processes have the old memory, which nobody holds any more."""
    cluster, page = held
    cluster.agents[0].kill()
    cluster.agents[0].start()
    wait_until_it_goes(page, now_ns() + 100_000_000)
    fresh = cluster.page(cluster.agents[0], 2)
    cluster.rank(fresh)
    wait_for(lambda: fresh.is_held)
    assert not page.is_held


def test_a_stopped_agent_does_not_keep_others_waiting(held):
    """The job that goes first is on its node: after a silence, others take its place."""
    cluster, page = held
    cluster.agents[1].signal(signal.SIGSTOP)
    wait_for(lambda: page.words.until == 0)
    cluster.agents[1].signal(signal.SIGCONT)
    assert cluster.wait_for_status(lambda found: found["counts"]["silent"] == 1)
    wait_for(lambda: page.is_held)


def test_a_coordinator_that_cannot_see_the_off_file_holds_nobody(held):
    """The snapshot is a FIFO now: a reader may wait, and decisions do not."""
    cluster, page = held
    cluster.snapshot.unlink()
    os.mkfifo(cluster.snapshot)
    cluster.off_file.touch()
    wait_for(lambda: page.words.until == 0)


def test_a_second_coordinator_for_one_cluster_does_not_start(cluster):
    cluster.start_turns()
    done = subprocess.run(cluster.turns.command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "another sluice-turns holds" in done.stderr


def test_without_a_port_no_coordinator_starts(cluster):
    """Nothing listens by default."""
    cluster.configure(TurnsPort=0)
    done = subprocess.run(cluster.turns.command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "turns are off" in done.stderr


# -- strangers ------------------------------------------------------------------


def test_an_agent_of_another_user_is_refused(cluster):
    cluster.start_turns()
    private = cluster.place / "nobody"
    private.mkdir()
    os.chown(private, NOBODY, NOBODY)
    stranger = cluster.agent(place=private, uid=NOBODY, slurm_user="root")
    cluster.page(stranger, 7)
    cluster.turns.wait_for_log(f"the peer runs as uid {NOBODY}")
    assert cluster.status()["facts"].get("agents", 0) == 0
    assert stranger.process.poll() is None


def frame(kind: int, payload: bytes, *, version: int = 2, tag: int = 0) -> bytes:
    return struct.pack("<IHHQ", len(payload), kind, version, tag) + payload


def credential(cluster: Cluster, *options: str, content: bytes = b"") -> bytes:
    words = ("munge", f"--socket={cluster.munge}", *options)
    return subprocess.run(words, input=content, capture_output=True, check=True).stdout.strip()


BROKEN = {
    "nothing that looks like a frame": b"GET / HTTP/1.1\r\n\r\n",
    "a frame that would be too long": struct.pack("<IHHQ", 2**31, HELLO, 2, 0),
    "another version": frame(HELLO, b"x", version=3),
    "a report before a hello": frame(REPORT, bytes(16)),
    "a hello of no credential": frame(HELLO, b"MUNGE:rubbish:"),
    "an empty hello": frame(HELLO, b""),
    "zeroes": bytes(4096),
}


@pytest.mark.parametrize("words", BROKEN.values(), ids=BROKEN)
def test_what_is_no_agent_is_put_out(cluster, words):
    cluster.start_turns()
    with socket.create_connection(("127.0.0.1", cluster.port), timeout=60) as connection:
        connection.sendall(words)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""
    cluster.page(cluster.agent(), 1)
    cluster.wait_for_status(lambda found: found["facts"]["agents"] == 1)


@pytest.mark.parametrize("options", [(), ("--cipher=none",), ("--restrict-uid=0",)])
def test_a_credential_made_for_something_else_is_no_hello(cluster, options):
    cluster.start_turns()
    hello = frame(HELLO, credential(cluster, *options, content=b"sluice hello 1".ljust(48, b"\0")))
    with socket.create_connection(("127.0.0.1", cluster.port), timeout=60) as connection:
        connection.sendall(hello)
        answer = connection.recv(16)
    is_encrypted_for_the_coordinator = "--cipher=none" not in options
    assert bool(answer) == is_encrypted_for_the_coordinator


def test_a_hello_that_was_recorded_opens_no_session(cluster):
    """munged has seen it; and even the first answer is of no use without the key in it."""
    cluster.start_turns()
    content = b"sluice hello 1".ljust(16, b"\0") + bytes(32)
    hello = frame(HELLO, credential(cluster, "--restrict-uid=0", content=content))
    address = ("127.0.0.1", cluster.port)
    with socket.create_connection(address, timeout=60) as first:
        first.sendall(hello)
        assert first.recv(16)
        with socket.create_connection(address, timeout=60) as second:
            second.sendall(hello)
            assert second.recv(16) == b""
        cluster.turns.wait_for_log("Replayed")
        first.sendall(frame(REPORT, bytes(16), tag=7))
        cluster.turns.wait_for_log("damaged or forged")


def test_connections_that_say_nothing_are_ended(cluster):
    cluster.start_turns()
    address = ("127.0.0.1", cluster.port)
    with socket.create_connection(address, timeout=60) as silent:
        assert silent.recv(1) == b""
    cluster.turns.wait_for_log("says no hello")


# -- real programs ----------------------------------------------------------------

WRITE = """
import sys, time
with open(sys.argv[1], "wb", buffering=0) as file:
    for _ in range(int(sys.argv[2])):
        file.write(bytes(65536))
        time.sleep(0.002)
print("done")
"""


def test_a_program_under_the_shim_waits_and_ends_as_without(cluster):
    """Real writes, real words: it is held while the wide job writes, then ends in order."""
    import turns_page  # noqa: PLC0415 - builds the shim

    turns_page.build()
    cluster.publish(1, 2)
    cluster.start_turns()
    agent = cluster.agent()
    cluster.rank(cluster.page(agent, 1, nodes=64))
    page = cluster.page(agent, 2)
    target = cluster.place / "output"
    program = page.start(
        sys.executable, "-c", WRITE, target, "400", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_for(lambda: page.is_held and page.sum("holds"))
    assert program.poll() is None
    cluster.ranks[0].finish()
    out, err = program.communicate(timeout=60)
    assert (program.returncode, out, err) == (0, b"done\n", b"")
    assert target.stat().st_size == 65536 * 400
    assert page.sum("bytes") == 65536 * 400
    assert page.sum("held_ns") > 0


def test_sluice_turns_tells_systemd_that_it_is_not_stuck(cluster: Cluster, tmp_path, monkeypatch):
    path = tmp_path / "notify"
    systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    systemd.bind(str(path))
    path.chmod(0o777)
    tmp_path.chmod(0o755)
    systemd.settimeout(30)
    monkeypatch.setenv("NOTIFY_SOCKET", str(path))
    cluster.start_turns()
    assert {systemd.recv(100) for _ in range(3)} == {b"WATCHDOG=1"}
    cluster.turns.signal(signal.SIGSTOP)
    systemd.settimeout(0.5)
    with contextlib.suppress(TimeoutError):
        while systemd.recv(100):  # what was said before
            pass
    with pytest.raises(TimeoutError):
        systemd.recv(100)
    cluster.turns.signal(signal.SIGCONT)
