"""What is missing or broken in a trace is repaired by a stated rule, counted and named."""

import json
import tomllib
from pathlib import Path

import pytest

from sluice.sim.engine import STATES, MachineError, TraceError
from sluice.sim.replay.experiment import Experiment
from sluice.sim.replay.io_replay import replay
from sluice.sim.replay.scenario import EXAMPLE, parse_scenario
from sluice.sim.trace.jobs import read_swf
from sluice.sim.trace.machine import one_pool, parse_site, site_of
from sluice.sim.trace.repairs import RULES, make_replayable

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "replay.md"

# job submit wait run given - - asked limit - status user group - - partition after think
TRACE = b"""\
; MaxProcs: 10
1 0 0 100 4 -1 -1 4 200 -1 1 1 1 -1 -1 1 -1 -1
2 5 0 100 4 -1 -1 4 50 -1 1 1 1 -1 -1 1 -1 -1
3 9 0 100 4 -1 -1 4 -1 -1 1 2 1 -1 -1 1 -1 -1
4 7 0 100 4 -1 -1 -1 200 -1 0 2 1 -1 -1 1 1 30
5 9 0 0 4 -1 -1 4 200 -1 5 2 1 -1 -1 1 -1 -1
6 9 0 -1 4 -1 -1 4 200 -1 1 2 1 -1 -1 1 -1 -1
7 9 0 10 -1 -1 -1 -1 200 -1 1 2 1 -1 -1 1 -1 -1
8 9 0 10 11 -1 -1 11 200 -1 1 2 1 -1 -1 1 77 -1
9 -1 0 10 1 -1 -1 1 200 -1 2 2 1 -1 -1 1 -1 -1
oops
"""
FOUND = {
    "broken line": (1, (11,)),
    "piece of a job told whole elsewhere": (1, (9,)),
    "never ran": (1, (5,)),
    "no run time": (1, (6,)),
    "no size": (1, (7,)),
    "out of order": (1, (4,)),
    "no time limit": (1, (3,)),
    "ran beyond its limit": (1, (2,)),
    "waits for a job that is not there": (1, (8,)),
    "larger than its partition": (1, (8,)),
}


def made(**options):
    trace = read_swf("trace.swf", TRACE)
    return make_replayable(trace, site_of(trace), **options)


def test_every_repair_is_counted_and_names_jobs():
    repairs = {repair.what: (repair.count, repair.examples) for repair in made().repairs}
    assert repairs == FOUND


def test_the_rules_do_what_they_say():
    replayable = made()
    jobs = replayable.workload.jobs
    assert list(replayable.trace.job_id[replayable.rows]) == [1, 2, 4, 3, 8]
    assert list(jobs["limit"]) == [200, 100, 200, 200, 200]
    assert list(jobs["dependency_count"]) == [0, 0, 1, 0, 0]
    results = replay(replayable, site_of(replayable.trace)).results
    assert [STATES[state] for state in results["state"]] == [
        *("completed", "completed", "failed", "completed", "impossible")
    ]
    assert results["start"][2] >= results["end"][0] + 30  # think time


def test_a_job_beyond_its_limit_is_killed_where_that_is_wanted():
    replayable = made(kills=True)
    assert "ran beyond its limit" not in {repair.what for repair in replayable.repairs}
    results = replay(replayable, one_pool(10)).results
    assert STATES[results["state"][1]] == "timeout"
    assert results["end"][1] - results["start"][1] == 50


def test_the_manual_states_every_rule():
    page = PAGE.read_text()
    assert [what for what, rule in RULES.items() if f"| {what} | {rule} |" not in page] == []


def test_a_trace_of_which_nothing_can_be_replayed_is_refused():
    line = b"6 9 0 -1 4 -1 -1 4 200 -1 1 2 1 -1 -1 1 -1 -1\n"
    with pytest.raises(TraceError, match=r"none of its 1 jobs can be replayed \(no run time: 1\)"):
        make_replayable(read_swf("x", line), one_pool(10))


def test_a_machine_of_unknown_size_is_as_large_as_it_was_ever_busy():
    assert site_of(read_swf("x", TRACE.split(b"\n", 1)[1])).machine.slots == 27


def test_the_manual_shows_a_scenario_that_is_understood():
    assert EXAMPLE in PAGE.read_text()
    members = parse_scenario(EXAMPLE)
    site = parse_site(json.loads(members["machine"]))
    assert members["settings"] == {"priority": "multifactor", "weight_age": "1000"}
    assert (members["kind"], members["mix"], members["lanes"]) == ("csv", "short", 4)
    assert Experiment.of(members | {"trace": "t.csv"}).policy_options().wrong == 0.3
    assert site.machine.group_slots == (96, 4)
    assert [partition.groups for partition in site.machine.partitions] == [(0,), (0, 1)]
    assert site.leases["amount"][0] == 2


WRONG = (
    ("", "no \\[groups\\]"),
    ("[groups]\na = -1", "groups.a is -1; give a whole number"),
    ("[groups]\na = 1\n[partitions.p]\ngroups = ['b']", "no b; there are a"),
    ("[groups]\na = 1\n[[leases]]\namount = 1", "names either a license or a group"),
)


@pytest.mark.parametrize(("text", "reason"), WRONG)
def test_a_machine_that_makes_no_sense_is_refused(text, reason):
    with pytest.raises(MachineError, match=reason):
        parse_site(tomllib.loads(text))


def test_partitions_of_the_trace_are_those_of_the_scenario():
    lines = b"".join(
        b"%d 0 0 10 1 -1 -1 1 60 -1 1 1 1 -1 -1 %d -1 -1\n" % (i, i) for i in (1, 2, 3)
    )
    text = "[groups]\na = 2\nb = 3\n[partitions.2]\ngroups = ['a']\n[partitions.1]\n"
    replayable = make_replayable(read_swf("x", lines), parse_site(tomllib.loads(text)))
    assert list(replayable.workload.jobs["partition"]) == [1, 0, 0]
    assert [repair.what for repair in replayable.repairs] == ["unknown partition"]


def test_a_machine_larger_than_can_be_counted_is_refused():
    line = b"; MaxProcs: 99999999999999999999\n1 0 0 9 4 -1 -1 4 20 -1 1 1 1 1 1 1 -1 -1\n"
    with pytest.raises(MachineError, match="can count; give its size with --slots"):
        site_of(read_swf("x", line))
    with pytest.raises(MachineError, match="groups are more than"):
        parse_site({"groups": {"a": 1000000000, "b": 1000000000}})
