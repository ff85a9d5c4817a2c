"""Figures of the papers, next to those of the discrete-event storage model."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from papers.figure import ask
from papers.figures import FIGURES, find
from papers.platforms import PLATFORMS

from sluice.sim.engine import StorageModelError
from sluice.sim.storage.discrete_event import STORAGE_FIELDS, simulate

ROOT = Path(__file__).resolve().parents[2]
STATED = dict(
    re.findall(
        r"^\| ([YSHK]\d+[a-z]?) \| .*? \| ([a-z ()0-9]+) \|",
        (ROOT / "docs/evidence/storage-models.md").read_text(),
        flags=re.MULTILINE,
    )
)
"""What docs/evidence/storage-models.md says of each figure."""
SLOW = ("S2e", "S3", "S4", "S5", "H3", "Y2", "Y3", "Y4", "Y5", "Y6", "Y7", "Y8a")
"""Those that take a second and more."""
QUICK = [figure for figure in FIGURES if not figure.name.startswith(SLOW)]


@pytest.mark.parametrize("figure", QUICK, ids=lambda figure: figure.name)
def test_a_figure_is_what_the_documentation_says_it_is(figure):
    """Explained, fitted (n parameters) or not reproduced."""
    assert ask(figure).words == STATED[figure.name]


@pytest.mark.acceptance
@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_every_figure_is_what_the_documentation_says_it_is(figure):
    """The slow ones too."""
    assert ask(figure).words == STATED[figure.name]


def test_the_documentation_names_every_figure_and_no_other():
    assert list(STATED) == [figure.name for figure in FIGURES]


def test_every_number_has_a_source_and_what_is_fitted_names_its_figure():
    """One table of parameters, nothing hidden."""
    names = {field.name for field in STORAGE_FIELDS}
    figures = {figure.name for figure in FIGURES}
    for platform in PLATFORMS.values():
        for parameter in platform.parameters:
            assert parameter.name in names
            assert parameter.source
            assert not parameter.fitted or parameter.fitted in figures
    assert all(figure.why.endswith((".", ")")) for figure in FIGURES)


def test_names_stand_for_parts_and_papers():
    """Y1 is one figure, Y7 its three parts, H a paper."""
    assert [figure.name for figure in find(["y1"])] == ["Y1"]
    assert [figure.name for figure in find(["Y7"])] == ["Y7a", "Y7b", "Y7c"]
    assert {figure.name[0] for figure in find(["H"])} == {"H"}
    assert find([]) == list(FIGURES)
    with pytest.raises(StorageModelError, match="there is no figure Y99; give one of Y1, "):
        find(["Y99"])


def test_the_script_prints_paper_and_model_side_by_side():
    script = Path(__file__).with_name("reproduce.py")
    shown = subprocess.run(
        [sys.executable, script, "H4a", "S2f"], check=True, capture_output=True, text=True
    ).stdout
    assert "A larger throttle writes no faster: explained" in shown
    assert "is serialised: not reproduced" in shown
    assert "1 explained, 0 fitted, 1 not reproduced" in shown
    assert "max_rpcs_in_flight" in shown


def test_bursts_may_take_turns():
    """The shorter of two goes first, and the longer one ends when it did."""
    storage = {"target_bandwidth": 1e8}
    writer = {"operations": 100, "processes": 8, "sync": "flush"}
    programs = [{**writer, "operations": 400, "expected": 34}, {**writer, "expected": 8}]
    alone = [simulate(storage, [program])[0].seconds for program in programs]
    shared, ordered = (
        [
            one.seconds / seconds
            for one, seconds in zip(simulate(storage, programs, turns=turns), alone, strict=True)
        ]
        for turns in (None, {"latency": 0})
    )
    assert shared == pytest.approx([1.25, 2.0], rel=0.02)
    assert ordered == pytest.approx([1.25, 1.0], rel=0.02)
