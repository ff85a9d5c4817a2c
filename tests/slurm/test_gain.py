"""What the gates gain on throttled targets, in interleaved repetitions with medians.

`make acceptance` prints the figures that docs/evidence/enforce.md states.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from enforce_cases import BYSTANDER, EQUAL, WIDE, Case, Prediction, Run
from enforce_lab import UNREPLACED, EnforceLab
from measured_programs import STREAM, VICTIM

pytestmark = [pytest.mark.slurm, pytest.mark.storage, pytest.mark.acceptance]

BLOCKS = 5
MODES = ("observe", "enforce")


@pytest.fixture(scope="module")
def lab() -> Iterator[EnforceLab]:
    place = Path(tempfile.mkdtemp(prefix="sluice-gain-"))
    place.chmod(0o755)
    with EnforceLab(place) as lab:
        yield lab
    shutil.rmtree(place, ignore_errors=True)


class Repetitions:
    """All runs of a case: one of each mode in each block."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.runs: dict[str, list[Run]] = {mode: [] for mode in MODES}
        self.predictions: list[Prediction] = []
        self.reports: list[dict[str, Any]] = []
        """What `sluice report` says of each run in observe, before what comes next."""

    def all(self) -> Iterator[Run]:
        for mode in MODES:
            yield from self.runs[mode]

    def falls(self) -> list[float]:
        """By how many node-seconds the loss fell, in each block."""
        pairs = zip(self.runs["observe"], self.runs["enforce"], strict=True)
        return [observed.lost - enforced.lost for observed, enforced in pairs]

    def predicted(self) -> Prediction:
        """The medians of what the core predicted in each block."""
        return Prediction(
            *(
                statistics.median(getattr(one, name) for one in self.predictions)
                for name in ("low", "expected", "high")
            )
        )

    def report(self, label: str) -> str:
        predicted = self.predicted()
        fall = statistics.median(self.falls())
        interval = f"{predicted.low:.1f} to {predicted.high:.1f}"
        return "\n".join(
            [
                f"\n{self.case.name} ({self.case.victim_nodes} + 1 nodes), medians of {BLOCKS}",
                f"  targets: {label}",
                f"  node-seconds lost: {', '.join(map(self._lost, MODES))}",
                f"  fall: {fall:.1f}, predicted {predicted.expected:.1f} ({interval})",
                *map(self._times, (VICTIM.name, STREAM.name)),
            ]
        )

    def _lost(self, mode: str) -> str:
        lost = [run.lost for run in self.runs[mode]]
        return f"{mode} {statistics.median(lost):.1f} ({min(lost):.1f} to {max(lost):.1f})"

    def _times(self, name: str) -> str:
        texts = []
        for mode in MODES:
            jobs = [run.job(name) for run in self.runs[mode]]
            wait, run, io = (
                statistics.median(getattr(job, what) for job in jobs)
                for what in ("wait", "run", "io")
            )
            texts.append(f"{mode} waits {wait:.1f} s, runs {run:.1f} s, {io:.1f} s of it I/O")
        return f"  {name}: {'; '.join(texts)}"


@pytest.fixture(scope="module")
def repetitions(lab: EnforceLab) -> dict[str, Repetitions]:
    """Every block has each case in each mode; which mode comes first alternates."""
    cases = {case.name: Repetitions(case) for case in (WIDE, EQUAL)}
    for block in range(BLOCKS):
        for case in cases.values():
            for mode in MODES if block % 2 == 0 else MODES[::-1]:
                began = time.time()
                case.runs[mode].append(lab.run(case.case, mode))
                if mode == "observe":
                    case.reports.append(lab.report(began))
            case.predictions.append(lab.prediction(case.runs["enforce"][-1]))
    return cases


@pytest.fixture
def wide(repetitions: dict[str, Repetitions]) -> Repetitions:
    return repetitions[WIDE.name]


@pytest.fixture
def equal(repetitions: dict[str, Repetitions]) -> Repetitions:
    return repetitions[EQUAL.name]


def overlap(run: Run) -> float:
    """Seconds for which the stream runs alongside the victim."""
    return max(0.0, run.job(VICTIM.name).ended - run.job(STREAM.name).started)


def test_where_a_stream_would_starve_a_wide_job_less_is_lost_as_predicted(wide, lab, capsys):
    with capsys.disabled():
        print(wide.report(lab.targets.label))
    assert all(run.job(STREAM.name).action == "delay" for run in wide.all())
    apart, alongside = (
        statistics.median(map(overlap, wide.runs[mode])) for mode in ("enforce", "observe")
    )
    assert apart < 0.1 * alongside  # it may start when too little is left to be saved
    predicted = wide.predicted()
    assert predicted.low <= statistics.median(wide.falls()) <= predicted.high


def test_what_the_report_says_in_observe_is_what_enforce_then_saves(wide, capsys):
    """Pooled: medians over the blocks, of a delay's saving less what its wait costs.

    Both the report and the measured fall lie in the interval that the core's model leaves open
    (EnforceLab.prediction).
    """
    nets = []
    for one in wide.reports:
        delays = one["effects"]["by_action"]["delay"]
        assert (one["decisions"]["jobs"], delays["jobs"]) == (3, 1)
        saved = delays["saved_node_hours"] / UNREPLACED
        nets.append(3600 * (saved - delays["waited_node_hours"]))
    net, fall, predicted = (
        statistics.median(nets),
        statistics.median(wide.falls()),
        wide.predicted(),
    )
    with capsys.disabled():
        print(
            f"\n  report in observe: {net:.1f} node-seconds a delay ({min(nets):.1f} to "
            f"{max(nets):.1f}); then measured {fall:.1f}; interval {predicted.low:.1f} to "
            f"{predicted.high:.1f}"
        )
    assert predicted.low <= net <= predicted.high
    assert predicted.low <= fall <= predicted.high


def test_where_nothing_is_to_be_done_the_report_delays_nobody(equal):
    for one in equal.reports:
        assert one["decisions"]["jobs"] == 3
        assert "delay" not in one["effects"]["by_action"]


def test_at_equal_widths_nothing_is_done(equal, lab, capsys):
    with capsys.disabled():
        print(equal.report(lab.targets.label))
    assert {run.job(STREAM.name).action for run in equal.all()} == {"colocate"}
    assert all(overlap(run) > 0 for run in equal.all())
    predicted = equal.predicted()
    assert predicted.expected == 0
    assert predicted.low <= statistics.median(equal.falls())


def test_who_writes_nothing_is_left_alone(wide, equal):
    jobs = [run.job(BYSTANDER) for case in (wide, equal) for run in case.all()]
    assert {(job.action, job.lanes) for job in jobs} == {("leave", ())}
