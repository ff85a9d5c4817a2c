"""`sluice site targets` with the real probe: what it says, and a throttled target that it finds."""

import json
import os
import tempfile
import time
from dataclasses import replace

import pytest
from click.testing import CliRunner
from storage_targets import StorageTargets
from target_kinds import Limits

from sluice.cli.main import main
from sluice.history_db.records import TargetProbe
from sluice.history_db.store import Store
from sluice.interference.programs import MIB

LANES = "Lane=sl0 Targets=1\nLane=sl1 Targets=1\n"


@pytest.fixture
def sluice(program, tmp_path, monkeypatch):
    """Run a command with a history and two lanes; its result must be a good one."""
    conf = tmp_path / "sluice.conf"
    conf.write_text(f"History={tmp_path / 'history.db'}\n{LANES}")
    monkeypatch.setenv("SLUICE_CONF", str(conf))
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)

    def run(*words, code=0):
        done = CliRunner().invoke(main, ["site", "targets", *map(str, words)])
        assert done.exit_code == code, done.output
        return done.output if code else done.stdout

    return run


def keep(tmp_path, rates):
    now = int(time.time())
    with Store(tmp_path / "history.db", create=True) as store:
        store.interference.add_target_probes(
            TargetProbe(name, "aw:1M:2", now - i, rate)
            for name, rate in rates.items()
            for i in range(5)
        )


def test_a_slow_target_is_named_with_its_evidence(sluice, tmp_path):
    keep(tmp_path, {"sl0": 60e6, "sl1": 20e6})
    first, second = json.loads(sluice("--json"))["targets"]
    assert first["verdict"] == "keeps up with its peers"
    assert (second["target"], second["verdict"]) == ("sl1", "slow")
    assert second["published"] == second["speed"] == pytest.approx(1 / 3)
    assert second["low"] <= second["speed"] <= second["high"]
    assert second["probes"] == 5
    lines = sluice().splitlines()
    assert lines[1].split()[:2] == ["Target", "Speed"]
    assert lines[3].startswith("sl1")
    assert lines[3].endswith("slow")


def test_lanes_that_nobody_looked_at_are_shown_as_unknown(sluice, tmp_path):
    keep(tmp_path, {})
    assert [one["verdict"] for one in json.loads(sluice("--json"))["targets"]] == [
        "nothing to compare with"
    ] * 2


def test_a_measured_place_leaves_its_probe_in_the_history_and_nothing_else(sluice, tmp_path):
    place = tmp_path / "ost0"
    place.mkdir()
    words = ("--measure", f"sl0={place}", "--rounds", 1, "--program", "aw:64K:1", "--json")
    assert json.loads(sluice(*words))["targets"][0]["target"] == "sl0"
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--measure", "a"), "a: not a target like NAME=DIRECTORY"),
        (("--measure", "a=/nowhere"), "/nowhere: no such directory"),
        (("--measure", "a=.", "--measure", "a=/"), "two targets have one name"),
        (("--measure", "a=.", "--counter", "b=x"), "--counter b: no target has that name"),
        (("--measure", "a=.", "--program", "xyz"), "xyz: not a program like owc:1M:2"),
        (("--measure", "a=.", "--program", "owc+aw:1M:1"), "cannot be dealt to 2 patterns"),
    ],
)
def test_what_is_meant_by_no_option_is_wrong_usage(sluice, words, reason):
    assert reason in sluice(*words, code=2)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--measure", "a=.", "--probe", "/nowhere/probe"), "/nowhere/probe: not found"),
        ((), "sluice history ingest"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(sluice, words, reason):
    assert reason in sluice(*words, code=1)


@pytest.mark.acceptance
@pytest.mark.storage
def test_a_target_throttled_to_a_third_is_found_by_probes(sluice):
    limits = Limits(bandwidth=60_000_000, size=512 * MIB, dirty=16 * MIB)
    with tempfile.TemporaryDirectory(prefix="sluice-storage-") as name:
        targets = StorageTargets(
            name, lanes=["sl0", "sl1"], limits=limits, kinds=["blkio", "io.max"]
        )
        with targets:
            targets.limit("sl1", replace(limits, bandwidth=limits.bandwidth // 3))
            places = [f"--measure={lane}={targets.path(lane)}" for lane in ("sl0", "sl1")]
            first, second = json.loads(sluice(*places, "--json"))["targets"]
            again = json.loads(sluice("--json"))["targets"]
    print(f"{targets.label}: sl0 {first['speed']:.2f}, sl1 {second['speed']:.2f} of its peer")
    assert first["published"] == 1.0
    assert second["verdict"] == "slow"
    assert 0.2 < second["published"] < 0.5
    assert [one["verdict"] for one in again] == [first["verdict"], "slow"]
