"""munged, sluice-turns and agents of several nodes on this machine, and jobs that they know."""

import contextlib
import json
import math
import os
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from mmap import MAP_SHARED, PROT_READ, PROT_WRITE, mmap
from pathlib import Path
from typing import Any, Self

import turns_page
from compile_c import BUILD, ROOT, compiled, make
from private_slurm import free_ports
from turns_page import FFI_OF_PAGE, TurnsPage, now_ns

from sluice.policies.snapshot import pack_snapshot

PATIENCE = 60.0  # seconds; much of it passes where many tests share two cores
NOBODY = 65534
NO_LIMIT = 2**32 - 1
REQUEST = struct.Struct("<12I32Q")
REPLY = struct.Struct("<2IiI")
MAGIC, VERSION = 0x61736C73, 2
RATE = 20_000_000
"""B/s: what the one lane serves, and what each job of the snapshot takes while it writes."""


def build() -> Path:
    """The folder with both programs; built if need be."""
    make("slurm-plugin/node/agent")
    make("slurm-plugin/controller/turns")
    return BUILD / "bin"


def build_first_come() -> Path:
    """A sluice-turns that lets bursts go in the order in which they began."""
    wrap = compiled(
        Path(__file__).with_name("first_come.c"), "-c", f"-I{ROOT}/policies/core", suffix=".o"
    )
    place = BUILD / "first-come"
    program = place / "bin" / "sluice-turns"
    linked = f"LDFLAGS=-Wl,--wrap=sluice_turns_decide {wrap}"
    make("slurm-plugin/controller/turns", place, linked, str(program))
    return program


def build_unbounded() -> Path:
    """A sluice-turns that forgets how long a burst has been held at this stretch."""
    wrap = compiled(
        Path(__file__).with_name("unbounded.c"), "-c", f"-I{ROOT}/policies/core", suffix=".o"
    )
    place = BUILD / "unbounded"
    program = place / "bin" / "sluice-turns"
    make(
        "slurm-plugin/controller/turns",
        place,
        f"LDFLAGS=-Wl,--wrap=sluice_turns_pass {wrap}",
        str(program),
    )
    return program


def wait_for(condition: Callable[[], Any], what: str = "") -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"waited in vain {what}"
        time.sleep(0.02)
    return answer


class Daemon:
    """A process that ends with the one that started it."""

    def __init__(self, log: Path, *command: str | Path, uid: int = 0) -> None:
        self.log = log
        self.command = [str(word) for word in command]
        self.uid = uid

    def start(self) -> Self:
        become = (f"--reuid={self.uid}", "--clear-groups") if self.uid != os.geteuid() else ()
        words = ("setpriv", "--pdeathsig", "KILL", *become, *self.command)
        with self.log.open("a") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    @property
    def name(self) -> str:
        return self.log.stem

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> int:
        """SIGTERM, also where it is stopped; what it ends with."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)
        return self.process.wait(PATIENCE)

    def wait_for_log(self, words: str) -> None:
        wait_for(lambda: words in self.log.read_text(), f"for {words!r} in {self.log}")


class AgentPage(TurnsPage):
    """Page and words that an agent handed out."""

    def __init__(self, connection: socket.socket, page_fd: int, words_fd: int) -> None:
        self._connection = connection
        self._page_fd, self._words_fd = page_fd, words_fd
        page = mmap(page_fd, os.fstat(page_fd).st_size, MAP_SHARED, PROT_READ | PROT_WRITE)
        words = mmap(words_fd, os.fstat(words_fd).st_size, MAP_SHARED, PROT_READ)
        self.page = FFI_OF_PAGE.cast(
            "struct sluice_turns_page *", FFI_OF_PAGE.from_buffer(page, require_writable=True)
        )
        self.words = FFI_OF_PAGE.cast("struct sluice_turns_words *", FFI_OF_PAGE.from_buffer(words))
        self._kept = (page, words)

    @property
    def is_held(self) -> bool:
        """Or slowed down."""
        return bool(self.words.until > now_ns())

    @property
    def most(self) -> float:
        """B/s that each process may write now."""
        return float(self.words.rate) if self.is_held else math.inf

    def leave(self) -> None:
        """The step ends."""
        self._connection.close()

    def close(self) -> None:
        self.leave()
        super().close()


class RefusedError(Exception):
    """The agent's reply has an error; the argument is its number."""


class Agent(Daemon):
    """The agent of a node."""

    def __init__(
        self, name: str, place: Path, port: int, munge: Path, *, uid: int = 0, slurm_user: str = ""
    ) -> None:
        self.socket = place / f"{name}.sock"
        options = ("--coordinator", f"127.0.0.1:{port}", "--socket", self.socket)
        slurm_options = ("--slurm-user", slurm_user) if slurm_user else ()
        super().__init__(
            place / f"{name}.log",
            *(build() / "sluice-agent", *options, "--munge-socket", munge, *slurm_options),
            uid=uid,
        )

    def start(self) -> Self:
        super().start()
        wait_for(self._listens, f"for {self.socket}")
        return self

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            return connection.connect_ex(str(self.socket)) == 0

    def register(
        self,
        job_id: int,
        *places: Path,
        nodes: int = 1,
        slots: int = 8,
        most_held: int = NO_LIMIT,
        step_id: int = 0,
        version: int = VERSION,
        flags: int = 0,
        block: tuple[int, int] = (0, 0),
        uid: int | None = None,
        patience: float = PATIENCE,
    ) -> AgentPage:
        """As slurmstepd does; raises RefusedError."""
        devices = [place.stat().st_dev for place in places]
        request = REQUEST.pack(
            *(MAGIC, version, job_id, step_id, os.geteuid() if uid is None else uid, nodes, slots),
            *(turns_page.ROOT_TOO | flags, most_held, len(devices), *block),
            *(devices + [0] * 32)[:32],
        )
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(patience)
        try:
            connection.connect(str(self.socket))
            connection.send(request)
            reply, descriptors, _, _ = socket.recv_fds(connection, REPLY.size, 2)
        except OSError:
            connection.close()
            raise
        error = REPLY.unpack(reply)[2]
        if error:
            connection.close()
            raise RefusedError(error)
        return AgentPage(connection, *descriptors)


class Rank:
    """A process that writes as fast as it may, in a page of its own; no file is written.

    What the shim would count and obey; the process itself sleeps, and can be killed.
    """

    def __init__(
        self, page: AgentPage, slot: int = 0, *, rate: int = RATE, obeys: bool = True
    ) -> None:
        """obeys: False, all that it writes is one call, which no word stops."""
        self.process = subprocess.Popen(["sleep", "1000"])
        self._page, self.rate, self._obeys = page, rate, obeys
        self.slot = page.page.slots[slot]
        self.slot.taken = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.slot.pid = self.process.pid
        self._start_thread()

    def _start_thread(self) -> None:
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        before = now_ns()
        while not self._ends.is_set():
            now = now_ns()
            rate = min(self.rate, self._page.most) if self._obeys else self.rate
            self.slot.waiting = self._obeys and self._page.most == 0
            self.slot.writing = not self.slot.waiting
            if self.slot.writing:
                self.slot.bytes += int(rate * (now - before) / 1e9)
                self.slot.operations += 1
                self.slot.last = now
            before = now
            time.sleep(0.02)

    def finish(self) -> None:
        """End the burst; the process lives on."""
        self.kill_thread()
        self.slot.writing = self.slot.waiting = 0

    def kill(self) -> None:
        """SIGKILL: what is in flight stays in flight."""
        self.kill_thread()
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """SIGSTOP in the midst of a write."""
        self.kill_thread()
        self.slot.writing, self.slot.waiting = 1, 0
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self._start_thread()

    def kill_thread(self) -> None:
        self._ends.set()
        self._thread.join()


class Cluster:
    """One coordinator, and as many agents as are started."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.port = free_ports(1)[0]
        self.munge = place / "munge.sock"
        self.config = place / "sluice.conf"
        self.snapshot = place / "cluster.snapshot"
        self.off_file = place / "off"
        self.agents: list[Agent] = []
        self.ranks: list[Rank] = []
        self.pages: list[AgentPage] = []
        (place / "key").write_bytes(os.urandom(1024))
        (place / "key").chmod(0o400)
        self.munged = self._new_munged(self.munge)
        command = (build() / "sluice-turns", "--config", self.config, "--address", "127.0.0.1")
        self.turns = Daemon(place / "turns.log", *command, "--munge-socket", self.munge)

    def _new_munged(self, at: Path) -> Daemon:
        files = {
            "socket": at,
            "key-file": self.place / "key",
            "pid-file": self.place / f"{at.name}.pid",
            "log-file": self.place / f"{at.name}.log",
            "seed-file": self.place / f"{at.name}.seed",
        }
        options = [f"--{name}={path}" for name, path in files.items()]
        log = self.place / f"{at.name}.out"
        return Daemon(log, "munged", "--foreground", *options, "--num-threads=2")

    def start_munged(self) -> None:
        self.munge.unlink(missing_ok=True)
        self.munged.start()
        wait_for(self.munge.exists, "for munged")

    # -- what the coordinator reads -------------------------------------------

    def configure(
        self,
        mode: str = "enforce",
        bandwidth: int = RATE,
        lanes: Sequence[str] = ("sl0",),
        operations: int = 0,
        targets: int = 1,
        **settings: object,
    ) -> None:
        given = {
            "Mode": mode,
            "TurnsPort": self.port,
            "Snapshot": self.snapshot,
            "Bundle": self.place / "model.bundle",
            "OffFile": self.off_file,
            "MaxSnapshotAge": 3600,
        } | settings
        lines = [f"{key}={value}" for key, value in given.items()]
        rates = f"Bandwidth={bandwidth}" + (f" Operations={operations}" if operations else "")
        lines += [f"Lane={lane} Targets={targets} {rates}" for lane in lanes]
        draft = self.config.with_suffix(".new")
        draft.write_text("\n".join([*lines, ""]))
        draft.rename(self.config)

    def publish(self, *job_ids: int, burst_seconds: float = 60.0) -> None:
        """Jobs that each fill the lane while they write."""
        profile = {
            "rate": float(RATE),
            "burst_seconds": burst_seconds,
            "io_share": 0.5,
            "share": {"aw": 1.0},
            "pattern": "aw",
        }
        self.publish_jobs(*({"job_id": job_id, "profile": profile} for job_id in job_ids))

    def publish_jobs(self, *jobs: Mapping[str, Any]) -> None:
        """As sluiced does: members of struct sluice_corunner, one job each."""
        taken = int(time.time())
        usual = {"nodes": 1, "klass": "stream", "expected_end": taken + 3600}
        draft = self.snapshot.with_suffix(".new")
        draft.write_bytes(
            pack_snapshot(
                state={"sequence": 1, "taken": taken, "running": len(jobs), "pending": 0},
                corunners=[usual | dict(job) for job in jobs],
            )
        )
        draft.rename(self.snapshot)

    # -- daemons ----------------------------------------------------------------

    def start_turns(self, *options: str) -> None:
        self.turns.command += options
        self.turns.start()
        self.turns.wait_for_log("listening")

    def change_turns(self, program: Path) -> None:
        """Let it be the coordinator; agents find it by themselves."""
        if self.turns.command[0] == str(program):
            return
        self.turns.kill()
        self._status.unlink(missing_ok=True)
        self.turns.command[0] = str(program)
        self.restart_turns()
        self.wait_for_status(lambda _: True)

    def restart_turns(self) -> None:
        self.turns.log.unlink()
        self.turns.start()
        self.turns.wait_for_log("listening")

    def agent(self, **options: Any) -> Agent:
        name = f"node{len(self.agents)}"
        place = options.pop("place", self.place)
        agent = Agent(name, place, self.port, self.munge, **options)
        self.agents.append(agent)
        return agent.start()

    def page(self, agent: Agent, job_id: int, **options: Any) -> AgentPage:
        page = agent.register(job_id, self.place, **options)
        self.pages.append(page)
        return page

    def rank(self, page: AgentPage, slot: int = 0, **options: Any) -> Rank:
        rank = Rank(page, slot, **options)
        self.ranks.append(rank)
        return rank

    # -- what the coordinator tells -----------------------------------------------

    @property
    def _status(self) -> Path:
        return self.snapshot.with_name(self.snapshot.name + ".turns.status")

    def status(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._status.read_text())
        except FileNotFoundError:
            return {"counts": {}, "facts": {}, "named": {"bursts": {}}}
        return found

    def wait_for_status(self, condition: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            status = self.status()
            return status if status["facts"] and condition(status) else None

        answer: dict[str, Any] = wait_for(found, f"for a status; it is {self.status()}")
        return answer

    def close(self) -> None:
        for rank in self.ranks:
            rank.kill()
        for page in self.pages:
            page.close()
        for daemon in (*self.agents, self.turns, self.munged):
            if hasattr(daemon, "process"):
                daemon.kill()


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """Without daemons but munged; in a place that other users may enter, in memory as /run is."""
    memory = Path("/dev/shm")  # noqa: S108 - not a guessable name
    with tempfile.TemporaryDirectory(
        prefix="turns-", dir=memory if memory.is_dir() else None
    ) as name:
        place = Path(name)
        place.chmod(0o755)
        found = Cluster(place)
        found.configure()
        found.start_munged()
        try:
            yield found
        finally:
            found.close()
