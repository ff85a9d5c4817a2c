#!/usr/bin/env python3
"""A private Slurm on this machine: munged, slurmctld and several slurmd.

No systemd and no root-owned paths: everything lives below one directory, on
free ports of the loopback address, so any number of instances run side by side.

    tests/lab/private_slurm.py up /tmp/lab --nodes 4 --plugin-dir build/plugins \\
        --set JobSubmitPlugins=sluice --environment SLUICE_CONF=/tmp/lab/sluice.conf
    eval "$(tests/lab/private_slurm.py env /tmp/lab)"
    sbatch --wrap 'sleep 10'; squeue
    tests/lab/private_slurm.py status /tmp/lab
    tests/lab/private_slurm.py down /tmp/lab

From Python, `with PrivateSlurm(directory) as slurm: slurm.run("sinfo")`; what was
started is taken down again, also when the block fails or its process is killed.
`up` from the command line stays.
`down` signals only daemons whose pid file and command line belong to the directory,
and jobs; `wipe`, for a cluster whose owner has died, all that was started with its
slurm.conf in the environment.
"""

import argparse
import contextlib
import os
import pwd
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import processes
from guard import Guard
from up_and_down import UpAndDown

NODE_CPUS = 4
READY_TIMEOUT = 30.0  # seconds until a daemon counts as not coming up
STOP_TIMEOUT = 10.0  # seconds between SIGTERM and SIGKILL
LOG_TAIL = 15  # lines of a daemon's log in an error
REEXECUTES = (23, 11)  # from this release on, a reconfigure makes a new slurmctld
ASKS_FOR_CGROUPS = (24, 5)  # slurmd does, even where nothing uses them

# What keeps a cluster free of cgroups, databases and long waits. Scheduling at
# once and often makes tests quick; everything else is Slurm's default.
BASE_SETTINGS = {
    "ClusterName": "lab",
    "AuthType": "auth/munge",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "JobAcctGatherType": "jobacct_gather/none",
    "SwitchType": "switch/none",
    "MpiDefault": "none",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core",
    "SlurmdParameters": "config_overrides",
    "SchedulerParameters": "batch_sched_delay=1,sched_interval=2,bf_interval=1",
    "CommunicationParameters": "NoCtldInAddrAny,NoInAddrAny",
    "SlurmctldDebug": "info",
    "SlurmdDebug": "info",
    "ReturnToService": "2",
    "MaxJobCount": "50000",
    "KillWait": "2",
    "PropagateResourceLimits": "NONE",
}


# What Slurm's commands say of a wait or of a race, each in the words of several releases: whether
# they do is a matter of the machine's load.
WAITING = re.compile(
    r"^(?:srun|salloc|sbatch): (?:"
    r"(?:Job|job)(?: \S+)? step creation (?:temporarily|still) disabled, retrying.*"
    r"|Step created for .*"
    r"|Pending job allocation \d+"
    r"|job \d+ (?:queued and waiting for resources|has been allocated resources)"
    r"|Waiting for resource configuration"
    r"|Nodes \S+ are ready for job"
    r"|Job allocation \d+ has been revoked\."
    r"|(?:error: )?Slurm controller not responding, sleeping and retrying\.?"
    r"|error: .*(?:, |; )retrying\b.*"
    r")\n",
    re.MULTILINE,
)


def without_waiting(text: str) -> str:
    """Return what a command or a job printed without what Slurm adds where it had to wait."""
    return WAITING.sub("", text)


class PrivateSlurmError(Exception):
    """A daemon did not come up, or did not go; the text carries its log."""


class PrivateSlurm(UpAndDown):
    """One private cluster below a directory.

    node_options and partitions map names to slurm.conf options ("Weight=2",
    "Default=YES MaxTime=5");
    settings replaces or adds slurm.conf keys; extra is appended as it is;
    environment is given to slurmctld on top of this process's own.
    """

    def __init__(
        self,
        directory: Path | str,
        *,
        nodes: int = 2,
        node_options: Mapping[str, str] | None = None,
        partitions: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        extra: str = "",
        plugin_dir: Path | str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(directory).resolve()
        self.node_names = [f"n{i}" for i in range(1, nodes + 1)]
        self.node_options = dict(node_options or {})
        self.partitions = dict(partitions or {"main": "Default=YES"})
        self.settings = dict(settings or {})
        self.extra = extra
        self.plugin_dir = Path(plugin_dir).resolve() if plugin_dir else None
        self.controller_environment = dict(environment or {})
        self.slurm_conf = self.directory / "etc" / "slurm.conf"
        self.controller_log = self.directory / "log" / "slurmctld.log"
        self._ports: list[int] = []
        self._guard = Guard(__file__, "wipe", self.directory)

    # -- life ---------------------------------------------------------------

    def up(self) -> None:
        """Start a cluster without jobs and wait until all its nodes are idle.

        All or nothing: when a daemon fails, the others are taken down again.
        """
        self._guard.start()
        try:
            self._make_directories()
            self._ports = free_ports(1 + len(self.node_names))
            self.write_config()
            self._start_munge()
            self.start_controller()
            self._start_nodes()
            self.wait_for_nodes()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Stop everything that was started below the directory; may be repeated."""
        self._stop("slurmctld")
        for pid_file in (self.directory / "run").glob("slurmd.*.pid"):
            self._stop(pid_file.stem)
        processes.kill(processes.of_jobs(self.slurm_conf))
        self._stop("munged")
        self.leave()

    def leave(self) -> None:
        """Let the cluster stay when this process ends; `down` stops it."""
        self._guard.dismiss()

    def wipe(self) -> None:
        """Kill every daemon, job and command of the cluster, also those just being started."""
        while found := processes.of_cluster(self.slurm_conf):
            processes.kill(found)
            time.sleep(0.05)

    def start_controller(self) -> None:
        """Start slurmctld and wait until it answers.

        What one that was killed had started may hold its port for a moment longer.
        """
        command = ["slurmctld", "-f", self.slurm_conf]
        deadline = time.monotonic() + READY_TIMEOUT
        while True:
            self._launch("slurmctld", command, self.controller_environment)
            try:
                self._wait("slurmctld", self.responds)
            except PrivateSlurmError as error:
                if "Address already in use" not in str(error) or time.monotonic() > deadline:
                    raise
                (self.directory / "log" / "slurmctld.log").unlink()  # its last words mislead
                time.sleep(0.5)
            else:
                return

    def stop_controller(self) -> None:
        """SIGTERM: slurmctld saves its state and leaves."""
        self._stop("slurmctld")

    def kill_controller(self) -> None:
        """SIGKILL, as a crash would. Jobs of the last 5 s may be lost (Slurm)."""
        pid = self.controller_pid()
        if pid:
            os.kill(pid, signal.SIGKILL)
            processes.wait_gone(pid, STOP_TIMEOUT)

    def restart_controller(self) -> None:
        self.stop_controller()
        self.start_controller()

    # -- asking and commanding ------------------------------------------------

    def run(
        self,
        *command: str | Path,
        timeout: float = 30.0,
        check: bool = True,
        stdin: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a client command against this cluster, never longer than timeout.

        What it says of a wait is taken out of its standard error.
        Raises PrivateSlurmError with both outputs when check is set and the
        command fails, subprocess.TimeoutExpired when it hangs.
        """
        done = subprocess.run(
            [str(word) for word in command],
            check=False,
            capture_output=True,
            text=True,
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            timeout=timeout,
            cwd=self.directory,
            env=self.client_environment() | dict(environment or {}),
        )
        if check and done.returncode != 0:
            raise PrivateSlurmError(
                f"{shlex.join(str(word) for word in command)} ended with {done.returncode}\n"
                f"{done.stdout}{done.stderr}"
            )
        done.stderr = without_waiting(done.stderr)
        return done

    def client_environment(self) -> dict[str, str]:
        """Environment in which Slurm's commands speak to this cluster only."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_"))}
        return inherited | {"SLURM_CONF": str(self.slurm_conf)}

    def submit(self, *arguments: str | Path) -> int:
        """Submit with sbatch and return the job id."""
        done = self.run("sbatch", "--parsable", "--output=/dev/null", *arguments)
        return int(done.stdout.split(";")[0])

    def job(self, job_id: int | str) -> dict[str, str]:
        """All that `scontrol show job` says of one job; values may hold blanks."""
        return parse_record(self.run("scontrol", "show", "job", "-o", str(job_id)).stdout)

    def wait_for_job(self, job_id: int, *states: str, timeout: float = 30.0) -> dict[str, str]:
        """Wait until the job is in one of the states; returns `job()`."""
        deadline = time.monotonic() + timeout
        while (job := self.job(job_id))["JobState"] not in states:
            if time.monotonic() > deadline:
                raise PrivateSlurmError(f"job {job_id} is {job['JobState']}, not in {states}")
            time.sleep(0.1)
        return job

    def reconfigure(self) -> None:
        """Have slurmctld read slurm.conf again; where that makes a new process, wait for it."""
        old = self.controller_pid()
        self.run("scontrol", "reconfigure")
        if slurm_version() >= REEXECUTES:
            self._wait("slurmctld", lambda: self.controller_pid() not in (None, old))
            self._wait("slurmctld", self.responds)

    def responds(self) -> bool:
        """Whether slurmctld answers a ping within 3 s."""
        try:
            return "is UP" in self.run("scontrol", "ping", timeout=3, check=False).stdout
        except subprocess.TimeoutExpired:
            return False

    def controller_pid(self) -> int | None:
        """Pid of the running slurmctld, or None."""
        return self._pid("slurmctld")

    def node_pid(self, name: str) -> int | None:
        """Pid of the running slurmd of a node, or None."""
        return self._pid(f"slurmd.{name}")

    def controller_alive(self) -> bool:
        return self.controller_pid() is not None

    def wait_for_nodes(self) -> None:
        """Wait until every node is idle, as after a start or restart."""
        wanted = sorted(self.node_names)

        def all_idle() -> bool:
            try:
                rows = self.run("sinfo", "-hN", "-t", "idle", "-o", "%N", timeout=3, check=False)
            except subprocess.TimeoutExpired:
                return False
            return sorted(set(rows.stdout.split())) == wanted

        self._wait("slurmctld", all_idle)

    # -- configuration --------------------------------------------------------

    def write_config(self) -> None:
        """Write slurm.conf anew, as after a change of settings or extra."""
        plugin_path = system_plugin_dir()
        if self.plugin_dir:
            plugin_path = f"{self.plugin_dir}:{plugin_path}"
        user = pwd.getpwuid(os.geteuid()).pw_name
        place = self.directory
        settings = BASE_SETTINGS | {
            "SlurmctldHost": f"{socket.gethostname().split('.')[0]}(127.0.0.1)",
            "SlurmctldPort": str(self._ports[0]),
            "SlurmUser": user,
            "SlurmdUser": user,
            "AuthInfo": f"socket={place}/munge/socket",
            "StateSaveLocation": f"{place}/state",
            "SlurmdSpoolDir": f"{place}/spool/%n",
            "SlurmctldPidFile": f"{place}/run/slurmctld.pid",
            "SlurmdPidFile": f"{place}/run/slurmd.%n.pid",
            "SlurmctldLogFile": str(self.controller_log),
            "SlurmdLogFile": f"{place}/log/slurmd.%n.log",
            "PluginDir": plugin_path,
            "PlugStackConfig": f"{place}/etc/plugstack.conf",
        }
        settings |= self.settings
        lines = [f"{key}={value}" for key, value in settings.items()]
        lines += [
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} "
            f"CPUs={NODE_CPUS} RealMemory=1000 State=UNKNOWN {self.node_options.get(name, '')}"
            for name, port in zip(self.node_names, self._ports[1:], strict=True)
        ]
        lines += [
            f"PartitionName={name} Nodes=ALL State=UP {options}"
            for name, options in self.partitions.items()
        ]
        self.slurm_conf.write_text("\n".join([*lines, self.extra, ""]))
        (place / "etc" / "plugstack.conf").touch()
        if slurm_version() >= ASKS_FOR_CGROUPS:
            (place / "etc" / "cgroup.conf").write_text("CgroupPlugin=disabled\n")

    def _make_directories(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        # munged and slurmd refuse a socket below a directory others cannot enter
        self.directory.chmod(0o755)
        for name in ("state", "spool", "log", "run"):
            shutil.rmtree(self.directory / name, ignore_errors=True)
        for name in (
            "etc",
            "munge",
            "state",
            "log",
            "run",
            *(f"spool/{n}" for n in self.node_names),
        ):
            (self.directory / name).mkdir(parents=True, exist_ok=True)

    # -- daemons --------------------------------------------------------------

    def _start_munge(self) -> None:
        place = self.directory / "munge"
        key = place / "key"
        if not key.exists():
            key.write_bytes(os.urandom(1024))
            key.chmod(0o400)
        command = [
            "munged",
            f"--socket={place}/socket",
            f"--key-file={key}",
            f"--pid-file={self._pid_file('munged')}",
            f"--log-file={self.directory}/log/munged.log",
            f"--seed-file={place}/seed",
            "--num-threads=2",
        ]
        self._launch("munged", command)
        self._wait("munged", (place / "socket").exists)

    def _start_nodes(self) -> None:
        for name in self.node_names:
            self.start_node(name)

    def start_node(self, name: str) -> None:
        self._launch(f"slurmd.{name}", ["slurmd", "-f", self.slurm_conf, "-N", name])

    def _launch(
        self, daemon: str, command: Sequence[str | Path], extra: Mapping[str, str] | None = None
    ) -> None:
        """Start a daemon that puts itself into the background."""
        if not shutil.which(str(command[0])):
            raise PrivateSlurmError(f"{command[0]} is not installed; `make deps` installs it")
        with (self.directory / "log" / f"{daemon}.out").open("w") as output:
            done = subprocess.run(
                [str(word) for word in command],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=READY_TIMEOUT,
                cwd=self.directory,
                env=self.client_environment() | dict(extra or {}),
            )
        if done.returncode != 0:
            raise PrivateSlurmError(f"{daemon} ended with {done.returncode}\n{self._tail(daemon)}")

    def _wait(self, daemon: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_TIMEOUT
        while not ready():
            # a daemon in the background has no exit status to look at
            if "fatal: " in self._tail(daemon) or time.monotonic() > deadline:
                raise PrivateSlurmError(f"{daemon} did not become ready\n{self._tail(daemon)}")
            time.sleep(0.05)

    def _stop(self, daemon: str) -> None:
        pid = self._pid(daemon)
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)
        if not processes.wait_gone(pid, STOP_TIMEOUT):
            os.kill(pid, signal.SIGKILL)
            processes.wait_gone(pid, STOP_TIMEOUT)

    def _pid_file(self, daemon: str) -> Path:
        return self.directory / "run" / f"{daemon}.pid"

    def _pid(self, daemon: str) -> int | None:
        """Pid from the pid file, if that process is still the daemon we started."""
        try:
            pid = int(self._pid_file(daemon).read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if str(self.directory).encode() in command and processes.runs(pid) else None

    def _tail(self, daemon: str) -> str:
        lines: list[str] = []
        for suffix in ("out", "log"):
            log = self.directory / "log" / f"{daemon}.{suffix}"
            if log.exists():
                lines += log.read_text(errors="replace").splitlines()[-LOG_TAIL:]
        return "\n".join(lines)


def parse_record(line: str) -> dict[str, str]:
    """Fields of a `scontrol -o` line: blanks inside a value belong to it."""
    record: dict[str, str] = {}
    key = ""
    for word in line.strip().split(" "):
        name, equals, value = word.partition("=")
        if equals and name.replace("/", "").replace(":", "").isalnum() and name[:1].isupper():
            key = name
            record[key] = value
        elif key:
            record[key] += " " + word
    return {name: value.strip() for name, value in record.items()}


def free_ports(count: int) -> list[int]:
    """Distinct TCP ports that are free on loopback, below the range that the
    kernel hands to clients."""
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for port in random.SystemRandom().sample(range(10_000, 32_000), 2_000):
            trial = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                trial.bind(("127.0.0.1", port))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise PrivateSlurmError(f"no {count} free ports on 127.0.0.1")


def system_plugin_dir() -> str:
    """Where the distribution keeps Slurm's own plugins."""
    found = next(Path("/usr").glob("lib*/**/slurm*/auth_munge.so"), None)
    if found is None:
        raise PrivateSlurmError("Slurm's plugins are not installed; `make deps` installs them")
    return str(found.parent)


@cache
def slurm_version() -> tuple[int, int]:
    """Release of the Slurm that is installed, such as (22, 5)."""
    shown = subprocess.run(["slurmctld", "-V"], check=True, capture_output=True, text=True)
    major, minor = shown.stdout.split()[1].split(".")[:2]
    return int(major), int(minor)


def _settings(words: Sequence[str]) -> dict[str, str]:
    """Turn KEY=VALUE words into a mapping."""
    pairs = (word.partition("=") for word in words)
    return {key: value for key, _, value in pairs}


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("up", "down", "status", "env", "wipe"))
    parser.add_argument("directory", type=Path, help="where the cluster lives")
    start = parser.add_argument_group("for `up`")
    start.add_argument("--nodes", type=int, default=2, help=f"of {NODE_CPUS} CPUs each")
    start.add_argument("--plugin-dir", type=Path, help="searched before Slurm's own plugins")
    start.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a slurm.conf setting; repeatable",
    )
    start.add_argument("--extra", type=Path, help="file appended to slurm.conf")
    start.add_argument(
        "--partition",
        action="append",
        default=[],
        metavar="NAME=OPTIONS",
        help="such as 'main=Default=YES MaxTime=60'; repeatable",
    )
    start.add_argument(
        "--environment",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="for slurmctld; repeatable",
    )
    return parser


def main() -> int:
    arguments = _arguments().parse_args()
    slurm = PrivateSlurm(
        arguments.directory,
        nodes=arguments.nodes,
        partitions=_settings(arguments.partition),
        settings=_settings(arguments.set),
        extra=arguments.extra.read_text() if arguments.extra else "",
        plugin_dir=arguments.plugin_dir,
        environment=_settings(arguments.environment),
    )
    try:
        if arguments.action == "up":
            slurm.up()
            slurm.leave()
            print(f'up; next: eval "$({sys.argv[0]} env {slurm.directory})"')
        elif arguments.action == "down":
            slurm.down()
        elif arguments.action == "wipe":
            slurm.wipe()
        elif arguments.action == "env":
            print(f"export SLURM_CONF={shlex.quote(str(slurm.slurm_conf))}")
        elif slurm.responds():
            print(slurm.run("sinfo", "-Nl").stdout, end="")
        else:
            print("slurmctld does not answer", file=sys.stderr)
            return 1
    except PrivateSlurmError as error:
        print(f"private_slurm: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
