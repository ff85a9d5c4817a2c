"""Whatever ends `sluice site calibrate`, its probes end with it, and it can be gone on with."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import interruptible
import pytest

from sluice.cli.listing import stopped_like_ctrl_c
from sluice.history_db.records import CoRun
from sluice.history_db.store import Store
from sluice.interference.calibrate.grid import PlannedCoRun
from sluice.interference.calibrate.protocol import TIE, Timing
from sluice.interference.calibrate.session import (
    FILE_SYSTEMS,
    MOST_REPEATS,
    Session,
    Settings,
    estimate_seconds,
)
from sluice.interference.calibrate.targets import Target, claimed
from sluice.interference.programs import CalibrationError, Program

LONG = ("--window", "50", "--co-run", "ws:4K:1 aw:64K:1", "--budget", "1h")

OWNER = """
import sys, time
from pathlib import Path
from sluice.interference.calibrate.protocol import Launcher
from sluice.interference.programs import Program

program = Program("ws", 4096, 1)
place = Path(sys.argv[2])
how = {"start": time.time() + 60, "length": ["--duration", "60"], "slice_s": 0.1}
process = Launcher(sys.argv[1]).start(program, place, **how)
print("started", flush=True)
time.sleep(120)
"""


def wait_until(condition, seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def place(tmp_path: Path) -> Path:
    directory = tmp_path / "target"
    directory.mkdir()
    return directory


def test_probes_end_with_their_owner_even_when_it_is_killed(program, place):
    owner = subprocess.Popen([sys.executable, "-c", OWNER, program, place], stdout=subprocess.PIPE)
    assert wait_until(lambda: list(place.glob("*/ws.*")))
    owner.kill()
    owner.communicate()
    assert wait_until(lambda: not list(place.iterdir()))


HOLDS = """
import sys, time
from pathlib import Path
from sluice.interference.calibrate.protocol import Inputs, Launcher, Member
from sluice.interference.calibrate.targets import Target
from sluice.interference.programs import Program

member = Member(Program("read", 4096, 2), Target("a", (Path(sys.argv[2]),)))
Launcher(sys.argv[1], inputs=Inputs()).input_of(member, 0)
print("held", flush=True)
time.sleep(120)
"""


def test_files_to_read_go_with_their_owner_even_when_it_is_killed(program, place):
    words = [sys.executable, "-c", HOLDS, program, place]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout.readline() == "held\n"
        assert len(list(place.glob("*/read.*"))) == 2
        owner.kill()
    assert wait_until(lambda: not list(place.iterdir()))


def test_a_probe_whose_owner_has_ended_already_does_not_start():
    stranger = str(os.getppid())
    done = subprocess.run([*TIE, stranger, "echo", "started"], check=False, capture_output=True)
    assert (done.returncode, done.stdout) == (1, b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_like_ctrl_c_while_something_is_measured(number):
    before = signal.signal(number, signal.SIG_DFL)  # these tests may run under nohup themselves
    try:
        with pytest.raises(KeyboardInterrupt), stopped_like_ctrl_c():
            signal.raise_signal(number)
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_nohup_keeps_a_calibration_from_ending_with_its_terminal():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopped_like_ctrl_c():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.acceptance
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize(
    ("seed", "files"), [("2", "ws.*"), ("1", "aw.*")], ids=["in a run alone", "in one together"]
)
def test_a_stopped_calibration_writes_no_more_and_can_be_resumed(
    program, place, number, seed, files
):
    history = place.with_name("history.db")
    words = ["site", "calibrate", "run", "--target", f"a={place}", "--probe", program, *LONG]
    words += ["--seed", seed, "--history", history]
    process = interruptible.start(Path(sys.executable).with_name("sluice"), *words)
    assert wait_until(lambda: list(place.glob(f"*/{files}")))
    process.send_signal(number)
    complaint = process.communicate(timeout=60)[1]
    assert number == signal.SIGKILL or "go on with `sluice site calibrate resume`" in complaint
    assert wait_until(lambda: not list(place.iterdir()))
    with Store(history) as store:
        (calibration,) = store.interference.calibrations()
        assert not calibration.finished
        assert Session.resume(store, calibration, probe=str(program)).measured == []


# -- going on -----------------------------------------------------------------------


PAIR = PlannedCoRun(Program("ws", 4096, 1), (Program("aw", 4096, 1),))


def settings_for(place: Path) -> Settings:
    return Settings((Target("a", (place,)),), (PAIR,), Timing(), budget=60.0)


def dropped(corun: PlannedCoRun) -> CoRun:
    members = (str(corun.probe), *map(str, corun.signals))
    return CoRun(0, "rates", members, ("a", "a"), (1.0, 2.0), (1.0, 1.0), 0.0, "noise")


def test_what_was_dropped_is_measured_again_but_not_for_ever(tmp_path, place):
    with Store(tmp_path / "history.db", create=True) as store:
        session = Session.begin(store, settings_for(place), site="here", probe="probe")
        for (corun,) in session.to_do():
            session.measured.append(dropped(corun))
    assert len(session.measured) == 1 + MOST_REPEATS


def test_less_time_is_left_the_more_is_measured_and_never_more_than_the_budget(tmp_path, place):
    others = [replace(PAIR, probe=Program("ws", 4096, processes)) for processes in (2, 3)]
    settings = replace(settings_for(place), plan=(PAIR, *others))
    with Store(tmp_path / "history.db", create=True) as store:
        session = Session.begin(store, settings, site="here", probe="probe")
        left = [session.seconds_left()]
        for corun in settings.plan:
            session.measured.append(replace(dropped(corun), dropped=""))
            left.append(session.seconds_left())
        assert left[0] == estimate_seconds(settings.plan, settings.timing, settings.lead_seconds)
        assert left == pytest.approx([left[0] * share / 3 for share in (3, 2, 1, 0)])
        session.measured[-1] = dropped(settings.plan[-1])
        assert session.seconds_left() == pytest.approx(left[-2])
        hasty = Session.begin(store, replace(settings, budget=5.0), site="here", probe="probe")
        assert hasty.seconds_left() == 5.0


def test_a_target_that_lies_on_another_file_system_is_not_gone_on_with(tmp_path, place):
    with Store(tmp_path / "history.db", create=True) as store:
        Session.begin(store, settings_for(place), site="here", probe="probe")
        (calibration,) = store.interference.calibrations()
        assert Session.resume(store, calibration, probe="probe").settings == settings_for(place)
        facts = {FILE_SYSTEMS: {str(place): "lustre mgs:/scratch"}}
        settings = calibration.settings | facts
        store.interference.add_calibration(created=0, site="here", settings=settings)
        with pytest.raises(CalibrationError, match="was on lustre mgs:/scratch when"):
            Session.resume(store, store.interference.calibrations()[-1], probe="probe")
        place.rmdir()
        with pytest.raises(CalibrationError, match="No such file or directory; repair that"):
            Session.resume(store, calibration, probe="probe")


def test_two_do_not_measure_on_one_target_at_once(tmp_path, place):
    history = Store(tmp_path / "history.db", create=True)
    with claimed([Target("a", (place, place))]), history as store:
        with pytest.raises(CalibrationError, match="somebody measures there just now"):
            Session.begin(store, settings_for(place), site="here", probe="probe")
        assert store.interference.calibrations() == []
    with claimed([Target("b", (place,))]):
        pass
