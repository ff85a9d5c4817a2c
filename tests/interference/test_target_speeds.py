"""How fast targets are as the history has it: which runs tell of which, and of what not."""

from dataclasses import replace

import pytest
from click.testing import CliRunner
from history_rows import a_job, a_log, a_profile

from sluice.cli.main import main
from sluice.history_db.records import Holder, PlacedRun, RunningSet, TargetProbe
from sluice.history_db.store import Store
from sluice.interference.target_speeds import (
    KEEPS_UP,
    LONELY,
    SLOW,
    UNSURE,
    Lanes,
    speeds_of_lanes,
    target_speeds,
    without_corunners,
)
from sluice.policies import core

NOW = 1_800_000_000


def lanes_of(conf: str) -> Lanes:
    return Lanes.of(core.parse_config("sluice.conf", conf.encode()))


THREE = "Lane=sl0 Targets=4\nLane=sl1 Targets=4\nLane=big Targets=8\n"
LANES = lanes_of(THREE)
NO_LANES = lanes_of("")


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "history.db", create=True) as store:
        yield store


def published(store, lanes=LANES):
    return [speed.published for speed in speeds_of_lanes(store, lanes, NOW)]


def test_probes_in_the_history_tell_of_lanes_and_of_other_targets(store):
    rates = {"sl0": 100e6, "sl1": 30e6, "big": 200e6, "spare": 10e6}
    store.interference.add_target_probes(
        TargetProbe(name, "aw:1M:2", NOW - i, rate)
        for name, rate in rates.items()
        for i in range(5)
    )
    found = target_speeds(store, LANES, NOW)
    assert [(speed.target, speed.verdict) for speed in found] == [
        ("sl0", KEEPS_UP),
        ("sl1", SLOW),
        ("big", LONELY),
        ("spare", LONELY),
    ]
    assert published(store) == [1.0, pytest.approx(0.3), 1.0]


def test_a_site_without_observations_has_lanes_of_full_speed(store):
    assert published(store) == [1.0, 1.0, 1.0]
    assert published(store, NO_LANES) == []


def run_on(
    store,
    number,
    rate,
    *,
    lane_mask=0,
    osts=None,
    moved=None,
    together=(),
    logs=1,
    first_log=0,
    exe="/apps/a",
    uid=None,
):
    """A job that ran, with its logs; co-runners are the lanes of others, as masks.

    Two users' jobs take turns, unless one is named.
    """
    uid = 1000 + number % 2 if uid is None else uid
    numbers = {"rate": rate, "write_bytes": moved}
    for i in range(first_log, first_log + logs):
        log = a_log(1000 * number + i, jobid=number, start=NOW - 600, end=NOW - 500, uid=uid)
        log = replace(log, osts=osts, exe=exe)
        store.runs.add_logs([(log, a_profile(numbers=numbers), b"")])
    job = a_job(job_id=number, submit=NOW - 700, start=NOW - 610, end=NOW - 490, uid=uid)
    store.jobs.upsert_jobs([job])
    holders = [Holder(number, NOW - 700, "stream", lane_mask)]
    store.gates.add_running_set(RunningSet("c1", NOW - 605, tuple(holders), {}))
    holders += [
        Holder(9000 + i, NOW - 700, "stream" if mask else "", mask)
        for i, mask in enumerate(together)
    ]
    store.gates.add_running_set(RunningSet("c1", NOW - 600, tuple(holders), {}))
    store.jobs.link_logs()


def test_runs_of_jobs_that_held_tokens_of_one_lane_tell_of_that_lane(store):
    for i in range(6):
        run_on(store, 100 + i, 90e6, lane_mask=0b01)
        run_on(store, 200 + i, 20e6, lane_mask=0b10)
        run_on(store, 300 + i, 1e6, lane_mask=0b11)  # on both: tells of neither
    found = target_speeds(store, LANES, NOW)
    assert [(speed.runs, speed.verdict) for speed in found] == [
        (6, KEEPS_UP),
        (6, SLOW),
        (0, LONELY),
    ]


def test_scripts_of_one_interpreter_are_programs_of_their_own(store):
    for i in range(6):
        run_on(store, 100 + i, 90e6, lane_mask=0b01, exe="/usr/bin/python3 md.py")
        run_on(store, 200 + i, 5e6, lane_mask=0b10, exe="/usr/bin/python3 post.py")
    assert [speed.verdict for speed in target_speeds(store, LANES, NOW)] == [LONELY] * 3


def test_runs_on_lustre_tell_of_the_targets_that_their_logs_name(store):
    for i in range(8):
        run_on(store, 100 + i, 90e6, osts=(1,))
        run_on(store, 200 + i, 90e6, osts=(2, 3))
        run_on(store, 300 + i, 10e6, osts=(26,))
    found = {speed.target: speed for speed in target_speeds(store, NO_LANES, NOW)}
    assert list(found) == ["OST0001", "OST0002", "OST0003", "OST001a"]
    assert [one.target for one in found.values() if one.is_slow] == ["OST001a"]
    assert found["OST0002"].evidence < found["OST0001"].evidence  # a run on two tells half


def test_a_slow_target_of_lustre_slows_the_lane_that_the_site_says_it_is_of(store):
    for i in range(8):
        run_on(store, 100 + i, 90e6, osts=(1,))
        run_on(store, 200 + i, 90e6, osts=(5,))
        run_on(store, 300 + i, 10e6, osts=(8,))
    lanes = lanes_of(f"{THREE}LaneOsts=sl0:0-3,8,sl1:4-7\n")
    first, second, third = speeds_of_lanes(store, lanes, NOW)
    assert (first.target, first.verdict, first.runs) == ("sl0", SLOW, 8)
    assert first.published == pytest.approx(1 / 9)
    assert (second.published, third.published) == (1.0, 1.0)


@pytest.mark.parametrize(
    "text", ["0-3", "sl9:0", "sl0:", "sl0:3-1", "sl0:x", "sl0:65536", "sl0:1-2-3", "sl0:-1"]
)
def test_targets_of_lanes_that_make_no_sense_are_refused(text):
    with pytest.raises(core.CoreError, match=r"LaneOsts: .* write sl0:0-3,8,sl1:4-7"):
        lanes_of(f"{THREE}LaneOsts={text}\n")


def test_a_run_comes_back_with_its_place(store):
    run_on(store, 100, 5.0, lane_mask=0b10, osts=(7, 9), moved=3.0)
    run = PlacedRun(
        "job 1", 1000, "a", 4, NOW - 600, NOW - 500, 3.0, 5.0, 1, (7, 9), with_corunners=False
    )
    assert store.interference.runs_on_lanes(since=0, until=NOW, latest=10) == [run]
    assert store.interference.runs_on_osts(since=0, until=NOW, latest=10) == [
        replace(run, lane=None)
    ]
    assert store.interference.runs_on_lanes(since=NOW, until=NOW, latest=10) == []
    assert store.interference.runs_on_osts(since=NOW, until=NOW, latest=10) == []


def test_logs_that_claim_the_future_push_out_no_others(store):
    """Of a node whose clock is wrong, or of a user who writes anything."""
    run_on(store, 100, 5.0, osts=(7,))
    log = a_log(1, jobid=100, start=NOW + 10**9, end=NOW + 10**9, osts=(7,))
    store.runs.add_logs([(log, a_profile(numbers={"rate": 1.0}), b"")])
    assert [run.rate for run in store.interference.runs_on_osts(since=0, until=NOW, latest=1)] == [
        5.0
    ]


def test_pruning_forgets_what_targets_did(store):
    run_on(store, 100, 5.0, lane_mask=0b10)
    store.interference.add_target_probes([TargetProbe("sl0", "aw:1M:2", NOW - 9, 1.0)])
    store.upkeep.prune(before=NOW)
    assert store.interference.target_probes(since=0) == []
    assert store.interference.runs_on_lanes(since=0, until=NOW, latest=10) == []


def with_corunners(store):
    return [
        run.with_corunners
        for run in store.interference.runs_on_lanes(since=0, until=NOW, latest=10)
    ]


def test_pruning_forgets_who_had_co_runners(store):
    run_on(store, 100, 5.0, lane_mask=0b10, together=(0b10,))
    assert with_corunners(store) == [True]
    store.upkeep.prune(before=NOW)
    run_on(store, 100, 5.0, lane_mask=0b10)
    assert with_corunners(store) == [False]


def verdicts(store, lanes=LANES):
    return [speed.verdict for speed in speeds_of_lanes(store, lanes, NOW)]


def test_all_logs_of_a_job_tell_no_more_than_one_run(store):
    """A job of 64 processes without MPI leaves 64 logs, of what happened once."""
    for number in (1, 2):
        run_on(store, number, 90e6, lane_mask=0b01, osts=(1,), logs=64)
        run_on(store, 2 + number, 20e6, lane_mask=0b10, osts=(2,), logs=64)
    found = target_speeds(store, LANES, NOW)
    assert [(speed.runs, speed.evidence) for speed in found] == [
        (2, pytest.approx(2, rel=0.01)),
        (2, pytest.approx(2, rel=0.01)),
        (0, 0.0),
        (2, pytest.approx(2, rel=0.01)),
        (2, pytest.approx(2, rel=0.01)),
    ]
    assert [speed.verdict for speed in found[:2]] == [UNSURE, UNSURE]


def test_all_programs_of_a_job_tell_no_more_than_one_run(store):
    for i in range(8):
        for number in (1, 2):
            here = {"exe": f"/apps/{i} --rank 1", "first_log": 8 * i}
            run_on(store, number, 90e6, lane_mask=0b01, **here)
            run_on(store, 2 + number, 20e6, lane_mask=0b10, **here)
    assert verdicts(store)[:2] == [UNSURE, UNSURE]


def test_logs_of_a_job_that_accounting_does_not_know_are_one_run_too(store):
    for number, rate, ost in ((1, 90e6, 1), (2, 20e6, 2), (3, 90e6, 1), (4, 20e6, 2)):
        place = {"uid": 1000 + number // 3, "osts": (ost,)}
        for i in range(20):
            log = a_log(1000 * number + i, jobid=number, start=NOW - 600, **place)
            store.runs.add_logs([(log, a_profile(numbers={"rate": rate}), b"")])
    assert [speed.verdict for speed in target_speeds(store, NO_LANES, NOW)] == [UNSURE, UNSURE]


def test_processes_that_write_to_targets_of_their_own_tell_of_each(store):
    for number in range(6):
        for ost in range(4):
            rate = 20e6 if ost == 3 else 90e6
            run_on(store, number, rate, osts=(ost,), first_log=10 * ost)
    found = target_speeds(store, NO_LANES, NOW)
    assert [speed.verdict for speed in found] == [KEEPS_UP] * 3 + [SLOW]


def test_logs_of_one_user_alone_slow_no_lane(store):
    """They may name any target and claim any rate."""
    for i in range(12):
        run_on(store, 100 + i, 90e6, lane_mask=0b01, osts=(1,), uid=666)
        run_on(store, 200 + i, 1e6, lane_mask=0b10, osts=(5,), uid=666)
    lanes = lanes_of(f"{THREE}LaneOsts=sl0:0-3,sl1:4-7\n")
    assert published(store, lanes) == [1.0, 1.0, 1.0]
    for number in (0, 1):
        run_on(store, 300 + number, 90e6, osts=(1,), uid=1000)
        run_on(store, 400 + number, 1e6, osts=(5,), uid=1000)
    assert published(store, lanes) == [1.0, pytest.approx(1 / 90), 1.0]


UNLIKE = """\
Lane=fast Targets=8 Bandwidth=40G
Lane=disk Targets=8 Bandwidth=8G
LaneOsts=fast:0-7,disk:8-15
"""


def test_targets_of_unlike_lanes_are_not_compared(store):
    """The configuration says already that disks give a fifth of flash."""
    for ost in range(16):
        for i in range(6):
            run_on(store, 10 * ost + i, 1e9 if ost >= 8 else 5e9, osts=(ost,))
    lanes = lanes_of(UNLIKE)
    found = target_speeds(store, lanes, NOW)
    assert [speed.verdict for speed in found[2:]] == [KEEPS_UP] * 16
    assert published(store, lanes) == [1.0, 1.0]


def test_a_target_that_is_slow_among_those_of_its_lane_is_found_alongside_unlike_ones(store):
    for ost in range(16):
        rate = 0.3e9 if ost == 9 else 1e9 if ost >= 8 else 5e9
        for i in range(6):
            run_on(store, 10 * ost + i, rate, osts=(ost,))
    lanes = lanes_of(UNLIKE)
    found = target_speeds(store, lanes, NOW)
    assert [speed.target for speed in found if speed.is_slow] == ["disk", "OST0009"]
    assert published(store, lanes) == [1.0, pytest.approx(0.3)]


def test_targets_of_no_lane_are_compared_with_each_other_alone(store):
    for ost in (0, 1, 20, 21):
        for i in range(6):
            run_on(store, 10 * ost + i, 1e9 if ost >= 20 else 5e9, osts=(ost,))
    found = target_speeds(store, lanes_of(UNLIKE), NOW)
    assert [speed.verdict for speed in found[2:]] == [KEEPS_UP] * 4


def test_a_target_of_two_lanes_is_refused():
    with pytest.raises(core.CoreError, match="LaneOsts: OST0003 is of two lanes"):
        lanes_of(f"{THREE}LaneOsts=sl0:0-3,sl1:3-7\n")


@pytest.mark.parametrize(
    ("together", "verdict"),
    [
        ((), SLOW),
        ((0b01,), SLOW),  # on the other lane
        ((0b10,), LONELY),
        ((0b11,), LONELY),
        ((0,), LONELY),  # without a token, so it may write anywhere
    ],
)
@pytest.mark.parametrize("place", ["", "LaneOsts=sl0:0-3,sl1:4-7\n"])
def test_a_lane_that_is_loaded_is_not_called_slow(store, together, verdict, place):
    """What co-runners takes is counted by the core already."""
    for i in range(6):
        run_on(store, 100 + i, 90e6, lane_mask=0b01, osts=(1,))
        run_on(store, 200 + i, 30e6, lane_mask=0b10, osts=(5,), together=together)
    lanes = lanes_of(THREE + place)
    assert verdicts(store, lanes)[1] == verdict
    assert published(store, lanes)[1] == (pytest.approx(1 / 3) if verdict == SLOW else 1.0)


def test_runs_without_co_runners_count_alongside_those_that_had_it(store):
    for i in range(6):
        run_on(store, 100 + i, 90e6, lane_mask=0b01)
        run_on(store, 200 + i, 90e6, lane_mask=0b10)
        run_on(store, 300 + i, 30e6, lane_mask=0b10, together=(0b10,))
    assert verdicts(store) == [KEEPS_UP, KEEPS_UP, LONELY]


@pytest.mark.parametrize(
    ("streamed", "is_slow"),
    [(9e9, False), (0.1e9, True), (None, True)],
    ids=["much", "little", "?"],
)
def test_a_target_of_lustre_that_another_job_loads_is_not_called_slow(store, streamed, is_slow):
    """Its runs are of jobs that matter too little for sluiced to look whom they meet."""
    for i in range(6):
        run_on(store, 100 + i, 90e6, osts=(1,), moved=1e6)
        run_on(store, 200 + i, 30e6, osts=(5,), moved=1e6)
    for number in (300, 301):  # which are with co-runners themselves
        run_on(store, number, 90e6, lane_mask=0b10, together=(0b10,), osts=(5,), moved=streamed)
    lanes = lanes_of(f"{THREE}LaneOsts=sl0:0-3,sl1:4-7\n")
    slow = [speed.target for speed in target_speeds(store, lanes, NOW) if speed.is_slow]
    assert slow == (["sl1", "OST0005"] if is_slow else [])


def test_programs_of_one_job_are_no_co_runners_for_each_other(store):
    for first_log, exe in enumerate(("/apps/a", "/apps/b")):
        run_on(store, 100, 90e6, osts=(1,), moved=9e9, exe=exe, first_log=first_log)
    told = store.interference.runs_on_osts(since=0, until=NOW, latest=10)
    assert len(told) == 2
    assert without_corunners(told) == told


# Probes


@pytest.mark.parametrize("counter", [(), ("--counter", "a=echo 0")])
def test_a_target_whose_traffic_nothing_counts_is_named_before_it_is_probed(
    tmp_path, monkeypatch, counter
):
    """Memory has no block device, like Lustre, NFS and MooseFS: there every probe counts."""
    conf = tmp_path / "sluice.conf"
    conf.write_text(f"History={tmp_path / 'history.db'}\n")
    monkeypatch.setenv("SLUICE_CONF", str(conf))
    words = ("site", "targets", "--measure", "a=/dev/shm", *counter, "--probe", "/nowhere/probe")
    remark = "a: nothing counts others' traffic here; see --counter"
    assert (remark in CliRunner().invoke(main, words).stderr) == (not counter)
