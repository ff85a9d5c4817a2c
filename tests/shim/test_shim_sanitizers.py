"""The shim under the sanitizers and valgrind, and in programs that are built with them."""

import subprocess
from pathlib import Path

import pytest
from compile_c import BUILD, FLAGS, make
from turns_page import Holding, TurnsPage

HERE = Path(__file__).parent
SANITIZERS = {"address,undefined": ("libasan.so", "libubsan.so"), "thread": ("libtsan.so",)}
# TSan starts a thread of its own in each child, and fork there is its own business
KINDS = ("write", "vector", "fwrite", "text", "threads", "sync", "flock", "copy", "errors")
FORKING = ("fork", "vfork", "exec", "daemon", "closeall", "inherited")


def runtime(library: str) -> str:
    words = ("cc", f"-print-file-name={library}")
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="session", params=SANITIZERS)
def sanitized(request) -> tuple[str, str]:
    """What to preload: a shim built with a sanitizer, behind its runtime."""
    name = request.param
    build = make("slurm-plugin/shim", BUILD / f"shim-{name.replace(',', '-')}", f"SANITIZE={name}")
    libraries = [runtime(library) for library in SANITIZERS[name]]
    return name, ":".join([*libraries, str(build / "lib" / "libsluice_turns.so")])


def run(page: TurnsPage, *command: str | Path, **environment: str) -> None:
    job = page.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    _, errors = job.communicate(timeout=300)
    assert errors == b""
    assert job.returncode == 0


@pytest.mark.parametrize("kind", [*KINDS, *FORKING])
def test_the_shim_is_clean(page, kinds, tmp_path, sanitized, kind):
    name, preload = sanitized
    if name == "thread" and kind in FORKING:
        pytest.skip("TSan does not follow children")
    page.hold(0.2)
    options = {"ASAN_OPTIONS": "detect_leaks=0"}
    run(page, kinds, kind, tmp_path / "file", LD_PRELOAD=preload, **options)
    assert page.sum("bytes") > 0 or kind == "errors"


@pytest.mark.parametrize("kind", ["write", "fwrite", "threads", "fork"])
def test_the_shim_is_clean_under_valgrind(page, kinds, tmp_path, kind):
    page.hold(0.2)
    valgrind = ("valgrind", "--quiet", "--error-exitcode=99", "--trace-children=yes")
    run(page, *valgrind, kinds, kind, tmp_path / "file")
    assert page.sum("bytes") > 0


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_a_program_built_with_a_sanitizer_runs_with_the_shim(page, tmp_path, sanitizer):
    """Where its runtime is in the program, as clang puts it there."""
    program = tmp_path / "kinds"
    flags = (*FLAGS[:4], f"-fsanitize={sanitizer}", "-pthread")
    subprocess.run(["clang", *flags, HERE / "kinds.c", "-o", program], check=True)
    with Holding(page):
        job = page.start(program, "threads", tmp_path / "file", stderr=subprocess.PIPE)
        while not page.sum("holds"):
            assert job.poll() is None
    assert job.communicate(timeout=300)[1] == b""
    assert page.sum("bytes") == 400 << 10
    assert (tmp_path / "file").stat().st_size == 400 << 10
