"""What the arguments of the submit line tell, and how far volumes may be off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from finished import finished_job
from hypothesis import given
from hypothesis import strategies as st

from sluice.history_db.records import Profile
from sluice.policies import core
from sluice.prediction.backtest import walk
from sluice.prediction.jobs import submission_of
from sluice.prediction.score import judge
from sluice.prediction.train import Past, TrainedModel, bundle_of, fit_quickly

if TYPE_CHECKING:
    from sluice.prediction.jobs import FinishedJob

MIB = 1 << 20
START = 1_700_000_000


def a_job(number: int, line: str, written: float, pattern: str = "aw", **changes) -> FinishedJob:
    numbers = {"chunk_bytes": 1e6, "write_bytes": written, "io_share": 0.4, "rate": 1e9}
    submit = START + 3600 * number
    times = {"submit": submit, "start": submit + 60, "end": submit + 600}
    profile = Profile(pattern, 0.95, {pattern: 1.0}, numbers, 0.5)
    arguments = core.arguments_of(line)
    fields = {"script_signature": 77, "arguments": arguments} | times | changes
    return finished_job(profile, number=number, **fields)


def predicted(jobs, line: str):
    model = fit_quickly(jobs)
    again = TrainedModel.from_bytes(model.to_bytes())
    return bundle_of(again).predict(submission_of(a_job(99, line, 0.0)))


def alternating(count: int) -> list[FinishedJob]:
    sizes = [100, 8]
    return [
        a_job(i, f"sbatch job.sh {sizes[i % 2]}", sizes[i % 2] * MIB) for i in range(1, count + 1)
    ]


# The submit line


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        ("sbatch job.sh", ()),
        ("sbatch job.sh 100", (100,)),
        ("sbatch -n 4 --exclusive -J x42 job.sh --size=8M out_3.dat 0.5", (8 * MIB, 3, 0.5)),
        ("sbatch --hold -p main job.sh 7", (7,)),
        ("srun -n4 --mpi pmi2 ./a.out -s 2GiB 1 2 3", (2 << 30, 1, 2)),
        ("/usr/bin/srun -u -- ./a.out 16k", (16 << 10,)),
        ("sbatch", ()),
        ("", ()),
        ("sbatch -n", ()),
        ("srun a " + "9" * 400, (1e18,)),
    ],
)
def test_what_stands_behind_the_script_are_its_arguments(line, numbers):
    found = core.arguments_of(line)
    assert tuple(number for number in found.numbers if number) == numbers


def test_options_of_the_submission_change_no_argument():
    plain = core.arguments_of("sbatch job.sh a 1")
    assert plain == core.arguments_of("sbatch -d afterok:12 -o out_7 job.sh a 1 ")
    assert plain.hash != core.arguments_of("sbatch job.sh a 2").hash


@given(st.text(max_size=200))
def test_any_line_is_read(line):
    found = core.arguments_of("sbatch " + line)
    assert found.hash
    assert all(0 <= number <= 1e18 for number in found.numbers)


# What is learned of them


@pytest.mark.parametrize("count", [3, 4, 8])
def test_a_script_whose_argument_alternates_is_told_by_it(count):
    for size in (100, 8):
        found = predicted(alternating(count), f"sbatch job.sh {size}")
        assert found.evidence == "user_arguments"
        assert found.profile.write_bytes == pytest.approx(size * MIB)
        assert found.profile.spread["write_bytes"] < core.WIDE


def test_where_nothing_tells_the_volumes_apart_the_spread_says_so():
    jobs = [a_job(i, "sbatch job.sh", (100 if i % 2 else 8) * MIB) for i in range(1, 9)]
    found = predicted(jobs, "sbatch job.sh")
    assert found.evidence == "user_script"
    assert found.profile.confidence > 0.8
    assert found.profile.spread["write_bytes"] > core.WIDE


def test_arguments_never_seen_leave_the_spread_wide():
    found = predicted(alternating(8), "sbatch job.sh 50")
    assert found.evidence == "user_script"
    assert found.profile.spread["write_bytes"] > core.WIDE


def test_bytes_follow_a_number_where_the_runs_show_it():
    sizes = [2 ** (i % 5) for i in range(1, 16)]
    jobs = [a_job(i, f"srun app -s {s} -r {i}", s * MIB) for i, s in enumerate(sizes, start=1)]
    found = predicted(jobs, "srun app -s 12 -r 99")
    assert found.profile.write_bytes == pytest.approx(12 * MIB, rel=0.05)
    assert found.profile.spread["write_bytes"] < core.WIDE
    beyond = predicted(jobs, "srun app -s 4096 -r 1")
    assert beyond.profile.write_bytes == pytest.approx(32 * MIB, rel=0.05)


def test_arguments_that_say_nothing_make_no_entries():
    jobs = [a_job(i, f"sbatch job.sh in_{i % 3}", 8 * MIB) for i in range(1, 9)]
    model = fit_quickly(jobs)
    assert "user_arguments" not in {entry.application.evidence for entry in model.table}
    assert predicted(jobs, "sbatch job.sh in_7").profile.spread["write_bytes"] < core.WIDE


def test_arguments_can_tell_the_pattern():
    jobs = [
        a_job(i, f"sbatch job.sh {'write' if i % 2 else 'read'}", 8 * MIB, "aw" if i % 2 else "ws")
        for i in range(1, 11)
    ]
    assert predicted(jobs, "sbatch job.sh write").profile.pattern == "aw"
    assert predicted(jobs, "sbatch job.sh read").profile.pattern == "ws"


def test_an_outlier_among_alike_runs_widens_the_spread():
    alike = [a_job(i, "sbatch job.sh", 8 * MIB) for i in range(1, 9)]
    narrow = predicted(alike, "sbatch job.sh").profile.spread["write_bytes"]
    wide = predicted([*alike, a_job(9, "sbatch job.sh", 100 * MIB)], "sbatch job.sh")
    assert narrow < core.WIDE < wide.profile.spread["write_bytes"]


def test_a_volume_that_never_stayed_is_not_the_next_and_one_that_always_did_is():
    """How many runs count, the runs themselves show: accidents pass, other inputs stay."""
    now_and_then_a_test = [1 if i % 4 == 0 else 64 for i in range(1, 17)]
    inputs = [1 if i // 4 % 2 else 64 for i in range(12)]
    for volumes, told in ((now_and_then_a_test, 64), (inputs, 64), ([*inputs, 1], 1)):
        jobs = [a_job(i, "sbatch job.sh", mib * MIB) for i, mib in enumerate(volumes, start=1)]
        assert predicted(jobs, "sbatch job.sh").profile.write_bytes == told * MIB


# How good it is


def test_a_backtest_over_hours_judges_volumes_and_their_spread():
    """An alternating argument is right at once; what nothing tells apart is flagged."""
    hidden = [
        a_job(i, "sbatch other.sh", (100 if i % 3 else 8) * MIB, script_signature=78)
        for i in range(1, 31)
    ]
    told, untold = (judge(*walk(Past(jobs, []), skip=0.2)) for jobs in (alternating(30), hidden))
    assert (told.answered, told.bytes_within_2, told.bytes_flagged) == (1.0, 1.0, None)
    assert told.flagged == 0.0
    assert untold.bytes_within_2 < 0.9
    assert untold.bytes_flagged == 1.0
