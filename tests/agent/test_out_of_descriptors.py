"""A daemon that has no descriptor left for who connects sleeps, and goes on when it has."""

import os
import resource
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from turns_daemons import Cluster, Daemon, wait_for


@contextmanager
def no_descriptor_left(pid: int) -> Iterator[None]:
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = max(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir())
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 1, before[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def ticks_of(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def assert_it_sleeps(daemon: Daemon) -> None:
    """In two seconds a loop that spins gets a good part of a processor, however busy."""
    before = ticks_of(daemon.pid)
    subprocess.run(("sleep", "2"), check=True)
    assert ticks_of(daemon.pid) - before < os.sysconf("SC_CLK_TCK") // 10


@pytest.mark.parametrize("jobs", [0, 1])
def test_an_agent_out_of_descriptors_does_not_spin(cluster: Cluster, jobs: int) -> None:
    agent = cluster.agent()
    for job_id in range(1, jobs + 1):
        cluster.page(agent, job_id)
    with ExitStack() as stack, no_descriptor_left(agent.pid):
        for _ in range(5):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            stack.enter_context(connection).connect(str(agent.socket))
        assert_it_sleeps(agent)
    assert cluster.page(agent, 7).words.until == 0


def test_a_coordinator_out_of_descriptors_does_not_spin(cluster: Cluster) -> None:
    cluster.start_turns()
    with ExitStack() as stack, no_descriptor_left(cluster.turns.pid):
        for _ in range(5):
            address = ("127.0.0.1", cluster.port)
            stack.enter_context(socket.create_connection(address, timeout=60))
        assert_it_sleeps(cluster.turns)
    cluster.page(cluster.agent(), 7)
    wait_for(lambda: cluster.status()["facts"].get("agents") == 1, "for the agent")
