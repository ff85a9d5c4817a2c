"""The plugin under sanitizers and valgrind, while everything changes under it."""

import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import made_model
import pytest
from plugin_harness import Harness, PluginFiles, build, drain, install
from test_plugin import KINDS

THREADS = 8
RANDOM_BITS = Path("/proc/sys/vm/mmap_rnd_bits")


def fixed_addresses() -> tuple[str, ...]:
    """Return what ThreadSanitizer needs on kernels that spread addresses further than it knows."""
    spread = int(RANDOM_BITS.read_text()) if RANDOM_BITS.exists() else 0
    return ("setarch", "--addr-no-randomize") if spread > 28 else ()


def change_files(files: PluginFiles, stop: threading.Event) -> None:
    """Replace, overwrite, truncate and remove everything the plugin reads."""
    rng = random.Random(3)
    bundles = [made_model.bundle(seed=seed) for seed in (1, 2)]
    changes: list[Callable[[], object]] = [
        lambda: install(files.bundle, rng.choice(bundles)),
        lambda: install(files.bundle, rng.choice(bundles)),
        lambda: install(files.bundle, rng.randbytes(5000)),
        lambda: os.truncate(files.bundle, rng.randrange(50_000)),
        lambda: files.bundle.write_bytes(rng.choice(bundles)),
        files.bundle.unlink,
        lambda: install(files.snapshot, made_model.snapshot(corunners=rng.randrange(40))),
        lambda: install(files.snapshot, made_model.snapshot()),
        lambda: os.truncate(files.snapshot, rng.randrange(1000)),
        lambda: files.configure(Mode="advise"),
        lambda: files.configure(Mode="enforce"),
        lambda: files.configure(Mode="observe", ModeOf="off Users=daemon,1007"),
        lambda: files.configure(Mode="off"),
        lambda: files.configure(Socket=f"{files.socket}2"),
        lambda: install(files.config, b"\x00Mode"),
        files.off_file.touch,
        lambda: files.off_file.unlink(missing_ok=True),
    ]
    while not stop.is_set():
        with suppress(FileNotFoundError):
            rng.choice(changes)()
        with suppress(OSError):
            drain(files.socket)


@contextmanager
def changing(files: PluginFiles) -> Iterator[None]:
    stop = threading.Event()
    changer = threading.Thread(target=change_files, args=(files, stop))
    changer.start()
    try:
        yield
    finally:
        stop.set()
        changer.join()


def stress(harness: Harness, calls: int) -> None:
    """THREADS threads submit jobs of every kind, calls each, while files change."""
    install(harness.files.bundle, made_model.bundle())
    install(harness.files.snapshot, made_model.snapshot())
    harness.files.configure(Mode="advise")
    with harness:
        harness.files.wait_until_loaded("bundle", "snapshot")
        harness.submit(**made_model.KNOWN_JOB)
        for fields in KINDS.values():
            harness.submit(uid=1000, **{"name": "checkpoint_1", **fields})
        with changing(harness.files):
            harness.repeat(threads=THREADS, count=calls)
        harness.files.off_file.unlink(missing_ok=True)
        install(harness.files.bundle, made_model.bundle())
        harness.files.configure(Mode="observe")
        seen = harness.files.wait_until_loaded("bundle")
    assert seen["submissions"] == 1 + len(KINDS) + THREADS * calls
    assert seen["decided"] > 0


@pytest.mark.parametrize("sanitize", ["address,undefined", "thread"])
def test_nothing_is_found_by_the_sanitizers(tmp_path: Path, sanitize: str) -> None:
    built = build(sanitize=sanitize)
    stress(Harness(built, tmp_path, wrapper=fixed_addresses()), calls=20_000)


@pytest.mark.acceptance
@pytest.mark.parametrize("sanitize", ["address,undefined", "thread"])
def test_nothing_is_found_by_the_sanitizers_in_a_long_run(tmp_path: Path, sanitize: str) -> None:
    built = build(sanitize=sanitize)
    stress(Harness(built, tmp_path, wrapper=fixed_addresses()), calls=200_000)


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_valgrind_finds_nothing(tmp_path: Path) -> None:
    valgrind = (
        "valgrind",
        "--quiet",
        "--error-exitcode=99",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
    )
    stress(Harness(build(), tmp_path, wrapper=valgrind), calls=300)
