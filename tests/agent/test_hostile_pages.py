"""Whatever a job writes into its page: looking at it costs little, and others do not wait."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from turns_daemons import Agent, AgentPage, Cluster, wait_for

SLOTS = 256
NEVER_A_PID = 2**31 - 2
OWN_SPACE = Path("/proc/self/ns/pid").stat().st_ino
FOREIGN_SPACE = 1


@pytest.fixture
def agent(cluster: Cluster) -> Agent:
    return cluster.agent()


def reads_of(agent: Agent) -> int:
    """Calls of read by the agent, each for a file of one process at most."""
    lines = Path(f"/proc/{agent.pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["syscr"])


def wait_for_checks(page: AgentPage, count: int) -> None:
    """Each check frees the slot of a process that is gone."""
    slot = page.page.slots[0]
    for _ in range(count):
        slot.pid_namespace, slot.pid = OWN_SPACE, NEVER_A_PID
        wait_for(lambda: slot.pid == 0, "for a check")


def a_scan_a_slot() -> int:
    return SLOTS * sum(entry.name.isdecimal() for entry in Path("/proc").iterdir())


def fill(page: AgentPage, pid: Callable[[int], int], space: int, **members: int) -> None:
    for i in range(SLOTS):
        slot = page.page.slots[i]
        slot.taken = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        slot.pid_namespace = space
        for name, value in members.items():
            setattr(slot, name, value)
        slot.pid = pid(i)


CONTENTS: dict[str, Callable[[AgentPage], None]] = {
    "pids of containers that are gone": lambda page: fill(page, lambda _: 1, FOREIGN_SPACE),
    "pids of an unknown namespace": lambda page: fill(page, lambda i: NEVER_A_PID - i, 0),
    "pids that are no numbers of processes": lambda page: fill(page, lambda i: 2**32 - 1 - i, 0),
    "processes of others that write": lambda page: fill(page, lambda _: 1, 0, writing=1),
}


@pytest.mark.parametrize("content", CONTENTS)
def test_no_slot_costs_a_scan_of_all_processes(
    cluster: Cluster, agent: Agent, content: str
) -> None:
    hostile = [cluster.page(agent, job_id, slots=SLOTS) for job_id in (7, 8)]
    honest = cluster.page(agent, 9)
    wait_for_checks(honest, 1)
    before = reads_of(agent)
    for _ in range(3):
        for page in hostile:
            CONTENTS[content](page)  # anew: the agent frees what is of the dead
        wait_for_checks(honest, 1)
    assert reads_of(agent) - before < a_scan_a_slot()


def test_registrations_are_answered_beside_hostile_pages(cluster: Cluster, agent: Agent) -> None:
    hostile = [cluster.page(agent, job_id, slots=SLOTS) for job_id in range(1, 9)]
    before = reads_of(agent)
    for job_id in range(100, 120):
        for page in hostile:
            fill(page, lambda i: 1 + i, FOREIGN_SPACE)
        cluster.page(agent, job_id)
    wait_for_checks(cluster.pages[-1], 1)
    assert reads_of(agent) - before < a_scan_a_slot()


LEAVE_LOCK = """
import fcntl, os, sys, time
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
if os.fork() == 0:
    os.close(1)
    time.sleep(1000)
print(os.getpid())
os._exit(0)
"""


@pytest.fixture
def lock_of_the_dead(cluster: Cluster) -> Iterator[int]:
    """The pid of a process that is gone and left its lock to a child."""
    path = cluster.place / "locked"
    words = (sys.executable, "-c", LEAVE_LOCK, str(path))
    parent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, process_group=0)
    out, _ = parent.communicate(timeout=60)
    yield int(out)
    os.killpg(parent.pid, 9)


def test_locks_are_read_once_for_all_slots(
    cluster: Cluster, agent: Agent, lock_of_the_dead: int
) -> None:
    with (cluster.place / "locked").open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    page, honest = cluster.page(agent, 7, slots=SLOTS), cluster.page(agent, 8)
    fill(page, lambda _: lock_of_the_dead, OWN_SPACE, locks=1)
    wait_for_checks(honest, 1)
    before = reads_of(agent)
    wait_for_checks(honest, 2)
    assert reads_of(agent) - before < SLOTS
    assert all(page.page.slots[i].pid == lock_of_the_dead for i in range(SLOTS))


def test_a_slot_of_another_users_process_is_freed(cluster: Cluster, agent: Agent) -> None:
    """In the course of 30 checks; in slot 27, at the third."""
    page = cluster.page(agent, 7, slots=64, uid=65534)
    slot = page.page.slots[27]
    slot.taken = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    slot.pid_namespace, slot.writing, slot.pid = OWN_SPACE, 1, 1
    wait_for(lambda: slot.pid == 0)


@pytest.fixture
def contained() -> Iterator[tuple[subprocess.Popen[Any], int]]:
    """A process that is number 1 of a pid namespace, and that namespace."""
    words = ("unshare", "--pid", "--fork", "--kill-child", "sleep", "1000")
    with subprocess.Popen(words) as outer:
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        inner = int(wait_for(lambda: children.read_text().split())[0])
        yield outer, Path(f"/proc/{inner}/ns/pid").stat().st_ino
        outer.kill()


def test_a_process_in_a_container_keeps_its_slot_until_it_ends(
    cluster: Cluster, agent: Agent, contained: tuple[subprocess.Popen[Any], int]
) -> None:
    outer, space = contained
    page, honest = cluster.page(agent, 7), cluster.page(agent, 8)
    for i in range(2):  # another container's is gone
        slot = page.page.slots[i]
        slot.taken = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        slot.pid_namespace, slot.writing, slot.pid = (space, FOREIGN_SPACE)[i], 1, 1
    wait_for(lambda: page.page.slots[1].pid == 0)
    wait_for_checks(honest, 3)
    assert page.page.slots[0].pid == 1
    outer.kill()
    outer.wait()
    wait_for(lambda: page.page.slots[0].pid == 0)
