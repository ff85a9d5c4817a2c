"""The shim under the sanitizers and valgrind, and in programs that are built with them."""

import subprocess
from functools import cache
from pathlib import Path

import pytest
from compile_c import BUILD, FLAGS, make
from turns_page import Holding, TurnsPage

pytestmark = pytest.mark.acceptance

HERE = Path(__file__).parent
SANITIZERS = {"address,undefined": ("libasan.so", "libubsan.so"), "thread": ("libtsan.so",)}
KINDS = ("write", "vector", "fwrite", "text", "threads", "sync", "flock", "copy", "errors")
# TSan does not follow children
FORKING = ("fork", "vfork", "exec", "daemon", "closeall", "inherited")


def runtime(library: str) -> str:
    words = ("cc", f"-print-file-name={library}")
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


@cache
def preload(name: str) -> str:
    """A shim built with a sanitizer, behind its runtime."""
    build = make(
        "slurm-plugin/node/shim", BUILD / f"shim-{name.replace(',', '-')}", f"SANITIZE={name}"
    )
    libraries = [runtime(library) for library in SANITIZERS[name]]
    return ":".join([*libraries, str(build / "lib" / "libsluice_turns.so")])


def run(page: TurnsPage, *command: str | Path, **environment: str) -> None:
    job = page.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    _, errors = job.communicate(timeout=300)
    assert errors == b""
    assert job.returncode == 0


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("address,undefined", kind) for kind in (*KINDS, *FORKING)),
        *(("thread", kind) for kind in KINDS),
    ],
)
def test_the_shim_is_clean(page, kinds, tmp_path, name, kind):
    page.hold(0.2)
    options = {"ASAN_OPTIONS": "detect_leaks=0"}
    run(page, kinds, kind, tmp_path / "file", LD_PRELOAD=preload(name), **options)
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
