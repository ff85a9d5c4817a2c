#!/usr/bin/env python3
"""A root directory of another release of Debian or Ubuntu, with its Slurm and this project.

Builds and tests of the project run in it unchanged, against the Slurm of that release:

    tests/lab/slurm_root.py 24.11 make plugin
    tests/lab/slurm_root.py 26.05 /venv/bin/python -m pytest tests/slurm/test_decisions.py

Debian's releases come from the archive that apt uses here, Ubuntu's from the one that
$SLUICE_UBUNTU names. A root is made once and stays in $SLUICE_ROOTS, by default
~/.cache/sluice/roots: 0.9 GB for one that runs Slurm, 0.4 GB for one that only compiles.
Each command runs in its own namespaces for mounts, processes and shared memory, so what it
starts or mounts ends with it. All of this needs root.
"""

import argparse
import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = Path("/sluice")  # the project's, inside a root
VENV = Path("/venv")

UBUNTU = "SLUICE_UBUNTU"
"""The variable with the address of an Ubuntu archive; Debian's is the one that apt uses here."""

COMPILES = ("gcc", "libc6-dev", "make", "libslurm-dev", "mount")  # who enters needs umount
RUNS = (
    *COMPILES,
    "slurmctld",
    "slurmd",
    "slurm-client",
    "munge",
    "libmunge-dev",  # for slurm-plugin/wire
    "python3-dev",
    "python3-venv",
    "libdeflate-dev",
    "libasan8",  # for tests/spank
    "libubsan1",
    "procps",
    "strace",
    "valgrind",
    "ca-certificates",  # for pip
)
# Of the tests of a controller, only that of accounting needs one of these, and is skipped:
# darshan has no wheels for Python 3.13 and later.
UNUSED = {"darshan", "grimp", "import-linter", "mypy", "pandas", "pyarrow", "ruff", "seaborn"}

PASSED_ON = re.compile(r"(PIP_|SSL_CERT_).*|(https?|no)_proxy", re.IGNORECASE)


@dataclass(frozen=True)
class Release:
    """A release whose archive has a version of Slurm that no other one here has."""

    suite: str
    is_ubuntu: bool = False
    runs: bool = False
    """Has daemons and Python, for the tests; else only what compiles the plugins."""
    more: tuple[str, ...] = ()
    """Further packages."""

    @property
    def is_within_reach(self) -> bool:
        return not self.is_ubuntu or UBUNTU in os.environ

    @property
    def archive(self) -> str:
        """The address that its packages come from."""
        if not self.is_ubuntu:
            return debian_archive()
        if not self.is_within_reach:
            raise SlurmRootError(f"set {UBUNTU} to the address of an Ubuntu archive")
        return os.environ[UBUNTU]


RELEASES = {
    "20.11": Release("bullseye"),
    "21.08": Release("jammy", is_ubuntu=True),
    "22.05": Release("bookworm", runs=True),
    "23.11": Release("noble", is_ubuntu=True),
    "24.11": Release("trixie", runs=True, more=("ubuntu-keyring",)),
    "25.11": Release("resolute", is_ubuntu=True),
    "26.05": Release("forky", runs=True),
}

# Arguments: the root, then the command. Only this command sees the mounts.
ENTER = f"""
set -e
mount --make-rprivate /
mount --rbind "$1" "$1"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys" # slurmd 22.05 does not start without cgroups
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
for file in /etc/hosts /etc/resolv.conf; do
    touch "$1$file"
    mount --bind "$file" "$1$file"
done
if test -d /etc/ssl/certs; then # for pip; a copy, because packages in the root change theirs
    mkdir -p "$1/etc/ssl/certs"
    mount -t tmpfs tmpfs "$1/etc/ssl/certs"
    cp -r --dereference /etc/ssl/certs/. "$1/etc/ssl/certs"
fi
cd "$1"
pivot_root . . # no chroot: tests call unshare and nsenter, which go to the namespace's root
umount --lazy .
exec env --chdir={SOURCES} "${{@:2}}"
"""


class SlurmRootError(Exception):
    """A root could not be made; the text says which command failed, and why."""


class SlurmRoot:
    """The root with one version of Slurm."""

    def __init__(self, version: str, name: str = "", packages: Sequence[str] = ()) -> None:
        """With a name: another root of the release, with these packages instead of the usual."""
        self.release = RELEASES[version]
        self.path = cache_directory() / "-".join(filter(None, (self.release.suite, name)))
        self._own = packages

    def make(self) -> None:
        """Make the root unless it is there, and copy the project as it is now into it."""
        with locked(self.path.with_suffix(".lock")):
            made = self.path / "made"
            if not made.exists() or made.read_text() != self._packages():
                self._bootstrap()
            self._copy_sources()
            if self.release.runs and not self._own:
                self._install_requirements()

    def run(self, *command: str | Path, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder of the sources; both outputs come back as one text."""
        words = ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child"]
        return subprocess.run(
            [*words, "bash", "-c", ENTER, "enter", self.path, *command],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            env=environment(),
        )

    def build(self, *targets: str) -> subprocess.CompletedProcess[str]:
        """Run `make` for targets of the project; the root has the packages of `make deps`."""
        return self.run("make", f"--assume-old={VENV}/.ready", f"VENV={VENV}", *targets)

    def _bootstrap(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)  # of a run that was killed
        command = [
            *("unshare", "--mount"),  # what it mounts ends with it, also when it is killed
            "mmdebstrap",
            "--variant=apt",
            "--mode=root",
            "--components=main,universe" if self.release.is_ubuntu else "--components=main",
            f"--keyring={self._keyrings()}",
            f"--include={self._packages()}",
            # a mirror may be older than its Release file allows; the signature is still checked
            '--aptopt=Acquire::Check-Valid-Until "false"',
            *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in self._left_out()),
            self.release.suite,
            self.path,
            self.release.archive,
        ]
        checked(subprocess.run(command, check=False, capture_output=True, text=True))
        (self.path / "made").write_text(self._packages())

    def _packages(self) -> str:
        if self._own:
            return ",".join(self._own)
        return ",".join((*(RUNS if self.release.runs else COMPILES), *self.release.more))

    def _left_out(self) -> tuple[str, ...]:
        """What tests of Slurm do without; tests of packages want all that these bring."""
        return () if self._own else ("doc", "locale", "man")

    def _keyrings(self) -> Path:
        """Where the keys of the archive are; Debian 13 has those of Ubuntu."""
        if not self.release.is_ubuntu:
            return Path("/usr/share/keyrings")
        debian = SlurmRoot("24.11")
        debian.make()
        return debian.path / "usr/share/keyrings"

    def _copy_sources(self) -> None:
        place = self.path / SOURCES.relative_to("/")
        shutil.rmtree(place, ignore_errors=True)
        (self.path / VENV.relative_to("/") / ".linked").unlink(missing_ok=True)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=PROJECT,
            check=True,
            capture_output=True,
            text=True,
        )
        for name in listed.stdout.split("\0"):
            if (PROJECT / name).is_file():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(PROJECT / name, place / name)

    def _install_requirements(self) -> None:
        """What requirements.lock pins, for the root's own Python."""
        wanted = self.path / "requirements.txt"
        lines = used_requirements((PROJECT / "requirements.lock").read_text())
        if wanted.exists() and wanted.read_text() == lines:
            return
        checked(self.run("python3", "-m", "venv", VENV))
        with contextlib.suppress(FileNotFoundError):
            wanted.unlink()
        fresh = wanted.with_suffix(".new")
        fresh.write_text(lines)
        pip = (VENV / "bin/pip", "install", "--quiet", "--no-deps", "--only-binary=:all:")
        checked(self.run(*pip, "--require-hashes", "--requirement", f"/{fresh.name}"))
        fresh.rename(wanted)


def debian_archive() -> str:
    """Return the address from which apt takes Debian's packages on this machine."""
    chosen = ("Created-By: Packages", "Origin: Debian", "Label: Debian")
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", *chosen],
        check=True,
        capture_output=True,
        text=True,
    )
    if not done.stdout:
        raise SlurmRootError("apt knows no archive of Debian; see /etc/apt/sources.list")
    return done.stdout.split()[0]


def cache_directory() -> Path:
    """Where the roots lie."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return Path(os.environ.get("SLUICE_ROOTS", cache / "sluice" / "roots")).resolve()


def environment() -> dict[str, str]:
    """For a command in a root: how to reach package indexes, and nothing else of this machine."""
    passed_on = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return passed_on | {"PATH": path, "HOME": "/root", "LANG": "C.UTF-8"}


def used_requirements(lock: str) -> str:
    """The lines of requirements.lock without the packages that no test in a root needs."""
    blocks = re.split(r"(?m)^(?=\S)", lock)
    return "".join(block for block in blocks if block.partition("==")[0] not in UNUSED)


def checked(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode != 0:
        words = " ".join(map(str, done.args))
        raise SlurmRootError(
            f"{words}\nended with {done.returncode}:\n{done.stdout}{done.stderr or ''}"
        )


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file: two runs of the tests may want the same root."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version", choices=RELEASES, help="of Slurm")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="to run in the root")
    arguments = parser.parse_args()
    root = SlurmRoot(arguments.version)
    try:
        root.make()
    except SlurmRootError as error:
        print(f"slurm_root: {error}", file=sys.stderr)
        return 1
    done = root.run(*(arguments.command or ["slurmctld", "-V"]), timeout=3600)
    print(done.stdout, end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
