"""The picture of what enforce gains can be drawn from whatever was measured."""

from pathlib import Path

from enforce_cases import BYSTANDER, EQUAL, WIDE, Case, Outcome, Prediction, Run
from enforce_plot import plot
from matplotlib import image
from measured_programs import STREAM, VICTIM


def run(case: Case, mode: str) -> Run:
    widths = {VICTIM.name: case.victim_nodes, STREAM.name: 1, BYSTANDER: 1}
    return Run(case, mode, tuple(outcome(name, nodes) for name, nodes in widths.items()))


def outcome(name: str, nodes: int) -> Outcome:
    return Outcome(
        job_id=1,
        name=name,
        nodes=nodes,
        klass="flush",
        action="colocate",
        reason="no_corunners",
        costs={},
        lanes=(),
        released="",
        submitted=100.0,
        started=101.0,
        ended=120.0,
        io=4.0,
        bursts=((102.0, 103.0), (110.0, 113.0)) if name != BYSTANDER else (),
        alone=15.0,
    )


def test_the_picture_holds_both_cases_in_both_modes(tmp_path: Path) -> None:
    runs = [run(case, mode) for case in (WIDE, EQUAL) for mode in ("observe", "enforce")]
    path = tmp_path / "enforce.png"
    plot(path, runs, Prediction(20.0, 40.0, 45.0), "a target")
    height, width, _ = image.imread(path).shape
    assert width > height > 300
