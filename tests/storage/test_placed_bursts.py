"""Jobs on single targets: the model against cases by hand, and real targets."""

import pytest
from placed_bursts import AtCreate, Blocks, Chance, Job, Placer, draw_jobs, fluid, losses
from real_placement import PLACERS, RATE, draws, on_targets, run, share_lost, targets_of
from storage_lab import require


def job(begin: float, *, width: int = 1, nodes: int = 1, burst: float = 10.0) -> Job:
    return Job(width, nodes, burst, 0.1, (begin,))


class Fixed(Placer):
    """Bursts of job i go to the i-th targets."""

    def __init__(self, jobs, *at):
        self._fixed = at
        super().__init__(jobs, 4, 0)

    def _prepare(self, chance):
        pass

    def _place(self, job, _clock):
        return self._fixed[job]


def lost_on(jobs, *at):
    return losses(jobs, fluid(Fixed(jobs, *at), 100.0))


def test_bursts_on_targets_of_their_own_lose_nothing():
    jobs = (job(0.0), job(5.0, nodes=3))
    assert lost_on(jobs, (0,), (1,)) == (pytest.approx(0.0), 40.0)


def test_two_on_one_target_lose_the_shorter_rest_each():
    jobs = (job(0.0), job(5.0, nodes=3))
    assert lost_on(jobs, (0,), (0,)) == (pytest.approx(5.0 + 3 * 5.0), 40.0)


def test_the_slowest_target_of_a_burst_decides():
    jobs = (job(0.0, width=2), job(5.0, nodes=3))
    assert lost_on(jobs, (0, 1), (1,)) == (pytest.approx(5.0 + 3 * 5.0), 40.0)


def test_a_job_late_with_a_burst_is_late_with_the_next():
    jobs = (Job(1, 1, 10.0, 0.5, (0.0, 12.0)), job(0.0))
    assert [(b.job, b.began, b.seconds) for b in fluid(Fixed(jobs, (0,), (0,)), 100.0)] == [
        (0, 0.0, pytest.approx(20.0)),
        (1, 0.0, pytest.approx(20.0)),
        (0, pytest.approx(20.0), pytest.approx(10.0)),
    ]


def test_in_the_model_at_create_loses_least_and_chance_most():
    lost = dict.fromkeys((Chance, Blocks, AtCreate), 0.0)
    for seed in range(24):
        jobs = draw_jobs(seed, load=0.25, targets=8, count=10, until=150.0)
        for placer in lost:
            lost[placer] += losses(jobs, fluid(placer(jobs, 8, seed), 150.0))[0]
    assert lost[Blocks] < 0.6 * lost[Chance]
    assert lost[AtCreate] < 0.3 * lost[Chance]


def test_real_bursts_go_where_they_are_placed(place):
    require("blkio", place)
    jobs = (job(0.0, width=2, burst=0.5), job(0.0, burst=0.5))
    with targets_of(place, 1, 4) as targets:
        before = [targets.bytes_written(lane) for lane in targets.lanes]
        took = run({"": (Fixed(jobs, (0, 2), (3,)), on_targets(targets, 0))}, 5.0)[""]
        targets.settle()
        written = [targets.bytes_written(lane) for lane in targets.lanes]
    assert sorted(burst.job for burst in took) == [0, 1]
    grown = [after - then > RATE // 4 for after, then in zip(written, before, strict=True)]
    assert grown == [True, False, True, True]


@pytest.mark.acceptance
def test_placed_jobs_lose_less_than_by_chance_on_real_targets(place):
    """As `make placement-real`, which writes docs/evidence/placement-measured.md."""
    require("blkio", place)
    found = list(draws(place, range(12), 120.0))
    lost = {name: share_lost(found, name) for name in PLACERS}
    print(lost)
    assert lost["blocks"] <= 0.8 * lost["chance"]
    assert lost["blocks"] <= lost["round robin"]
    assert lost["directory"] <= 0.5 * lost["chance"]
    assert lost["at create"] <= 0.5 * lost["chance"]
