"""`sluice site calibrate` with the real probe: in a directory, and on a throttled target."""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import interruptible
import pytest
from click.testing import CliRunner
from storage_targets import StorageTargets
from target_kinds import Limits

from sluice.cli.main import main
from sluice.history_db.errors import HistoryError
from sluice.history_db.store import Store
from sluice.interference.calibrate import protocol
from sluice.interference.calibrate.protocol import (
    MOST_FOREIGN_SHARE,
    MOST_PATTERNS,
    MOST_PROCESSES,
    Block,
    Inputs,
    Launcher,
    Member,
    Rates,
    Timing,
    Trace,
    _quiet,
    _reason_to_drop,
    in_time,
    measure,
    measure_blocks,
)
from sluice.interference.calibrate.servers import ROUNDS
from sluice.interference.calibrate.targets import Target, Watch
from sluice.interference.programs import KIB, MIB, CalibrationError, Program

QUICK = ("--window", "0.2", "--fill", "0")
PAIR = ("--co-run", "ws:4K:1 aw:64K:1", "--co-run", "owc:4K:1 ws:4K:1 aw:4K:1")


@pytest.fixture
def sluice(program, tmp_path, monkeypatch):
    """Run a command with a history of its own; its result must be a good one."""
    monkeypatch.setenv("SLUICE_HISTORY", str(tmp_path / "history.db"))
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)

    def run(*words, code=0):
        done = CliRunner().invoke(main, list(map(str, words)))
        assert done.exit_code == code, done.output
        return done.output if code else done.stdout

    return run


@pytest.fixture
def nowhere():
    """A directory on no block device."""
    with tempfile.TemporaryDirectory(prefix="sluice-", dir="/dev/shm") as name:
        yield Path(name)


@pytest.fixture
def place(tmp_path):
    directory = tmp_path / "target"
    directory.mkdir()
    return directory


def test_a_plan_says_how_long_it_takes_before_anything_is_written(sluice, place):
    words = ("site", "calibrate", "plan", "--target", f"a={place}")
    plan = json.loads(sluice(*words, "--json"))
    assert 80 <= len(plan["planned"]) <= 120
    assert plan["left_out"] == []
    assert plan["rounds"] == ROUNDS
    assert plan["seconds_for_all"] < plan["budget_seconds"]
    short = json.loads(sluice(*words, "--budget", "3m", "--json"))
    assert short["planned"] == plan["planned"][: len(short["planned"])]
    assert len(short["planned"]) == pytest.approx(
        180 / plan["budget_seconds"] * len(plan["planned"]), abs=10
    )
    assert list(place.iterdir()) == []


def test_what_was_measured_is_in_the_history_and_in_the_report(sluice, place):
    words = ("--target", f"a={place}", *QUICK, *PAIR, "--site", "here", "--budget", "15s")
    outcome = json.loads(sluice("site", "calibrate", "run", *words, "--json"))
    assert outcome["measured"] >= 2
    assert list(place.iterdir()) == []
    (listed,) = json.loads(sluice("site", "calibrate", "list", "--json"))["calibrations"]
    assert listed["site"] == "here"
    assert listed["finished"]
    assert "here: " in sluice("site", "calibrate", "report")
    report = json.loads(sluice("site", "calibrate", "report", "--json"))
    assert report["stability"]["dropped"] == outcome["dropped"]


def measured(history: Path) -> int:
    """How many co-runs another process has stored so far."""
    try:
        with Store(history, read_only=True) as store:
            return len(store.interference.coruns([c.id for c in store.interference.calibrations()]))
    except HistoryError:
        return 0  # it is just being made


def test_an_interrupted_calibration_goes_on_where_it_was(sluice, place, tmp_path):
    many = [word for i in range(1, 4) for word in ("--co-run", f"ws:{4 * i}K:1 aw:4K:1")]
    words = ("site", "calibrate", "run", "--target", f"a={place}", *QUICK, *many, "--budget", "20s")
    process = interruptible.start(Path(sys.executable).with_name("sluice"), *words)
    deadline = time.monotonic() + 60
    while measured(tmp_path / "history.db") < 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    complaint = process.communicate(timeout=60)[1]
    assert "takes about" in complaint
    assert "of its budget of 20 s" in complaint
    assert "go on with `sluice site calibrate resume`" in complaint
    (before,) = json.loads(sluice("site", "calibrate", "list", "--json"))["calibrations"]
    assert not before["finished"]
    assert 1 <= before["measured"] < 3
    sluice("site", "calibrate", "resume")
    (after,) = json.loads(sluice("site", "calibrate", "list", "--json"))["calibrations"]
    assert after["finished"]
    assert after["measured"] - after["dropped"] <= 3 <= after["measured"]
    assert "no calibration was interrupted" in sluice("site", "calibrate", "resume", code=1)


def test_a_full_target_ends_a_calibration_that_goes_on_once_there_is_room(sluice, place):
    mount = ["mount", "-t", "tmpfs", "-o", "size=3M", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine does not let us mount a tmpfs")
    try:
        words = ("--target", f"a={place}", *QUICK, "--co-run", "aw:4K:1 ws:4K:1")
        complaint = sluice("site", "calibrate", "run", *words, "--budget", "3s", code=1)
        assert f"{place}: the file system is nearly full; make room there" in complaint
        assert "0 co-runs are kept, go on with `sluice site calibrate resume`" in complaint
        subprocess.run([*mount[:3], "-o", "remount,size=1G", str(place)], check=True)
        sluice("site", "calibrate", "resume")
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_target_that_is_gone_is_named(place):
    target = Target.parse(f"a={place}", {})
    place.rmdir()
    with pytest.raises(CalibrationError, match="No such file"):
        target.settle()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--target", "a"), "a: not a target like NAME=DIRECTORY"),
        (("--target", "a=/nowhere"), "/nowhere: no such directory"),
        (("--target", "a=.", "--counter", "b=x"), "--counter b: no target has that name"),
        (("--target", "a=.", "--co-run", "owc:1M"), "name a probe and at least one signal"),
        (("--target", "a=.", "--co-run", "owc:1M xyz"), "xyz: not a program like owc:1M:2"),
        (("--target", "a=.", "--co-run", "ws:1M aw:1000:2::direct"), "is a multiple of 4K"),
        (("--target", "a=.", "--target", "b=./."), "two targets have one directory"),
        (
            ("--target", "a=.", "--tasks", "4", "--co-run", "owc:1M:4 aw:1M:6"),
            "aw:1M:6: its processes cannot be dealt to 4 tasks evenly",
        ),
        (
            ("--target", "a=.", "--tasks", "4", "--co-run", "owc:1M:4 owc+aw:1M:4"),
            "give it a multiple of 8 of them",
        ),
        (
            ("--target", "a=.", "--co-run", "owc:1M aw:1M:1025"),
            "aw:1M:1025: a probe starts at most 1024 processes",
        ),
        (
            ("--target", "a=.", "--co-run", f"owc:1M {'+'.join(17 * ['aw'])}:1M:17"),
            "a mix has at most 16 patterns",
        ),
        (
            ("--target", "a=.", "--co-run", "owc:1M owc+aw:1M:1"),
            "owc+aw:1M:1: its processes cannot be dealt to 2 patterns evenly",
        ),
        (
            ("--target", "a=.", "--co-run", "owc:1M owc+aw+aw:1M:2"),
            "give it a multiple of 3 of them",
        ),
        (("--target", "a=.", "--co-run", "owc:1M aw:1M:²"), "not a program like owc:1M:2"),
        (("--target", "a=.", "--tasks", "2"), "--tasks 2: only --srun starts several"),
    ],
)
def test_what_no_calibration_can_mean_is_wrong_usage(sluice, tmp_path, words, reason):
    assert reason in sluice("site", "calibrate", "run", *words, code=2)
    with Store(tmp_path / "history.db", create=True) as store:
        assert store.interference.calibrations() == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--target", "a=.", "--probe", "/nowhere/probe"), "/nowhere/probe: not found"),
        (("--target", "a=.", "--budget", "5s"), "nothing can be measured within 5 s"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_reason(sluice, tmp_path, words, reason):
    assert reason in sluice("site", "calibrate", "run", *words, code=1)
    with Store(tmp_path / "history.db", create=True) as store:
        assert store.interference.calibrations() == []


def test_a_probe_takes_as_many_processes_and_patterns_as_are_let_through(program):
    def complaint(processes: int, patterns: int) -> str:
        words = ("--processes", str(processes), "--pattern", "+".join(patterns * ["aw"]), ".")
        return subprocess.run([program, *words], check=False, capture_output=True, text=True).stderr

    assert "--duration: missing" in complaint(MOST_PROCESSES, MOST_PATTERNS)
    assert "--processes: not a number from 1" in complaint(MOST_PROCESSES + 1, 1)
    assert "--pattern: too many parts" in complaint(1, MOST_PATTERNS + 1)


def test_a_calibration_that_cannot_go_on_keeps_no_other_from_it(sluice, place, tmp_path):
    """The latest is taken unless a number is given."""
    for _ in range(2):
        sluice(
            "site",
            "calibrate",
            "run",
            "--target",
            f"a={place}",
            *QUICK,
            *PAIR,
            "--probe",
            "/bin/false",
            code=1,
        )
    words = ("site", "calibrate", "resume", "--probe", "/bin/false")
    assert "calibration 2: " in sluice(*words, code=1)
    assert "go on with `sluice site calibrate resume 1`" in sluice(*words, "1", code=1)
    assert "calibration 3: not in" in sluice(*words, "3", code=1)
    with Store(tmp_path / "history.db") as store:
        store.interference.finish_calibration(1)
    assert "calibration 1: is finished" in sluice(*words, "1", code=1)


def test_where_nothing_counts_what_reaches_a_target_a_calibration_says_so(sluice, nowhere):
    words = ("--target", f"a={nowhere}", *QUICK, *PAIR, "--probe", "/bin/false")
    said = sluice("site", "calibrate", "run", *words, code=1)
    assert "nothing counts what reaches a: what write() took is measured" in said
    counted = (*words, "--counter", "a=echo 1")
    assert "nothing counts" not in sluice("site", "calibrate", "run", *counted, code=1)


def test_a_counter_on_no_block_device_is_refused(sluice, place, nowhere):
    words = ("--target", f"a={place}", *QUICK, *PAIR, "--counter", f"a={nowhere}")
    assert "that directory lies on no block device" in sluice(
        "site", "calibrate", "run", *words, code=2
    )
    assert "there is no history yet" in sluice("site", "calibrate", "list", code=1)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *[("--srun", "nosuchsrun -N 1"), ("--srun", "sh 'x")],
        *[("--window", "nan"), ("--window", "1e9"), ("--fill", "inf"), ("--fill", "-1")],
    ],
)
def test_what_cannot_be_asked_of_a_program_is_a_usage_error(sluice, option, value):
    sluice("site", "calibrate", "plan", "--target", "a=.", option, value, code=2)


def test_chunks_that_direct_io_cannot_write_are_planned_without_it(sluice):
    plan = sluice("site", "calibrate", "plan", "--target", "a=.", "--chunk", "1000")
    assert "aw:1000:2:each" in plan
    assert "direct" not in plan


def run_once(program, place, *texts):
    target = Target("a", (place,))
    members = [Member(Program.parse(text), target) for text in texts]
    timing = Timing(fill=0, window=0.2)
    return measure(members, launcher=Launcher(str(program)), timing=timing)


def test_what_is_read_does_not_have_to_reach_the_target(program, place):
    """Counters of targets count what is written; operations on metadata are no bytes."""
    tries = (run_once(program, place, "read:64K:1", "metadata:4K:1").rates for _ in range(10))
    assert any(min(rates) > 0 for rates in tries)  # a busy machine may leave one without a turn


def test_reads_are_measured_by_the_same_session_and_leave_nothing(sluice, place):
    words = ("--target", f"a={place}", *QUICK, "--budget", "60s")
    pairs = ("--co-run", "read:64K:2 aw:64K:1", "--co-run", "read:64K:2 read:64K:2")
    told = sluice("site", "calibrate", "run", *words, *pairs)
    assert list(place.iterdir()) == []
    report = json.loads(sluice("site", "calibrate", "report", "--json"))
    assert report["stability"]["dropped"] + len(report["losses"]) >= 2, told


def test_files_to_read_are_made_once_and_go_at_the_end(program, place):
    target = Target("a", (place,))
    timing = Timing(fill=0, window=0.1)
    members = [Member(Program.parse(text), target) for text in ("read:64K:2", "read:64K:2")]
    with Inputs() as inputs:
        launcher = Launcher(str(program), inputs=inputs)
        first = measure(members, launcher=launcher, timing=timing)
        kept = {path: path.stat().st_ino for path in place.glob("*/read.*")}
        measure(members, launcher=launcher, timing=timing)
        assert {path: path.stat().st_ino for path in place.glob("*/read.*")} == kept
        assert len({path.parent for path in kept}) == 2  # none is read by both
    assert len(kept) == 4
    assert len(first.rates) == 2
    assert list(place.iterdir()) == []


def test_files_to_read_that_cannot_be_made_are_an_error(program, place):
    member = Member(Program.parse("read"), Target("a", (place / "gone",)))
    with Inputs() as inputs, pytest.raises(CalibrationError, match="gone"):
        Launcher(str(program), inputs=inputs).input_of(member, 0)


def test_a_run_during_which_the_clock_was_set_does_not_count(program, place, monkeypatch):
    asked = []

    def clock() -> float:
        """Set after it was asked for the first time."""
        asked.append(None)
        return 0.0 if len(asked) == 1 else 3600.0

    monkeypatch.setattr(protocol, "_clock", clock)
    run_once(program, place, "ws:4K:1")
    assert len(asked) > 2


SRUN = (
    *("sh", "-c", 'echo "Welcome; {jobs: 2}"; "$@" & "$@"; code=$?; wait $! && exit $code'),
    "srun",
)
"""Two tasks, and what a site's prolog prints."""


def run_tasks(program, place, tasks):
    def run(launcher: Launcher) -> Trace:
        start = time.time() + launcher.lead_seconds
        how = {"start": start, "length": ["--volume", "4K"], "slice_s": 0.1}
        return launcher.start(Program("ws", 4 * KIB, 2), place, **how).finish(0.0)

    return in_time(Launcher(str(program), SRUN, tasks), run)


def test_what_a_site_prints_alongside_the_reports_of_tasks_is_passed_over(program, place):
    assert sum(run_tasks(program, place, 2).bytes) == 2 * 4 * KIB


def test_srun_that_starts_another_number_of_probes_than_tasks_measures_nothing(program, place):
    reason = "--srun started 2 probes, but --tasks is 1; begin another"
    with pytest.raises(CalibrationError, match=reason):
        run_tasks(program, place, 1)


def test_a_full_target_is_an_error_and_no_measurement(program, place):
    """All of it is to be left free, so it is full."""
    target = Target("a", (place,))
    launcher = Launcher(str(program), ("sh", "-c", 'exec "$@" --leave 100', "sh"))
    with pytest.raises(CalibrationError, match=f"{place}: the file system is nearly full"):
        measure_blocks(
            Member(Program("ws", 4 * KIB, 1), target),
            [[Member(Program("aw", 64 * KIB, 1), target)]],
            launcher=launcher,
            timing=Timing(fill=0, window=0.2),
            order=random.Random(1),
        )
    assert list(place.iterdir()) == []


def block(first=1.0, second=1.0, together=(0.5, 0.5), foreign=0.0):
    runs = (Rates((first,), 1.0, 0.0), Rates((second,), 1.0, foreign))
    return Block(runs, Rates(together, 1.0, 0.0), "")


@pytest.mark.parametrize(
    ("measured", "reason"),
    [
        (block(), ""),
        (block(1.0, 0.951), ""),
        (block(1.0, 0.94), "alone it got"),
        (block(foreign=0.09), ""),
        (block(foreign=0.11), "others had 11% of the traffic"),
        (block(together=(0.0, 1.0)), "a program did nothing"),
    ],
)
def test_a_block_is_dropped_by_the_rules(measured, reason):
    assert _reason_to_drop(measured).startswith(reason)
    assert bool(_reason_to_drop(measured)) == bool(reason)


def test_a_counter_that_takes_long_makes_others_no_faster(place):
    def count() -> int:
        """Of somebody who writes 1 MB/s."""
        time.sleep(0.2)
        return int(1e6 * time.monotonic())

    assert _quiet(Target("a", (place,)), count, 0.1) == pytest.approx(1e6, rel=0.5)


def test_a_counter_that_fails_once_while_something_runs_is_no_measurement(program, place, tmp_path):
    """Three times it counted: before the quiet time, after it, at the start."""
    asked = tmp_path / "asked"
    counter = f"echo >> {asked}; test $(wc -l < {asked}) -ne 4 && wc -c < {asked}"
    target = Target("a", (place,), counter)
    with pytest.raises(CalibrationError, match="printed no number of bytes"):
        measure(
            [Member(Program("ws", 4 * KIB, 1), target)],
            launcher=Launcher(str(program), lead_seconds=2.0),
            timing=Timing(fill=0, window=0.2),
        )


def test_what_ends_a_run_is_told_and_not_that_its_counter_failed_too():
    asked = []

    def count() -> int:
        asked.append(None)
        if len(asked) > 1:
            raise CalibrationError("the counter")
        return 0

    def run() -> None:
        with Watch(count):
            while len(asked) < 2:
                time.sleep(0.01)
            raise CalibrationError("the run")

    with pytest.raises(CalibrationError, match="the run"):
        run()


@pytest.mark.parametrize("phase", range(0, 100, 9))
def test_a_rate_does_not_depend_on_where_a_window_cuts_bursts(phase):
    """A throttle that lets 10 MB through at each tenth of a second, looked at for 1.35 s."""
    watch = Watch(int)
    watch.times = [i / 50 for i in range(100)]
    watch.counts = [10_000_000 * int(10 * (t + phase / 1000)) for t in watch.times]
    assert watch.rate(0.4, 1.75) == pytest.approx(1e8, rel=0.01)


@pytest.mark.storage
def test_a_stream_is_found_to_hurt_a_flushing_program(program):
    """On a throttled target; what write() takes beyond its rate is not counted."""
    limits = Limits(bandwidth=60_000_000, size=512 * MIB, dirty=16 * MIB)
    with tempfile.TemporaryDirectory(prefix="sluice-storage-") as name:
        targets = StorageTargets(name, lanes=["a"], limits=limits, kinds=["blkio", "io.max"])
        with targets:
            target = Target("a", (targets.path("a"),))
            (found,) = measure_blocks(
                Member(Program("ws", MIB), target),
                [[Member(Program("aw", MIB), target)]],
                launcher=Launcher(str(program)),
                timing=Timing(window=1.0),
                order=random.Random(1),
            )
    alone = [run.rates[0] for run in found.alone]
    assert found.together.rates[0] / statistics.fmean(alone) < 0.5
    assert max(found.together.rates) < 1.25 * limits.bandwidth


PACED = """
import sys, time

with open(sys.argv[1], "wb", buffering=0) as file:
    for _ in range(2000):
        file.write(bytes(200_000))
        time.sleep(0.01)
"""
"""A program that leaves a third of the target's bandwidth in the cache of this machine."""


@pytest.mark.acceptance
@pytest.mark.storage
def test_others_are_seen_although_a_cache_of_this_machine_takes_what_they_write(program):
    """In one of the three runs at least that a block has."""
    limits = Limits(bandwidth=60_000_000, size=1024 * MIB, dirty=64 * MIB)
    with tempfile.TemporaryDirectory(prefix="sluice-storage-") as name:
        targets = StorageTargets(name, lanes=["a"], limits=limits, kinds=["blkio", "io.max"])
        with targets:
            place = targets.path("a")
            undisturbed = [run_once(program, place, "ws:1M:2").foreign for _ in range(3)]
            with subprocess.Popen([sys.executable, "-c", PACED, place / "paced"]) as other:
                disturbed = [run_once(program, place, "ws:1M:2").foreign for _ in range(3)]
                other.kill()
    print(f"others' share: {max(undisturbed):.2f} without them, {max(disturbed):.2f} with them")
    assert max(undisturbed) < MOST_FOREIGN_SHARE < max(disturbed)


def test_interference_says_where_its_figures_come_from(sluice, place):
    sluice("site", "calibrate", "run", "--target", f"a={place}", *QUICK, *PAIR, "--budget", "8s")
    answer = json.loads(sluice("site", "interference", "owc:1M:4", "aw:1M:4", "--json"))
    for row in answer["losses"]:  # which a session of seconds may leave unknown
        figures = [row["least"], row["loss"], row["most"]]
        assert figures == [None] * 3 or figures == sorted(figures)
    assert answer["by_chunk"][0]["chunk"] == "64K"
    assert "no log of such a job" in sluice("site", "interference", "job:1", "aw:1M:4", code=1)
    assert "not a program" in sluice("site", "interference", "xyz", "aw:1M:4", code=2)
