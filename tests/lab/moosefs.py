"""A real MooseFS on this machine: a parallel file system whose targets are lanes.

Every lane is one chunkserver with a label of its own on a throttled target, and
a storage class `only_LANE` that keeps a directory's files there. The storage class
is inherited, so whatever is made below `path(LANE)` stays on the lane.

Needs root. From Python only: the daemons are children of this process, and end
with it however it ends.

    with MooseFS(directory, lanes=("sl0", "sl1")) as moosefs:
        (moosefs.path("sl0") / "file").write_bytes(b"data")
        assert moosefs.file_targets(moosefs.path("sl0") / "file") == {"sl0"}

MooseFS's chunkservers refuse a master on 127.x, so all of it lives in a network
namespace of its own, with an address that exists nowhere else; the mounts are seen
by everybody. MooseFS's tools must be started in the namespace: see `command`.

Space of deleted files is freed only minutes later; a full lane is an error
(ENOSPC) at once.
"""

import os
import re
import shutil
import string
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import loop_device
from loop_device import LoopDeviceError
from storage_targets import StorageTargets, StorageTargetsError
from target_kinds import MIB, Limits
from up_and_down import UpAndDown

ADDRESS = "10.231.77.1"
TOOL_PORT, CHUNKSERVER_PORT, CLIENT_PORT, DATA_PORT = 19419, 19420, 19421, 19430
EMPTY_METADATA = Path("/var/lib/mfs/metadata.mfs.empty")
READY_TIMEOUT = 30.0  # seconds
LOG_TAIL = 2000  # characters of a daemon's output in an error

# MooseFS acknowledges what lies in a chunkserver's page cache; only a backing file
# system mounted `sync` makes the target the bottleneck. Deleted data stays for
# minutes, so there is room for a session.
MOUNT_OPTIONS = "noatime,discard,sync"
LIMITS = Limits(bandwidth=40_000_000, operations=0, size=4500 * MIB)
CLIENT_CACHE = 16  # MiB; the default of 256 would hide the target

COMMON_CONFIG = """\
WORKING_USER = root
WORKING_GROUP = root
LOCK_MEMORY = 0
NICE_LEVEL = 0
"""

MASTER_CONFIG = """\
DATA_PATH = {place}/master
EXPORTS_FILENAME = {place}/exports.cfg
TOPOLOGY_FILENAME = {place}/topology.cfg
MATOML_LISTEN_HOST = {address}
MATOML_LISTEN_PORT = {tool_port}
MATOCS_LISTEN_HOST = {address}
MATOCS_LISTEN_PORT = {chunkserver_port}
MATOCL_LISTEN_HOST = {address}
MATOCL_LISTEN_PORT = {client_port}
REPLICATIONS_DELAY_INIT = 0
"""

CHUNKSERVER_CONFIG = """\
DATA_PATH = {place}/chunkserver-{lane}
LABELS = {label}
HDD_CONF_FILENAME = {place}/disks-{lane}.cfg
HDD_LEAVE_SPACE_DEFAULT = 64MiB
MASTER_HOST = {address}
MASTER_PORT = {chunkserver_port}
MASTER_RECONNECTION_DELAY = 1
CSSERV_LISTEN_HOST = {address}
CSSERV_LISTEN_PORT = {data_port}
"""


class MooseFSError(Exception):
    """It did not come up, or a tool failed; the text carries what was printed."""


class MooseFS(UpAndDown):
    """One MooseFS below a directory, with so many client mounts.

    A program that shall not share a client's cache with another, as on a node of
    its own, uses another client.
    """

    def __init__(
        self,
        place: Path | str,
        *,
        lanes: Sequence[str] = ("sl0", "sl1"),
        limits: Limits = LIMITS,
        clients: int = 1,
    ) -> None:
        self.place = Path(place).resolve() / "moosefs"
        self.lanes = tuple(lanes)
        self.mounts = [self.place / f"client{i}" for i in range(clients)]
        self.targets = StorageTargets(
            self.place,
            lanes=lanes,
            limits=limits,
            kinds=("blkio", "io.max"),
            mount_options=MOUNT_OPTIONS,
        )
        self._servers = self.place / "servers"  # their configuration, data and logs
        self._namespace = self._servers / "network"
        self._mounted: list[Path] = []
        self._daemons: list[subprocess.Popen[bytes]] = []

    @staticmethod
    def missing() -> str:
        """Why MooseFS cannot run here, or an empty string."""
        if os.geteuid() != 0:
            return "MooseFS needs root"
        programs = ("mfsmaster", "mfschunkserver", "mfsmount", "ip", "nsenter", "setpriv")
        absent = [name for name in programs if not shutil.which(name)]
        if absent:
            return f"not installed: {', '.join(absent)}"
        return "" if Path("/dev/fuse").exists() else "no /dev/fuse"

    # -- life ---------------------------------------------------------------

    def up(self) -> None:
        """Bring all of it up, or nothing."""
        if reason := self.missing():
            raise MooseFSError(reason)
        try:
            self.targets.up()
        except StorageTargetsError as error:
            raise MooseFSError(str(error)) from None
        try:
            shutil.rmtree(self._servers, ignore_errors=True)  # of an owner that was killed
            self._servers.mkdir()
            self._make_namespace()
            self._write_config()
            self._start_servers()
            for number in range(len(self.mounts)):
                self._mount(number)
            for lane in self.lanes:
                self._make_lane(lane)
        except (LoopDeviceError, OSError) as error:
            self.down()
            raise MooseFSError(str(error)) from None
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Remove all of it; may be repeated. Its data goes, so nothing is flushed."""
        while self._mounted:
            loop_device.unmount(self._mounted.pop())
        for daemon in self._daemons:
            daemon.kill()
        for daemon in self._daemons:
            daemon.wait()
        self._daemons.clear()
        self.targets.down()
        shutil.rmtree(self.place, ignore_errors=True)

    # -- use ----------------------------------------------------------------

    def path(self, lane: str, *, client: int = 0) -> Path:
        """Directory whose files stay on the lane, seen through a client."""
        return self.mounts[client] / lane

    def storage_class(self, lane: str) -> str:
        return f"only_{lane}"

    def file_targets(self, path: Path) -> frozenset[str]:
        """Lanes on which the file's chunks lie, by mfsfileinfo; none for an empty file."""
        ports = re.findall(rf"{re.escape(ADDRESS)}:(\d+)", self.run("mfsfileinfo", path))
        return frozenset(self.lanes[int(port) - DATA_PORT] for port in ports)

    def command(self, *words: str | Path) -> list[str]:
        """The command line that runs in the file system's network."""
        return ["nsenter", f"--net={self._namespace}", *map(str, words)]

    def run(self, *words: str | Path) -> str:
        """What a MooseFS tool prints. Raises MooseFSError with its complaint."""
        done = subprocess.run(self.command(*words), check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise MooseFSError(f"{words[0]}: {done.stdout.strip()}{done.stderr.strip()}")
        return done.stdout

    # -- making ---------------------------------------------------------------

    def _make_namespace(self) -> None:
        self._namespace.touch()
        self.targets.also_unmount(self._namespace)
        loop_device.run("unshare", f"--net={self._namespace}", "true")
        loop_device.run(*self.command("ip", "link", "set", "lo", "up"))
        loop_device.run(*self.command("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"))

    def _write_config(self) -> None:
        facts = {
            "place": self._servers,
            "address": ADDRESS,
            "tool_port": TOOL_PORT,
            "chunkserver_port": CHUNKSERVER_PORT,
            "client_port": CLIENT_PORT,
        }
        (self._servers / "master").mkdir()
        shutil.copy(EMPTY_METADATA, self._servers / "master" / "metadata.mfs")
        (self._servers / "exports.cfg").write_text(f"{ADDRESS} / rw,alldirs,admin,maproot=0:0\n")
        (self._servers / "topology.cfg").touch()
        self._config("master").write_text(COMMON_CONFIG + MASTER_CONFIG.format(**facts))
        for number, lane in enumerate(self.lanes):
            (self._servers / f"chunkserver-{lane}").mkdir()
            (self._servers / f"disks-{lane}.cfg").write_text(f"{self.targets.path(lane)}\n")
            self._config(f"chunkserver-{lane}").write_text(
                COMMON_CONFIG
                + CHUNKSERVER_CONFIG.format(
                    **facts,
                    lane=lane,
                    label=self._label(lane),
                    data_port=DATA_PORT + number,
                )
            )

    def _start_servers(self) -> None:
        self._start("master", "mfsmaster", "-f", "-c", self._config("master"), "start")
        for lane in self.lanes:
            name = f"chunkserver-{lane}"
            words = ("mfschunkserver", "-f", "-c", self._config(name), "start")
            self._start(name, *self.targets.command(*words))

    def _mount(self, number: int) -> None:
        mount = self.mounts[number]
        mount.mkdir(exist_ok=True)
        self.targets.also_unmount(mount)
        options = f"mfswritecachesize={CLIENT_CACHE},mfserroronnospace,mfsdelayedinit"
        where = ("-H", ADDRESS, "-P", str(CLIENT_PORT))
        self._start(mount.name, "mfsmount", "-f", mount, *where, "-o", options)
        self._wait(mount.name, lambda: mount in loop_device.mounts(below=mount))
        self._mounted.append(mount)

    def _make_lane(self, lane: str) -> None:
        """The storage class and a directory of it, in which a file can be written."""
        root, name = self.mounts[0], self.storage_class(lane)
        directory = root / lane

        def arranged() -> bool:
            try:
                directory.mkdir(exist_ok=True)
                if name not in self.run("mfsscadmin", root, "list").split():
                    self.run("mfsscadmin", root, "create", "-m", "s", self._label(lane), name)
                self.run("mfssetsclass", name, directory)
                self.run("mfssettrashtime", "0", directory)
            except (MooseFSError, OSError):
                return False  # the master does not listen yet
            return True

        def usable() -> bool:
            probe = directory / ".probe"
            try:
                probe.write_bytes(b"x")
                probe.unlink()
            except OSError:
                return False  # the chunkserver has not registered yet
            return shutil.disk_usage(directory).total > 0  # the master counts it a second later

        self._wait("master", arranged)
        self._wait(f"chunkserver-{lane}", usable)
        directory.chmod(0o1777)

    def _start(self, name: str, *words: str | Path) -> None:
        """Start a daemon that dies with this process (its main thread), also by kill -9."""
        with self._log(name).open("wb") as log:
            self._daemons.append(
                subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", *self.command(*words)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # a Ctrl-C is for this process
                )
            )

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_TIMEOUT
        while not ready():
            ended = [daemon.args for daemon in self._daemons if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                text = self._log(name).read_text(errors="replace")[-LOG_TAIL:]
                raise MooseFSError(f"{name} did not become ready; ended: {ended}\n{text}")
            time.sleep(0.05)

    def _label(self, lane: str) -> str:
        return string.ascii_uppercase[self.lanes.index(lane)]

    def _config(self, name: str) -> Path:
        return self._servers / f"{name}.cfg"

    def _log(self, name: str) -> Path:
        return self._servers / f"{name}.log"
