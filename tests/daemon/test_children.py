"""sluiced runs programs as its children: bounded, started again, and gone when it is gone."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from private_slurm import free_ports

from sluice.slurm import children
from sluice.slurm.children import LEARN, LIMITS, TURNS, Child, Children
from sluice.slurm.status import is_locked, learner_path, read_status, turns_path

BIN = Path(sys.executable).parent
PATIENCE = 60.0  # seconds; much of it passes where many tests share two cores

SPEAKS = """\
#!/bin/sh
echo $$ >> {place}/$(basename $0)
exec {python} -c '
import os, socket, time
said = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
while True:
    said.sendto(b"WATCHDOG=1", os.environ["NOTIFY_SOCKET"].replace("@", "\\0", 1))
    time.sleep(0.1)
'
"""
DEAF = "#!/bin/sh\ntrap '' TERM\necho $$ >> {place}/$(basename $0)\nwhile :; do sleep 0.1; done\n"


def wait_for(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (answer := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return answer


class Programs:
    """Stand-ins for both programs: each writes the id of each of its processes into a file."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "bin").mkdir()
        for name in (LEARN, TURNS):
            self.write(name, SPEAKS)

    def write(self, name: str, text: str) -> None:
        path = self.place / "bin" / name
        path.write_text(text.format(place=self.place, python=sys.executable))
        path.chmod(0o755)

    def pids(self, name: str) -> list[int]:
        try:
            return [int(line) for line in (self.place / name).read_text().split()]
        except FileNotFoundError:
            return []

    def wait(self, name: str, count: int = 1) -> int:
        """Return the process of this start."""
        return wait_for(lambda: self.pids(name)[count - 1 : count])[0]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch) -> Programs:
    made = Programs(tmp_path)
    monkeypatch.setattr(children, "find_program", (tmp_path / "bin").joinpath)
    monkeypatch.setattr(children, "POLL_SECONDS", 0.05)
    return made


@pytest.fixture
def running() -> Iterator[Children]:
    found = Children(Path("/etc/slurm/sluice.conf"))
    yield found
    found.close()


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_one_that_ends_is_started_again_and_harms_no_other(programs, running):
    running.run({LEARN: (), TURNS: (6822,)})
    first, other = programs.wait(LEARN), programs.wait(TURNS)
    for count in (2, 3):
        os.kill(programs.wait(LEARN, count - 1), signal.SIGKILL)
        programs.wait(LEARN, count)
    told = wait_for(lambda: found if (found := running.states())[LEARN]["restarts"] == 2 else None)
    assert told[LEARN]["since"] >= told[LEARN]["ended"]
    assert told[LEARN]["last_exit"] == "ended by signal 9"
    assert told[TURNS] | {"since": None} == {
        "since": None,
        "restarts": 0,
        "last_exit": None,
        "ended": None,
    }
    assert programs.pids(TURNS) == [other]
    assert is_gone(first)


def test_one_that_ends_at_once_is_given_ever_longer_rests(programs, running):
    programs.write(LEARN, "#!/bin/sh\necho $$ >> {place}/$(basename $0)\nexit 3\n")
    running.run({LEARN: ()})
    programs.wait(LEARN, 3)  # at once, and after half a second
    assert running.states()[LEARN]["last_exit"] == "ended with status 3"
    assert pauses(Child(LEARN), 10) == [0, 0.5, 1, 2, 4, 8, 16, 32, 60, 60]


def pauses(child: Child, count: int) -> list[float]:
    """Until the next start, after so many ends in a row."""
    found = []
    for _ in range(count):
        child.has_ended("again")
        found.append(round(max(0, child._not_before - time.monotonic()), 1))  # noqa: SLF001
    return found


def test_one_that_is_missing_is_named_and_taken_up_when_it_is_there(programs, running):
    (programs.place / "bin" / LEARN).rename(programs.place / "away")
    running.run({LEARN: ()})
    said = wait_for(lambda: running.states()[LEARN]["last_exit"])
    assert "No such file" in said
    (programs.place / "away").rename(programs.place / "bin" / LEARN)
    programs.wait(LEARN)


def test_one_without_a_sign_of_life_is_killed_and_started_again(programs, monkeypatch):
    monkeypatch.setitem(LIMITS, TURNS, replace(LIMITS[TURNS], silent_seconds=1.0))
    running = Children(Path("none"))
    running.run({TURNS: ()})
    os.kill(programs.wait(TURNS), signal.SIGSTOP)
    programs.wait(TURNS, 2)
    assert "without a sign of life" in running.states()[TURNS]["last_exit"]
    running.close()


def test_each_is_bounded(programs, running):
    running.run({LEARN: (), TURNS: ()})
    learner, turns = programs.wait(LEARN), programs.wait(TURNS)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for pid, share in ((learner, 0.6), (turns, 0.1)):
        soft, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
        assert soft == hard == pytest.approx(share * memory, rel=1e-6)
    assert os.getpriority(os.PRIO_PROCESS, learner) == 10
    assert len(os.sched_getaffinity(learner)) <= 2
    assert Path(f"/proc/{learner}/oom_score_adj").read_text() == "500\n"
    assert resource.prlimit(turns, resource.RLIMIT_NOFILE)[0] == min(
        32768, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    )


def test_one_that_is_wanted_otherwise_starts_anew_and_one_that_is_not_ends(programs, running):
    running.run({LEARN: (), TURNS: (6822,)})
    before, learner = programs.wait(TURNS), programs.wait(LEARN)
    running.run({TURNS: (6823,)})
    programs.wait(TURNS, 2)
    wait_for(lambda: is_gone(before) and is_gone(learner))
    assert running.states().keys() == {TURNS}
    assert running.states()[TURNS]["restarts"] == 0  # nothing ended that was to run


def test_all_end_in_bounded_time_also_those_that_ignore_it(programs, running, monkeypatch):
    monkeypatch.setattr(children, "END_SECONDS", 0.5)
    programs.write(TURNS, DEAF)
    running.run({LEARN: (), TURNS: ()})
    pids = [programs.wait(LEARN), programs.wait(TURNS)]
    running.close()
    assert all(map(is_gone, pids))


# A real sluiced with both real programs; no Slurm, which the two do not need to start.


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    [port] = free_ports(1)
    (tmp_path / "sluice.conf").write_text(
        f"Snapshot={tmp_path}/snapshot\nHistory={tmp_path}/history.db\nBundle={tmp_path}/bundle\n"
        f"Socket={tmp_path}/sock\nOffFile={tmp_path}/off\nTurnsPort={port}\n"
        f"DarshanLogs={tmp_path}/logs\n"
    )
    return tmp_path


@pytest.fixture
def sluiced(site: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (
        (site / "log").open("wb") as log,
        subprocess.Popen([BIN / "sluiced", "--config", site / "sluice.conf"], stderr=log) as found,
    ):
        yield found
        found.kill()


def live(site: Path) -> list[bool]:
    """Whether learner and coordinator hold their locks."""
    found = []
    for path in (learner_path(site / "history.db"), turns_path(site / "snapshot")):
        try:
            found.append(is_locked(path))
        except FileNotFoundError:
            found.append(False)
    return found


def programs_of(site: Path) -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [BIN / "sluice", "status", "--json", "--config", site / "sluice.conf"],
        capture_output=True,
        text=True,
        check=False,
    )
    return {row["program"]: row for row in json.loads(done.stdout)["programs"]}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_sluiced_runs_what_the_settings_ask_for_and_takes_it_along(site, sluiced, number):
    wait_for(lambda: live(site) == [True, True])
    wait_for((site / "snapshot.status").exists)
    found = wait_for(lambda: rows if (rows := programs_of(site))[LEARN]["since"] else None)
    assert found.keys() == {"sluice-feed", LEARN, TURNS}
    assert found[TURNS]["restarts"] == 0
    sluiced.send_signal(number)
    sluiced.wait(PATIENCE)
    wait_for(lambda: live(site) == [False, False])
    assert all(row["since"] is None for row in programs_of(site).values())


def test_what_ended_is_named_by_the_doctor(site, sluiced):
    wait_for(lambda: live(site) == [True, True])
    text = wait_for(lambda: [x for x in (site / "log").read_text().splitlines() if "process" in x])
    pid = int(next(line for line in text if TURNS in line).rpartition(" ")[2])
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: read_status(site / "snapshot").children[TURNS]["restarts"] == 1)
    words = [BIN / "sluice", "doctor", "--json", "--config", site / "sluice.conf"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    [finding] = [row for row in json.loads(done.stdout)["findings"] if row["topic"] == TURNS]
    assert finding["level"] == "WARN"
    assert "ended by signal 9" in finding["text"]
    assert sluiced.poll() is None
