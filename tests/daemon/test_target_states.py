"""What sluiced takes from `lfs df`: a stand-in here, with the output of Lustre's manual."""

import time
from pathlib import Path

import pytest

from sluice.policies import core
from sluice.slurm.gates import target_states
from sluice.slurm.gates.target_states import TargetState, TargetStates, states_of

DF = """\
UUID                   1K-blocks        Used   Available Use% Mounted on
lustre-MDT0000_UUID      8056992      540468     6854192   8% /mnt/lustre[MDT:0]
lustre-OST0000_UUID      1000000      950000       50000  95% /mnt/lustre[OST:0]
lustre-OST0001_UUID      1000000      100000      900000  10% /mnt/lustre[OST:1]
lustre-OST0002_UUID : inactive device
OST000a             : Resource temporarily unavailable

filesystem_summary:      2000000     1050000      950000  53% /mnt/lustre
"""
CONFIG = core.parse_config(
    "test", b"Lane=a Targets=2\nLane=b Targets=3 Place=blocks\nLaneOsts=b:2,0-1,a:10-11\n"
)


def test_lustre_says_how_full_targets_are_and_which_are_down():
    assert states_of(DF) == {
        "OST0000": TargetState(950000.0, 1000000.0, is_down=False),
        "OST0001": TargetState(100000.0, 1000000.0, is_down=False),
        "OST0002": TargetState(0.0, 0.0, is_down=True),
        "OST000a": TargetState(0.0, 0.0, is_down=True),
    }


def test_a_number_that_two_file_systems_have_is_left_out():
    other = "other-OST0001_UUID 9 8 1 90% /mnt/other[OST:1]\n"
    assert "OST0001" not in states_of(DF + other)
    assert "OST0000" in states_of(DF + other)


@pytest.mark.parametrize("text", ["", "lfs df: no Lustre here\n", "OST0000_UUID x y\n", "\0\xff"])
def test_anything_else_says_nothing(text):
    assert states_of(text) == {}


@pytest.fixture
def lfs(tmp_path, monkeypatch):
    """Return what makes a stand-in of lfs, which counts its calls."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(target_states, "REFRESH_SECONDS", 0.0)

    def make(script: str) -> Path:
        calls = tmp_path / "calls"
        (tmp_path / "lfs").write_text(f'#!/bin/sh\necho "$*" >>{calls}\n{script}\n')
        (tmp_path / "lfs").chmod(0o755)
        return calls

    return make


def until(condition):
    while not condition():
        time.sleep(0.01)


def test_targets_are_told_by_the_numbers_of_their_lanes(lfs, tmp_path):
    (tmp_path / "df").write_text(DF)
    calls = lfs(f"cat {tmp_path}/df; exit 1")
    states = TargetStates()

    def found():
        states.refresh(CONFIG)
        return states.by_number(CONFIG)

    until(found)
    told = states.by_number(CONFIG)
    assert {number for number, state in told.items() if state.is_down} == {(1, 0)}
    assert told[1, 1].used == 950000.0
    assert set(told) == {(1, 0), (1, 1), (1, 2)}  # the other lane has no blocks
    assert set(calls.read_text().splitlines()) == {"df"}
    states.close()


def test_a_command_that_hangs_stops_nothing_and_is_not_started_again(lfs):
    calls = lfs("exec sleep 600")
    states = TargetStates()
    states.refresh(CONFIG)
    until(calls.exists)
    for _ in range(3):
        states.refresh(CONFIG)
        assert states.by_number(CONFIG) == {}
    assert calls.read_text() == "df\n"
    states.close()


def test_what_was_read_long_ago_counts_no_longer(lfs, tmp_path, monkeypatch):
    (tmp_path / "df").write_text(DF)
    calls = lfs(f"cat {tmp_path}/df")
    states = TargetStates()

    def found():
        states.refresh(CONFIG)
        return states.by_number(CONFIG)

    until(found)
    calls.unlink()
    lfs("exec sleep 600")
    until(lambda: states.refresh(CONFIG) or calls.exists())
    assert states.by_number(CONFIG)
    monkeypatch.setattr(target_states, "KEPT_SECONDS", 0.0)
    states.refresh(CONFIG)
    assert states.by_number(CONFIG) == {}
    states.close()


@pytest.mark.parametrize(
    "lanes", [b"Lane=b Targets=3\nLaneOsts=b:0-2\n", b"Lane=b Targets=3 Place=blocks\n"]
)
def test_lustre_is_asked_only_where_blocks_consist_of_known_targets(lfs, lanes):
    calls = lfs("exit 0")
    states = TargetStates()
    for _ in range(3):
        states.refresh(core.parse_config("test", lanes))
    assert states.by_number(CONFIG) == {}
    assert states._command is None  # noqa: SLF001 - nothing was started, so no call can come
    assert not calls.exists()
