"""Whatever is wrong with Sluice, users see the same as without it."""

import os
import random
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import made_model
import pytest
from plugin_harness import PluginFiles, install
from private_slurm import PrivateSlurm
from transcript import COMMANDS, SHORT, Seen, clear, held_jobs, transcript

pytestmark = pytest.mark.slurm

NOBODY = 65534
DAMAGED_SAMPLES = 50

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files away, mounts a tmpfs")


@dataclass(frozen=True)
class Site:
    """A cluster with the plugin, its files, and a bundle that is valid."""

    slurm: PrivateSlurm
    files: PluginFiles
    bundle: bytes

    def start(self, mode: str = "advise", **settings: str | float) -> None:
        """A configuration, a bundle and a fresh snapshot: all is well."""
        install(self.files.bundle, self.bundle)
        install(self.files.snapshot, made_model.snapshot())
        self.files.configure(Mode=mode, **settings)
        self.files.wait_until_loaded("bundle", "snapshot")


@dataclass(frozen=True)
class Expected:
    """What users of a cluster without Sluice see."""

    seen: list[Seen]
    held: list[str]


@pytest.fixture(scope="module")
def expected(plain: PrivateSlurm) -> Expected:
    return Expected(transcript(plain, COMMANDS), held_jobs(plain))


@pytest.fixture(scope="module")
def site(guarded: PrivateSlurm, files: PluginFiles) -> Site:
    return Site(guarded, files, made_model.bundle())


@pytest.fixture(autouse=True)
def _controller_survives(guarded: PrivateSlurm, files: PluginFiles) -> Iterator[None]:
    """No test may cost the controller its life, or leave anything to the next."""
    pid = guarded.controller_pid()
    yield
    assert guarded.controller_pid() == pid
    assert guarded.responds()
    clear(guarded)
    files.remove()


# What can be wrong. Each prepares it, and goes on when the plugin has noticed.
Situation = Callable[[Site], AbstractContextManager[None]]


@contextmanager
def no_configuration(site: Site) -> Iterator[None]:
    assert not site.files.config.exists()
    yield


@contextmanager
def configuration_removed(site: Site) -> Iterator[None]:
    site.start()
    site.files.config.unlink()
    site.files.wait_for(lambda seen: not seen["config"]["loaded"])
    yield


@contextmanager
def wrong_configuration(site: Site) -> Iterator[None]:
    site.start()
    install(site.files.config, b"Mode=advise\nBundel=/somewhere\n")
    site.files.wait_for(lambda seen: "Bundel" in seen["config"]["error"])
    yield


@contextmanager
def configuration_of_somebody_else(site: Site) -> Iterator[None]:
    site.start()
    os.chown(site.files.config, NOBODY, NOBODY)
    site.files.wait_for(lambda seen: bool(seen["config"]["error"]))
    yield


@contextmanager
def switched_off(site: Site) -> Iterator[None]:
    site.start()
    site.files.off_file.touch()
    site.files.wait_for(lambda seen: seen["mode"] == "off")
    yield


@contextmanager
def no_bundle(site: Site) -> Iterator[None]:
    install(site.files.snapshot, made_model.snapshot())
    site.files.configure(Mode="advise")
    site.files.wait_until_loaded("snapshot")
    yield


@contextmanager
def damaged_bundle(site: Site) -> Iterator[None]:
    install(site.files.bundle, site.bundle[: len(site.bundle) // 2])
    with no_bundle(site):
        site.files.wait_for(lambda seen: bool(seen["bundle"]["error"]))
        yield


@contextmanager
def bundle_of_another_version(site: Site) -> Iterator[None]:
    install(site.files.bundle, made_model.with_version(site.bundle, 999))
    with no_bundle(site):
        site.files.wait_for(lambda seen: "999" in seen["bundle"]["error"])
        yield


@contextmanager
def bundle_of_somebody_else(site: Site) -> Iterator[None]:
    install(site.files.bundle, site.bundle)
    os.chown(site.files.bundle, NOBODY, NOBODY)
    with no_bundle(site):
        site.files.wait_for(lambda seen: bool(seen["bundle"]["error"]))
        yield


@contextmanager
def daemon_never_started(site: Site) -> Iterator[None]:
    install(site.files.bundle, site.bundle)
    site.files.configure(Mode="advise")
    site.files.wait_until_loaded("bundle")
    yield


@contextmanager
def daemon_dead_for_an_hour(site: Site) -> Iterator[None]:
    site.start()
    install(site.files.snapshot, made_model.snapshot(age=3600))
    site.files.wait_for(lambda seen: seen["snapshot"]["created"] < time.time() - 1800)
    yield


@contextmanager
def daemon_hung(site: Site) -> Iterator[None]:
    """Clients that say nothing or half a request, and that take no answer."""
    site.start("observe")
    with ExitStack() as clients:
        for request in (b"", b"drain", b"drain 0 0 4096\n", b"stats\n", b""):
            client = clients.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(str(site.files.socket))
            client.sendall(request)
        yield


@contextmanager
def disk_full(site: Site) -> Iterator[None]:
    """There is no room for the socket."""
    full = site.files.directory / "full"
    full.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=1", "tmpfs", full]
    subprocess.run(mount, check=True)
    try:
        site.start("observe", Socket=site.files.socket)
        site.files.configure(Socket=str(full / "plugin.sock"))
        deadline = time.monotonic() + 10
        while "No space left on device" not in site.slurm.controller_log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield
    finally:
        subprocess.run(["umount", full], check=True)


@contextmanager
def observing(site: Site) -> Iterator[None]:
    site.start("observe")
    yield


@pytest.mark.parametrize(
    "situation",
    [
        no_configuration,
        configuration_removed,
        wrong_configuration,
        pytest.param(configuration_of_somebody_else, marks=needs_root),
        switched_off,
        no_bundle,
        damaged_bundle,
        bundle_of_another_version,
        pytest.param(bundle_of_somebody_else, marks=needs_root),
        daemon_never_started,
        daemon_dead_for_an_hour,
        daemon_hung,
        pytest.param(disk_full, marks=needs_root),
        observing,
    ],
)
def test_users_and_jobs_see_no_difference(
    site: Site, expected: Expected, situation: Situation
) -> None:
    """stdout, stderr and exit code of every command, and all of every job."""
    with situation(site):
        assert transcript(site.slurm, COMMANDS) == expected.seen
        assert held_jobs(site.slurm) == expected.held


def damage(bundle: bytes, rng: random.Random) -> bytes:
    """Cut off, or a few bits turned over, somewhere."""
    if rng.random() < 0.3:
        return bundle[: rng.randrange(len(bundle))]
    copy = bytearray(bundle)
    for _ in range(rng.choice((1, 1, 2, 64))):
        copy[rng.randrange(len(copy))] ^= 1 << rng.randrange(8)
    return bytes(copy)


def test_no_damage_to_the_bundle_shows(site: Site, expected: Expected) -> None:
    rng = random.Random(7)
    site.files.configure(Mode="advise")
    install(site.files.snapshot, made_model.snapshot())
    for sample in range(DAMAGED_SAMPLES):
        site.files.wait_for(lambda seen: "No such file" in seen["bundle"]["error"])
        install(site.files.bundle, damage(site.bundle, rng))
        seen = site.files.wait_for(lambda seen: "No such file" not in seen["bundle"]["error"])
        assert not seen["bundle"]["loaded"], f"sample {sample} was believed"
        assert transcript(site.slurm, SHORT) == expected.seen[: len(SHORT)]
        clear(site.slurm)
        site.files.bundle.unlink()


def test_a_damaged_bundle_leaves_the_one_in_memory(site: Site) -> None:
    site.start("observe")
    before = site.files.stats()["bundle"]["checksum"]
    install(site.files.bundle, site.bundle[:-1])
    after = site.files.wait_for(lambda seen: bool(seen["bundle"]["error"]))["bundle"]
    assert after["loaded"]
    assert after["checksum"] == before


def write_in_place(path: Path, content: bytes) -> None:
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(content)


def test_files_may_change_in_any_way_while_jobs_are_submitted(
    site: Site, bulk_submit: Path
) -> None:
    """Replaced, overwritten and truncated in place, gone: 1,000 jobs all pass."""
    other = made_model.bundle(seed=2)
    site.start()
    files = site.files
    changes: list[Callable[[], object]] = [
        lambda: install(files.bundle, other),
        lambda: os.truncate(files.bundle, len(other) // 3),
        lambda: write_in_place(files.bundle, site.bundle),
        lambda: os.truncate(files.snapshot, 100),
        lambda: install(files.snapshot, made_model.snapshot()),
        lambda: files.configure(Mode="observe"),
        lambda: write_in_place(files.config, b"Mode=nonsense\n"),
        lambda: files.configure(Mode="advise"),
        files.bundle.unlink,
        lambda: install(files.bundle, site.bundle),
    ]
    submitted = site.files.stats()["submissions"]
    client = subprocess.Popen(
        [bulk_submit, "1000"],
        env=site.slurm.client_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    for change in cycle(changes):
        change()
        time.sleep(0.01)
        if client.poll() is not None:
            break
    assert client.communicate(timeout=60)[1] == ""
    assert client.returncode == 0
    files.configure(Mode="observe")
    seen = files.wait_for(lambda seen: seen["mode"] == "observe")
    assert seen["submissions"] == submitted + 1000
