"""--io-turns with agents: jobs of a real Slurm get pages, are held, and go on.

The lab's two nodes share this machine, and one agent.
"""

import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import turns_daemons
from spank_lab import OTHER_USER, Lab, needs_root, printed
from turns_daemons import NOBODY, RATE, REPLY, REQUEST, Agent, Cluster, wait_for

pytestmark = [pytest.mark.slurm, needs_root]

SLUICE = Path(sys.executable).with_name("sluice")
MIB = 2**20
MOUNT = Path("/dev/shm")  # noqa: S108 - where the daemons of turns_daemons lie
USER = (f"--uid={OTHER_USER}", "--chdir=/", "--time=60")
DESCRIPTORS = "srun find /proc/self/fd -type l -printf '%f %l\\n' | grep -v /proc/ | sort -n"

WRITER = f"""
import os, sys, time
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
count = int(sys.argv[2])
for number in range(count):
    os.pwrite(fd, bytes({MIB}), number % 4 * {MIB})
    time.sleep({MIB / RATE})
while not os.path.exists(sys.argv[1] + ".end"):
    time.sleep(0.05)
print("wrote", count)
"""


class Taken:
    """A lab with a coordinator and an agent, and a folder that counts."""

    def __init__(self, lab: Lab, cluster: Cluster, library: Path) -> None:
        self.lab, self.cluster, self.library = lab, cluster, library
        self.folder = cluster.place / "scratch"
        self.folder.mkdir()
        self.folder.chmod(0o1777)
        self.socket = cluster.place / "node0.sock"
        (self.folder / "writer.py").write_text(WRITER)
        self.outputs: dict[int, Path] = {}
        self.configure()

    def configure(self, *arguments: str) -> None:
        given = arguments or (f"turns_on={MOUNT}", f"turns_socket={self.socket}")
        self.lab.plugstack(f"turns={self.library}", *given)

    def submit(self, name: str, mebibytes: int, *options: str) -> int:
        """A job whose step writes into `name` at RATE, and then waits for its end."""
        output = self.lab.output()
        body = f"srun -N1 -n1 python3 {self.folder}/writer.py {self.folder}/{name} {mebibytes}"
        job = self.lab.slurm.submit(
            *USER, "--io-turns", *options, f"--output={output}", f"--wrap={body}"
        )
        self.outputs[job] = output
        return job

    def moves(self, name: str) -> bool:
        """Whether more is written into it now."""
        path = self.folder / name
        before = path.stat().st_mtime_ns if path.exists() else 0
        time.sleep(0.3)
        return path.exists() and path.stat().st_mtime_ns > before

    def end(self, name: str) -> None:
        (self.folder / f"{name}.end").touch()

    def said(self, job: int) -> str:
        self.lab.slurm.wait_for_job(job, "COMPLETED", timeout=120)
        return printed(self.outputs[job])


@pytest.fixture
def taken(lab: Lab, library: Path) -> Iterator[Taken]:
    with turns_daemons.cluster() as cluster:
        yield Taken(lab, cluster, library)
        lab.slurm.run("scancel", "--full", f"--user={OTHER_USER}")
        lab.wait_for(lambda: not lab.slurm.run("squeue", "-h", f"--user={OTHER_USER}").stdout)


@pytest.fixture
def held(taken: Taken, request: pytest.FixtureRequest) -> tuple[Taken, Agent, int, int]:
    """A job of two nodes fills the lane, and one of one node is held.

    A parameter says how many MiB that one writes.
    """
    agent = taken.cluster.agent()
    taken.cluster.publish()
    taken.cluster.start_turns()
    wide = taken.submit("wide", 100_000, "--nodes=2", "--cpus-per-task=1")
    taken.cluster.publish(wide, wide + 1)
    wait_for(lambda: taken.moves("wide"), "for the wide job to write")
    narrow = taken.submit("narrow", getattr(request, "param", 100), "--nodes=1")
    assert narrow == wide + 1
    taken.cluster.wait_for_status(lambda found: found["facts"]["holding"])
    return taken, agent, wide, narrow


def test_the_bytes_of_a_job_are_seen(taken: Taken) -> None:
    taken.cluster.agent()
    taken.cluster.start_turns()
    job = taken.submit("file", 8)
    taken.cluster.wait_for_status(lambda found: found["counts"]["bytes"] == 8 * MIB)
    taken.end("file")
    assert taken.said(job) == "wrote 8\n"
    taken.cluster.wait_for_status(lambda found: found["facts"]["jobs"] == 0)


def test_a_job_is_held_and_goes_on_when_the_lane_is_free(held) -> None:
    taken, _, wide, narrow = held
    wait_for(lambda: not taken.moves("narrow"), "for the narrow job to wait")
    taken.lab.slurm.run("scancel", str(wide))
    wait_for(lambda: taken.moves("narrow"), "for it to go on")
    taken.end("narrow")
    assert taken.said(narrow) == "wrote 100\n"


def test_a_held_job_goes_on_when_the_agent_is_killed(held) -> None:
    taken, agent, _, narrow = held
    wait_for(lambda: not taken.moves("narrow"), "for the narrow job to wait")
    agent.kill()
    wait_for(lambda: taken.moves("narrow"), "for it to go on")
    taken.end("narrow")
    assert taken.said(narrow) == "wrote 100\n"


def test_a_held_job_that_is_cancelled_ends_at_once(held) -> None:
    taken, _, _, narrow = held
    wait_for(lambda: not taken.moves("narrow"), "for the narrow job to wait")
    taken.lab.slurm.run("scancel", str(narrow))
    assert taken.lab.slurm.wait_for_job(narrow, "CANCELLED", timeout=120)["ExitCode"] == "0:15"
    taken.cluster.wait_for_status(lambda found: found["facts"]["holding"] == 0)


@pytest.mark.acceptance
def test_a_suspended_job_keeps_nobody_waiting_and_goes_on_where_it_was(held) -> None:
    taken, _, wide, narrow = held
    run = taken.lab.slurm.run
    run("scontrol", "suspend", str(wide))
    wait_for(lambda: taken.moves("narrow"), "for the narrow job to go")
    run("scontrol", "resume", str(wide))
    wait_for(lambda: not taken.moves("narrow"), "for it to wait again")
    run("scontrol", "suspend", str(narrow))
    taken.cluster.wait_for_status(lambda found: found["facts"]["holding"] == 0)
    run("scontrol", "resume", str(narrow))
    run("scancel", str(wide))
    taken.end("narrow")
    assert "wrote 100\n" in taken.said(narrow)  # srun tells of SIGCONT as well


@pytest.mark.acceptance
def test_a_held_job_that_is_requeued_runs_from_its_beginning(held) -> None:
    taken, _, wide, narrow = held
    run = taken.lab.slurm.run
    wait_for(lambda: not taken.moves("narrow"), "for the narrow job to wait")
    run("scontrol", "requeue", str(narrow))
    taken.lab.slurm.wait_for_job(narrow, "PENDING")
    run("scancel", str(wide))
    taken.end("narrow")
    # nodes refuse it for two minutes: Slurm revoked its credential
    taken.lab.slurm.wait_for_job(narrow, "COMPLETED", timeout=300)
    assert taken.said(narrow) == "wrote 100\n"
    assert taken.lab.slurm.job(narrow)["Restarts"] == "1"


@pytest.mark.acceptance
def test_the_time_limit_ends_a_held_job(held) -> None:
    taken, _, _, narrow = held
    taken.lab.slurm.run("scontrol", "update", f"jobid={narrow}", "timelimit=1")
    taken.lab.slurm.wait_for_job(narrow, "TIMEOUT", timeout=240)
    taken.cluster.wait_for_status(lambda found: found["facts"]["holding"] == 0)


# it writes on while a command ends, which takes seconds on a busy machine
@pytest.mark.parametrize("held", [400], indirect=True)
def test_switching_sluice_off_lets_a_held_job_go_and_on_holds_it_again(held) -> None:
    taken, _, _, narrow = held
    config = f"--config={taken.cluster.config}"
    wait_for(lambda: not taken.moves("narrow"), "for the narrow job to wait")
    taken.lab.slurm.run(SLUICE, "off", config)
    wait_for(lambda: taken.moves("narrow"), "for it to go on")
    taken.lab.slurm.run(SLUICE, "on", config)
    wait_for(lambda: not taken.moves("narrow"), "for it to wait again")
    taken.cluster.configure(Turns="off")
    wait_for(lambda: taken.moves("narrow"), "for it to go on")
    taken.end("narrow")
    assert taken.said(narrow) == "wrote 400\n"


def test_tasks_inherit_page_and_words_out_of_the_way(taken: Taken) -> None:
    taken.cluster.agent()
    body = f"echo $SLUICE_TURNS; {DESCRIPTORS}; srun sh -c 'echo $SLUICE_TURNS'"
    without = taken.lab.script(*USER, body=DESCRIPTORS)[1].splitlines()
    first, *found, last = taken.lab.script(*USER, "--io-turns", body=body)[1].splitlines()
    assert first == last == "1000:1001"
    assert [line.split()[0] for line in found if "memfd:sluice" in line] == ["1000", "1001"]
    kept = [line.split()[0] for line in found if "memfd:sluice" not in line]
    assert kept == [line.split()[0] for line in without]
    assert not any("memfd" in line for line in without)


def test_a_step_without_a_page_does_not_keep_that_of_the_script(taken: Taken) -> None:
    taken.cluster.agent()
    body = "srun --no-sluice sh -c 'echo ${SLUICE_TURNS-none}'"
    assert taken.lab.script(*USER, "--io-turns", body=body)[1] == "none\n"


class Listener:
    """In the agent's place: notes requests, and refuses them."""

    def __init__(self, path: Path, error: int) -> None:
        self.requests: list[tuple[int, ...]] = []
        self._error = error
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection:
                self.requests.append(REQUEST.unpack(connection.recv(REQUEST.size)))
                reply = (turns_daemons.MAGIC, turns_daemons.VERSION, self._error, 0)
                connection.send(REPLY.pack(*reply))


def program(taken: Taken, *options: str) -> str:
    """Output, errors and exit code of a program that writes."""
    path = taken.folder / "file"
    path.unlink(missing_ok=True)
    body = (
        f"srun sh -c 'seq 100000 >{path}; echo out; echo err >&2; exit 3' 2>&1 | "
        f"sed s/StepId=[0-9.]*// | sort; cksum <{path}; echo ${{SLUICE_TURNS-none}}"
    )
    return taken.lab.script(*USER, *options, body=body)[1]


@pytest.mark.parametrize("agent", ["absent", "stopped", "refuses", "full"])
def test_without_an_agent_a_job_runs_as_without_sluice(taken: Taken, agent: str) -> None:
    expected = program(taken)
    if agent == "stopped":
        taken.cluster.agent().signal(19)
    elif agent == "refuses":
        Listener(taken.socket, 1)
    elif agent == "full":
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listening.bind(str(taken.socket))
        listening.listen(0)
        waiting = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        waiting.connect(str(taken.socket))
    assert program(taken, "--io-turns") == expected
    assert "out" in expected
    assert expected.endswith("none\n")


def test_the_request_describes_the_job(taken: Taken) -> None:
    listener = Listener(taken.socket, 1)
    job, _ = taken.lab.script(*USER, "--io-turns", "--nodes=2", body="srun -N1 -n1 true")
    assert len(listener.requests) == 2
    for (
        magic,
        version,
        job_id,
        _,
        uid,
        nodes,
        _,
        flags,
        most_held,
        count,
        _,
        block_targets,
        *devices,
    ) in listener.requests:
        assert (magic, version, job_id) == (turns_daemons.MAGIC, turns_daemons.VERSION, job)
        assert (uid, nodes, flags, block_targets) == (NOBODY, 2, 0, 0)
        assert 3000 // 20 < most_held <= 3600 // 20
        assert devices[:count] == [MOUNT.stat().st_dev]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("turns_on=/nowhere",), "nothing is mounted at /nowhere"),
        (("turns_on=scratch",), "turns_on=scratch: give a path"),
        ((f"turns_on={MOUNT}", "turns_socket=/nowhere"), "no agent answers at /nowhere"),
    ],
)
def test_the_node_says_why_nobody_takes_turns(
    taken: Taken, arguments: tuple[str, ...], why: str
) -> None:
    taken.configure(*arguments)
    assert taken.lab.script(*USER, "--io-turns", body="echo ${SLUICE_TURNS-none}")[1] == "none\n"
    assert why in taken.lab.node_log()
