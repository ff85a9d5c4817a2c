"""Who gets page and words of a job from an agent, and for how long."""

import errno
import fcntl
import os
import socket
import subprocess
import sys
from mmap import MAP_SHARED, PROT_READ, PROT_WRITE, mmap
from pathlib import Path

import pytest
from turns_daemons import NOBODY, REPLY, REQUEST, Cluster, RefusedError, wait_for
from turns_page import NUMBERS


@pytest.fixture
def agent(cluster: Cluster):
    return cluster.agent()


def test_a_step_gets_memory_that_cannot_shrink_and_is_all_there(cluster, agent):
    page = cluster.page(agent, 7, slots=100)
    assert page.page.magic == NUMBERS["PAGE_MAGIC"]
    assert page.page.slot_count == 100
    assert page.words.magic == NUMBERS["WORDS_MAGIC"]
    assert list(page.words.devices)[: page.words.device_count] == [cluster.place.stat().st_dev]
    for descriptor in page.descriptors:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        assert seals & (fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        status = os.fstat(descriptor)
        assert status.st_blocks * 512 >= status.st_size


# From within: the interpreter may lie where another user cannot enter.
BECOME_NOBODY = f"""
import os, socket, struct, sys
os.setgroups([])
os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
"""

REOPEN = """
try:
    os.open(f"/proc/self/fd/{sys.argv[1]}", os.O_RDWR)
except PermissionError:
    sys.exit(0)
sys.exit("opened")
"""


def test_a_job_can_read_its_words_but_not_write_them(cluster, agent):
    words = cluster.page(agent, 7).descriptors[1]
    size = os.fstat(words).st_size
    assert mmap(words, size, MAP_SHARED, PROT_READ)
    with pytest.raises(PermissionError):
        mmap(words, size, MAP_SHARED, PROT_READ | PROT_WRITE)
    command = (sys.executable, "-c", BECOME_NOBODY + REOPEN, str(words))
    subprocess.run(command, pass_fds=(words,), check=True)


def test_steps_of_one_job_share_its_page_until_the_last_one_ends(cluster, agent):
    first, second = cluster.page(agent, 7), cluster.page(agent, 7, step_id=1)
    inodes = [os.fstat(page.descriptors[0]).st_ino for page in (first, second)]
    assert inodes[0] == inodes[1]
    first.leave()
    third = cluster.page(agent, 7, step_id=2)
    assert os.fstat(third.descriptors[0]).st_ino == inodes[0]


def descriptors_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_nothing_is_left_of_a_thousand_jobs_that_have_ended(cluster, agent):
    before = descriptors_of(agent.pid)
    for job_id in range(1, 1001):
        agent.register(job_id, cluster.place).close()
    wait_for(lambda: descriptors_of(agent.pid) <= before)
    maps = Path(f"/proc/{agent.pid}/maps").read_text()
    assert "sluice-turns" not in maps


@pytest.mark.parametrize("broken", [b"", b"x", bytes(REQUEST.size), bytes(REQUEST.size + 8)])
def test_a_request_that_makes_no_sense_gets_no_page(cluster, agent, broken):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(str(agent.socket))
        connection.send(broken)
        connection.settimeout(60)
        reply, descriptors, _, _ = socket.recv_fds(connection, REPLY.size, 2)
        assert not descriptors
        assert not reply or REPLY.unpack(reply)[2] == errno.EINVAL
    assert cluster.page(agent, 7).words.until == 0


def test_an_agent_refuses_a_request_of_another_version(agent, cluster):
    with pytest.raises(RefusedError):
        agent.register(7, cluster.place, version=1)


ASK = """
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try:
    s.connect(sys.argv[1])
except PermissionError:
    sys.exit(13)
reply, fds, _, _ = socket.recv_fds(s, 16, 2)
sys.exit(99 if fds else struct.unpack("<2IiI", reply)[2])
"""


def ask_as_nobody(path: Path) -> int:
    command = (sys.executable, "-c", BECOME_NOBODY + ASK, str(path))
    return subprocess.run(command, check=False, timeout=60).returncode


def test_only_root_and_slurm_user_are_given_pages(agent):
    assert ask_as_nobody(agent.socket) == errno.EACCES
    agent.socket.chmod(0o666)  # as a site might
    assert ask_as_nobody(agent.socket) == errno.EPERM


def context_switches(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


def test_an_agent_without_jobs_sleeps(cluster, agent):
    """Registered jobs wake it several times a second; without any it waits to be spoken to."""
    page = cluster.page(agent, 7)
    before = context_switches(agent.pid)
    wait_for(lambda: context_switches(agent.pid) > before + 3)
    page.leave()
    subprocess.run(("sleep", "0.3"), check=True)
    quiet = context_switches(agent.pid)
    subprocess.run(("sleep", "1"), check=True)
    assert context_switches(agent.pid) == quiet
