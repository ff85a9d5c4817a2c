"""What turns recover on real file I/O, in draws that run in all modes at once.

    pytest -s -m acceptance tests/slurm/test_turns_gain.py

prints the tables of docs/evidence/turns-measured.md. About 40 minutes for each of the
first two workloads; a machine that does nothing else is not needed. With TURNS_DRAWS=2 no
workload has more draws than that: enough to see that all of it runs, not for its figures.
Real programs need the Darshan runtime (DARSHAN_RUNTIME=DIR), MPICH, netCDF and LAMMPS.
"""

import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from moosefs import MooseFS
from storage_targets import StorageTargetsError
from turns_cases import MIXED, PACED, STREAMS, Alone, Workload, draw, slowdowns
from turns_lab import LIMITS, Bench, MooseBench, TurnsLab
from turns_predicted import Predicted, predict
from turns_programs import PROGRAMS, ProgramBench
from turns_programs import missing as missing_programs
from turns_report import (
    Draws,
    by_program,
    conditions,
    interval,
    pooled,
    prediction,
    raw,
    recoveries,
    slowest,
    table,
    with_range,
)

pytestmark = [pytest.mark.slurm, pytest.mark.storage, pytest.mark.acceptance]

SLOWEST = 1.3  # of a job's time without turns, in the median draw
BUDGET = 5.0  # times the length of its burst for which a job may be held
LATE = 2.0  # seconds until a word has lapsed, and a burst has been seen to end
KNOWN, UNKNOWN, FIRST_COME = "on", "unknown", "first-come"
MOST_DRAWS = int(os.environ.get("TURNS_DRAWS", "20"))


@dataclass(frozen=True)
class Case:
    name: str
    workload: Workload
    draws: int
    goal: float
    """Share of the loss to be recovered in the median draw; of real programs, in all."""
    modes: tuple[str, ...] = ("off", "shadow", KNOWN, UNKNOWN)
    bench: type[Bench] = Bench


CASES = {
    case.name: case
    for case in (
        Case("streams", STREAMS, 20, 0.45),
        Case("mixed", MIXED, 20, 0.25),
        Case("first come", STREAMS, 6, 0.45, ("off", KNOWN, FIRST_COME)),
        Case("moosefs", STREAMS, 12, 0.15, ("off", KNOWN, UNKNOWN), MooseBench),
        Case("programs", PROGRAMS, 16, 0.1, ("off", KNOWN, UNKNOWN), ProgramBench),
        Case("never full", PACED, 6, 0.0, ("off", KNOWN)),
    )
}


@dataclass(frozen=True)
class Measured:
    case: Case
    alone: Mapping[str, Alone]
    draws: Draws
    predicted: Sequence[Predicted]

    def report(self, label: str) -> str:
        lines = [f"{self.case.name}, {label}"]
        lines += conditions(self.case.workload, self.draws, self.alone)
        lines += [prediction(self.predicted)] if self.predicted else []
        tables = (table(self.draws), by_program(self.draws), raw(self.draws))
        return "\n\n".join(["\n".join(["", *lines]), *tables, ""])

    def changes(self) -> list[float]:
        """Of all jobs of all draws: the time with turns over that without."""
        return [by for runs in self.draws for by in slowdowns(runs["off"], runs[KNOWN])]


def measure(case: Case, place: Path) -> Measured:
    drawn = [draw(case.workload, number) for number in range(min(case.draws, MOST_DRAWS))]
    limits = LIMITS[case.name]
    with TurnsLab(place, case.modes, bench=case.bench, limits=limits) as lab:
        alone = lab.alone(case.workload.programs)
        asked = case.goal > 0 and case.bench is not MooseBench
        predicted = [predict(one, limits, alone, one.number) for one in drawn] if asked else []
        measured = Measured(case, alone, [lab.run(one, alone) for one in drawn], predicted)
        if case.goal > 0:
            print(measured.report(lab.benches[0].targets.label))
        else:
            print(f"\n{case.name}: {with_range(measured.changes(), '{:.3f}')} times off")
    return measured


@pytest.fixture(scope="module")
def measured_case() -> Iterator[Callable[[str], Measured]]:
    """Measures a case when it is first asked for."""
    place = Path(tempfile.mkdtemp(prefix="sluice-turns-"))
    place.chmod(0o755)
    known: dict[str, Measured] = {}

    def ask(name: str) -> Measured:
        if reason := MooseFS.missing() or (missing_programs() if name == "programs" else ""):
            pytest.skip(reason)
        if name not in known:
            folder = place / name.replace(" ", "-")
            folder.mkdir()
            try:
                known[name] = measure(CASES[name], folder)
            except StorageTargetsError as error:
                pytest.skip(str(error))
        return known[name]

    yield ask
    shutil.rmtree(place, ignore_errors=True)


FULL = ("streams", "mixed", "moosefs")


@pytest.mark.parametrize("name", FULL)
def test_jobs_lose_less_with_turns(measured_case, name: str) -> None:
    measured = measured_case(name)
    assert statistics.median(recoveries(measured.draws, KNOWN)) >= measured.case.goal


@pytest.mark.parametrize("name", ["streams", "mixed"])
def test_programs_that_nobody_knows_lose_less_by_half_of_that(measured_case, name: str) -> None:
    measured = measured_case(name)
    assert statistics.median(recoveries(measured.draws, UNKNOWN)) >= measured.case.goal / 2


def test_on_moosefs_they_lose_less_by_half_of_that_in_all_draws_together(measured_case) -> None:
    """Draws differ by more than what is asked. By resampling ten, chance fails twelve
    draws two or three times in 100."""
    measured = measured_case("moosefs")
    assert pooled(measured.draws, UNKNOWN) >= measured.case.goal / 2


@pytest.mark.parametrize("name", FULL)
def test_no_job_is_much_slower_in_the_median_draw(measured_case, name: str) -> None:
    assert statistics.median(slowest(measured_case(name).draws, KNOWN)) <= SLOWEST


@pytest.mark.parametrize("name", FULL)
def test_no_burst_is_held_beyond_its_budget(measured_case, name: str) -> None:
    measured = measured_case(name)
    for runs in measured.draws:
        for job in runs[KNOWN].jobs:
            longest = max(measured.alone[job.job.program.name].bursts)
            for burst in job.bursts:
                held = sum(
                    hold.end - hold.start
                    for hold in job.holds
                    if burst.start <= hold.end and hold.start <= burst.end
                )
                assert held <= BUDGET * longest + LATE


@pytest.mark.parametrize("name", ["streams", "mixed"])
def test_in_shadow_nobody_is_held(measured_case, name: str) -> None:
    assert all(runs["shadow"].held == 0 for runs in measured_case(name).draws)


@pytest.mark.parametrize("name", [*FULL, "programs"])
def test_the_shim_sees_what_is_written(measured_case, name: str) -> None:
    """In the median draw: an agent that answers too late leaves a job alone."""
    assert statistics.median(runs[KNOWN].covered for runs in measured_case(name).draws) >= 0.99


@pytest.mark.parametrize("name", ["streams", "mixed"])
def test_the_measured_gain_is_one_that_the_replay_predicts(measured_case, name: str) -> None:
    measured = measured_case(name)
    low, high = interval(measured.predicted)
    assert low <= statistics.median(recoveries(measured.draws, KNOWN)) <= high


def test_real_programs_lose_less_with_turns(measured_case) -> None:
    """Of all draws together: a single one may lose. By resampling, chance fails 16 draws
    once in 10,000 times (six draws of an idle machine) to once in 1,000 (four of a busy
    one)."""
    measured = measured_case("programs")
    assert pooled(measured.draws, KNOWN) >= measured.case.goal


def test_the_order_by_index_recovers_more_than_first_come(measured_case) -> None:
    draws = measured_case("first come").draws
    by_index, by_begin = (
        statistics.median(recoveries(draws, mode)) for mode in (KNOWN, FIRST_COME)
    )
    assert by_index > by_begin


def test_where_the_storage_is_never_full_nothing_changes(measured_case) -> None:
    measured = measured_case("never full")
    assert all(runs[KNOWN].held == 0 for runs in measured.draws)
    assert statistics.median(measured.changes()) == pytest.approx(1.0, abs=0.02)
