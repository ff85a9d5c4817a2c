"""Programs in containers do with the shim what they do without, held and not.

`unshare`, `chroot` and `bwrap` make what container runtimes make: namespaces of their own, a
root without /proc and /run, programs that may gain no privileges.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shim_programs import PYTHON_WRITES, Program, python
from test_shim_holds import wait_for_hold
from test_shim_unnoticed import ACCEPTANCE, PATIENCE, outcome, outcome_with
from turns_page import SHIM, Holding, TurnsPage

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces")

SYSTEM = ("/bin", "/etc", "/lib", "/lib64", "/usr")
# The system, the place and the shim, and nothing else.
ROOT = f"""
set -e; place=$1; root=$(dirname $place)/root; shift; mkdir $root; mount -t tmpfs none $root
for path in {" ".join(SYSTEM)} $place {SHIM.parent}; do
    mkdir -p $root$path; mount --rbind $path $root$path
done
chroot $root "$@" || code=$?; umount --lazy $root; rmdir $root; exit ${{code-0}}
"""
BOUND = [word for path in SYSTEM for word in ("--ro-bind", path, path)]

Container = Callable[[Path], list[str | Path]]
CONTAINERS: dict[str, Container] = {
    "no /proc, no /run": lambda place: ["unshare", "--mount", "sh", "-c", ROOT, "sh", place],
    "pids of its own": lambda _: ["unshare", "--pid", "--fork", "--mount-proc"],
    "a user of its own": lambda _: ["unshare", "--user", "--map-root-user"],
    "all of its own": lambda _: [
        *("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--ipc", "--uts", "--net"),
        *("--cgroup", "--time"),
    ],
    "no new privileges": lambda _: ["setpriv", "--no-new-privs"],
    "bubblewrap": lambda place: [
        *("bwrap", "--unshare-all", "--die-with-parent", "--new-session", *BOUND),
        *("--bind", place, place, "--ro-bind", SHIM.parent, SHIM.parent),
    ],
    "few descriptors": lambda _: ["prlimit", "--nofile=64", "--"],
    "little memory": lambda _: ["prlimit", "--as=200000000", "--memlock=0", "--"],
}
# As the manual of podman has it; runc, because crun takes no hybrid control groups.
PODMAN = (
    *("--runtime", "runc", "--cgroup-manager", "cgroupfs", "run", "--rm", "--network=none"),
    *("--ulimit=nofile=4000:4000", "--ulimit=nproc=4000:4000"),
)
PROGRAM = Program("Python", python(PYTHON_WRITES, "/usr/bin/python3"))


@pytest.mark.parametrize("words", ["held", pytest.param("go", marks=ACCEPTANCE)])
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_contained_program_ends_the_same(page, tmp_path, container: str, words: str) -> None:
    place = tmp_path / "place"
    wrapped = CONTAINERS[container](place)
    if not shutil.which(str(wrapped[0])):
        pytest.skip(f"{wrapped[0]} is not installed")
    command = [*wrapped, *PROGRAM.command(place)]
    alone = outcome(command, place)
    assert alone[:3] == (0, b"done\n", b"")
    assert outcome_with(page, command, place, words) == alone
    assert page.sum("bytes") > 0
    assert (page.sum("holds") > 0) == (words == "held")


@pytest.fixture
def short_path() -> Iterator[Path]:
    """podman takes no more than 50 characters for its own."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


@pytest.mark.parametrize("words", ["held", pytest.param("go", marks=ACCEPTANCE)])
@pytest.mark.parametrize("passed", [(), ("--env=LD_PRELOAD", "--env=SLUICE_TURNS")])
def test_a_program_of_podman_goes_unseen_and_ends_the_same(
    page: TurnsPage, tmp_path: Path, short_path: Path, passed: tuple[str, ...], words: str
) -> None:
    """podman hands no descriptors on, so there is neither page nor words in the container."""
    if not (shutil.which("podman") and shutil.which("runc")):
        pytest.skip("podman or runc is not installed")
    place, root = tmp_path / "place", tmp_path / "root"
    root.mkdir()
    bound = [(path, "ro") for path in (*SYSTEM, SHIM.parent)] + [(place, "rw")]
    command = [
        *("podman", "--root", tmp_path / "store", "--runroot", short_path, *PODMAN),
        *(f"--volume={path}:{path}:{how}" for path, how in bound if path != "/etc"),
        *passed,
        *("--rootfs", root, *PROGRAM.command(place)),
    ]
    alone = outcome(command, place)
    assert alone[:3] == (0, b"done\n", b"")
    assert outcome_with(page, command, place, words) == alone
    assert page.sum("bytes") < 100 << 10  # its runtime's own files alone


def test_processes_of_one_pid_in_two_containers_have_slots_of_their_own(
    page: TurnsPage, kinds: Path, tmp_path: Path
) -> None:
    unshare = ("unshare", "--pid", "--fork", "--mount-proc")
    with Holding(page):
        jobs = [
            page.start(*unshare, kinds, "write", tmp_path / name, stdout=subprocess.DEVNULL)
            for name in "ab"
        ]
        wait_for_hold(page, 2)
        assert [slot.pid for slot in page.slots()] == [1, 1]
    assert [job.wait(PATIENCE) for job in jobs] == [0, 0]
    assert list(page.slots()) == []
    assert page.sum("bytes") == 2 * 100 << 10


def test_a_program_keeps_its_slot_when_it_calls_exec_in_a_container(page, kinds, tmp_path) -> None:
    unshare = ("unshare", "--pid", "--fork", "--mount-proc")
    page.start(*unshare, kinds, "exec", tmp_path / "file", stdout=subprocess.DEVNULL).wait(PATIENCE)
    assert list(page.slots()) == []
    assert page.sum("bytes") == 101 << 10
