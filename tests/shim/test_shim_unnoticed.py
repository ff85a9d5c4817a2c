"""Programs do with the shim what they do without: bytes, exit code, stdout and stderr."""

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from shim_programs import Program, parameters
from turns_page import FFI_OF_PAGE, SEALS, Holding, TurnsPage

# Of those that end by themselves, as they end alone.
KINDS = sorted(
    set(re.findall(r"KIND \((\w+)\)", (Path(__file__).parent / "kinds.c").read_text()))
    - {"name", "term", "handler", "interrupted", "cancel", "forks", "shared_stream"}
)
NEVER_HELD = {
    *("text", "seek", "descriptors"),  # nothing but what libc writes at exit or at a close
    *("strict", "filter", "sandbox", "mapped", "aio"),
    *("alarm", "alarms", "timer", "timer_at", "timer_thread"),
    *("flock", "fcntl", "ofd", "lockf", "inherited"),
}
PATIENCE = 120

# What the words say when a program begins; nobody renews them. `held` is renewed until somebody
# waits, and a moment longer.
LAPSING: dict[str, Callable[[TurnsPage], None]] = {
    "go": lambda page: page.go(),
    "lapse": lambda page: page.hold(0.3),
    "trickle": lambda page: page.hold(0.3, rate=100_000),
    "for ever": lambda page: page.hold(3600),
}
ACCEPTANCE = pytest.mark.acceptance
FEW = ("go", "held")
WORDS = [
    *FEW,
    *(pytest.param(words, marks=ACCEPTANCE) for words in LAPSING if words not in FEW),
]


def tree(place: Path) -> dict[str, bytes]:
    """All files below a directory with their bytes."""
    paths = sorted(path for path in place.rglob("*") if path.is_file())
    return {str(path.relative_to(place)): path.read_bytes() for path in paths}


def made(place: Path) -> Path:
    place.mkdir()
    return place


def ended(job: subprocess.Popen[bytes], place: Path) -> tuple[object, ...]:
    """How it ended; leaves nothing at the place."""
    output, errors = job.communicate(timeout=PATIENCE)
    made = tree(place)
    shutil.rmtree(place)
    return job.returncode, output, errors, made


def outcome(command: list[str | Path], place: Path, **options: Any) -> tuple[object, ...]:
    place.mkdir()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return ended(subprocess.Popen([*map(str, command)], **pipes, **options), place)


def outcome_with(
    page: TurnsPage, command: list[str | Path], place: Path, words: str, **options: Any
) -> tuple[object, ...]:
    place.mkdir()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    start = partial(page.start, *command, **pipes, **options)
    if words != "held":
        LAPSING[words](page)
        return ended(start(), place)
    with Holding(page):
        job = start()
        while job.poll() is None and not page.sum("holds"):
            time.sleep(0.01)
        time.sleep(0.2)
    return ended(job, place)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "place"


@pytest.mark.parametrize("words", [WORDS[1], pytest.param("go", marks=ACCEPTANCE), *WORDS[2:]])
@pytest.mark.parametrize("program", parameters())
def test_a_real_program_ends_the_same(page: TurnsPage, place: Path, program: Program, words: str):
    if missing := program.missing():
        pytest.skip(f"{missing} is not installed")
    command = program.command(place)
    alone = outcome(command, place)
    assert outcome_with(page, command, place, words) == alone
    assert page.sum("bytes") > 0
    if words == "held":
        assert (page.sum("holds") > 0) != program.locks


@pytest.mark.acceptance
@pytest.mark.parametrize("program", parameters())
def test_a_real_program_takes_its_own_time_and_that_of_its_holds(page, place, program):
    """And 2 s; on a busy machine as long again as it takes without."""
    if missing := program.missing():
        pytest.skip(f"{missing} is not installed")
    began = time.monotonic()
    outcome(program.command(place), place)
    alone = time.monotonic() - began
    with Holding(page):
        job = page.start(*program.command(made(place)), stdout=subprocess.DEVNULL)
        began = time.monotonic()
        while job.poll() is None and not page.sum("holds"):
            time.sleep(0.01)
        held = time.monotonic()
        time.sleep(1)
    held = time.monotonic() - held if job.poll() is None else 0.0
    assert job.wait(PATIENCE) == 0
    assert time.monotonic() - began <= held + 2 * alone + 2


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_program_of_one_kind_ends_the_same(page, kinds, place, kind, words):
    command = [kinds, kind, place / "file"]
    alone = outcome(command, place)
    assert outcome_with(page, command, place, words) == alone
    if words == "held":
        assert (page.sum("holds") == 0) == (kind in NEVER_HELD)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL, signal.SIGXCPU, signal.SIGUSR1])
def test_a_signal_that_ends_a_program_ends_it_while_it_is_held(page, kinds, tmp_path, sent):
    page.hold(1.9)
    job = page.start(kinds, "write", tmp_path / "file")
    while not page.sum("holds"):
        assert job.poll() is None
    job.send_signal(sent)
    assert job.wait(timeout=30) == -sent
    assert (tmp_path / "file").stat().st_size == 0
    (slot,) = page.slots()
    assert (slot.pid, slot.waiting) == (job.pid, 1)  # to be freed by the agent
    assert not Path(f"/proc/{job.pid}").exists()


def version(page: TurnsPage) -> None:
    page.page.version += 1


def magic(page: TurnsPage) -> None:
    page.words.magic += 1


def devices(page: TurnsPage) -> None:
    page.words.device_count = 33


@pytest.mark.parametrize("damage", [version, magic, devices], ids=lambda d: d.__name__)
def test_a_page_of_another_kind_is_left_alone(page, kinds, tmp_path, damage):
    damage(page)
    page.hold(1.9)
    assert page.start(kinds, "write", tmp_path / "file", stdout=subprocess.DEVNULL).wait() == 0
    assert not any(page.sums().values())


@pytest.mark.usefixtures("shim")
def test_a_page_that_could_shrink_is_left_alone(kinds, tmp_path):
    page = TurnsPage(tmp_path, seals=SEALS & ~2)
    assert page.start(kinds, "write", tmp_path / "file", stdout=subprocess.DEVNULL).wait() == 0
    assert not any(page.sums().values())
    page.close()


@pytest.mark.parametrize(
    "named", ["", ":", "7", "7:", "99999:99998", "0:1", "-1:-1", "x", "9" * 99]
)
def test_an_environment_that_makes_no_sense_changes_nothing(page, kinds, place, named):
    command = [kinds, "write", place / "file"]
    alone = outcome(command, place)
    environment = {**os.environ, **page.environment(), "SLUICE_TURNS": named}
    assert outcome(command, place, env=environment, pass_fds=page.descriptors) == alone


def test_a_page_full_of_nonsense_changes_nothing(page, kinds, place):
    command = [kinds, "write", place / "file"]
    alone = outcome(command, place)
    slots = FFI_OF_PAGE.buffer(page.page.slots[0 : page.page.slot_count])
    slots[:] = os.urandom(len(slots))
    assert outcome_with(page, command, place, "lapse") == alone


def test_the_job_maps_the_words_for_reading_only(page):
    job = page.start("cat", "/proc/self/maps", stdout=subprocess.PIPE)
    lines = [line for line in job.communicate()[0].splitlines() if b"turns-words" in line]
    assert [line.split()[1] for line in lines] == [b"r--s"]


def test_reading_opening_and_syncing_do_not_wait(page, tmp_path):
    (tmp_path / "file").write_bytes(bytes(100_000))
    script = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
while os.read(fd, 1000): pass
os.fsync(fd); os.ftruncate(fd, 10); os.rename(sys.argv[1], sys.argv[1] + '2'); os.close(fd)
"""
    page.hold(1.9)
    assert page.start("python3", "-c", script, tmp_path / "file").wait(timeout=60) == 0
    assert page.sum("holds") == 0


@pytest.mark.acceptance
def test_ten_thousand_children_leave_no_slot_and_lose_no_byte(page, tmp_path):
    script = 'i=0; while [ $i -lt 10000 ]; do (echo x) >> "$1"; i=$((i + 1)); done'
    assert page.start("sh", "-c", script, "sh", tmp_path / "file").wait() == 0
    assert (tmp_path / "file").stat().st_size == page.sum("bytes") == 20_000
    assert list(page.slots()) == []
    assert page.page.refused == 0


@pytest.mark.acceptance
def test_words_that_change_all_the_time_cost_no_byte_and_leave_nothing_under_way(
    page, kinds, tmp_path
):
    """Threads, children, signals and stdio at once, while words come, lapse and go."""
    drawn = random.Random(1)
    known = {"threads": 400, "fork": 500, "fwrite": 100, "alarms": 100, "exec": 101, "write": 100}
    for _ in range(20):
        before = page.sum("bytes")
        jobs = {
            kind: page.start(kinds, kind, tmp_path / kind, stdout=subprocess.DEVNULL)
            for kind in known
        }
        while any(job.poll() is None for job in jobs.values()):
            if drawn.random() < 0.7:
                page.hold(drawn.choice([0.001, 0.005, 0.02, 3600]), drawn.choice([0, 10**6, 1]))
            else:
                page.go()
            time.sleep(drawn.choice([0.0, 0.001, 0.01]))
        assert {job.returncode for job in jobs.values()} == {0}
        assert page.sum("bytes") - before == sum(known.values()) << 10
        assert list(page.slots()) == []
