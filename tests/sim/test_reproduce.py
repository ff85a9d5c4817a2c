"""`sluice lab reproduce`: what the papers found, alongside what follows from mechanism alone."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from sluice.cli.main import main as sluice
from sluice.sim.engine import StorageModelError
from sluice.sim.papers.figure import ask
from sluice.sim.papers.figures import FIGURES, find
from sluice.sim.storage.discrete_event import (
    PLATFORMS,
    STORAGE_FIELDS,
    delta_graph,
    parse_scenario,
    read_scenario,
    run_together,
    simulate,
)

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


def run(*arguments):
    return CliRunner().invoke(
        sluice, ["lab", "reproduce", *map(str, arguments)], catch_exceptions=False
    )


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


def test_the_command_prints_paper_and_model_side_by_side():
    result = run("H4a", "S2f")
    assert result.exit_code == 0
    assert "A larger throttle writes no faster: explained" in result.output
    assert "is serialised: not reproduced" in result.output
    assert "1 explained, 0 fitted, 1 not reproduced" in result.output


def test_json_holds_what_the_tables_show():
    (figure,) = json.loads(run("Y1", "--json").output)["figures"]
    assert figure["status"] == "fitted"
    assert "seek_seconds" in figure["fitted"]
    row = next(row for row in figure["rows"] if row["what"] == "HDD: I")
    assert row["paper"] == "2.49"
    assert row["agrees"] == (row["low"] <= row["model"] <= row["high"])


def test_the_parameters_are_listed_with_their_sources():
    listed = json.loads(run("--parameters", "--json").output)["platforms"]
    assert set(listed) == set(PLATFORMS)
    assert all(p["source"] and p["unit"] for one in listed.values() for p in one["parameters"])
    assert "max_rpcs_in_flight" in run("--parameters").output


PAIR = """
platform = "lustre"
stop_share = 0.9
[storage]
targets = 26
[[program]]
name = "checkpoint"
pattern = "aw"
processes = 64
nodes = 16
operation_bytes = "16 MiB"
operations = 4
[[program]]
name = "ensemble"
pattern = "owc"
processes = 64
nodes = 16
operations = 40
"""


def test_a_scenario_shows_each_program_alone_and_with_the_others(tmp_path):
    path = tmp_path / "pair.toml"
    path.write_text(PAIR)
    programs = json.loads(run("--scenario", path, "--json").output)["programs"]
    shown = {one["program"]: one for one in programs}
    assert shown["ensemble"]["lost"] > 0.4 > shown["checkpoint"]["lost"]
    together = run_together(read_scenario(path))
    assert [one.lost for one in together] == [one["lost"] for one in shown.values()]
    assert "checkpoint" in run("--scenario", path).output


def test_a_scenario_may_let_bursts_take_turns():
    """The shorter of two goes first, and the longer one ends when it did."""
    writer = {"operations": 100, "processes": 8, "sync": "flush"}
    content = {
        "storage": {"target_bandwidth": 1e8},
        "program": [{**writer, "operations": 400, "expected": 34}, {**writer, "expected": 8}],
    }
    shared, ordered = (
        run_together(parse_scenario({**content, **turns}))
        for turns in ({}, {"turns": {"latency": 0}})
    )
    assert [one.factor for one in shared] == pytest.approx([1.25, 2.0], rel=0.02)
    assert [one.factor for one in ordered] == pytest.approx([1.25, 1.0], rel=0.02)


def test_a_scenario_may_be_json_and_ask_for_a_delta_graph(tmp_path):
    writer = {"operation_bytes": "1 MiB", "operations": 50, "sync": "flush"}
    content = {"storage": {"target_bandwidth": 1e8}, "program": [writer] * 2}
    alone = simulate({"target_bandwidth": 1e8}, [{**writer, "operation_bytes": 1 << 20}])[0].end
    path = tmp_path / "delta.json"
    path.write_text(json.dumps({**content, "offsets": [-alone, 0, alone / 2, 2 * alone]}))
    points = json.loads(run("--scenario", path, "--json").output)["offsets"]
    factors = [point["factors"] for point in points]
    assert factors[0] == pytest.approx([1.0, 1.0])
    assert factors[-1] == pytest.approx([1.0, 1.0])
    assert factors[1] == pytest.approx([2.0, 2.0], abs=0.05)
    assert factors[2] == pytest.approx([1.5, 1.5], abs=0.05)
    assert [list(point[1:]) for point in delta_graph(read_scenario(path))] == factors
    assert "I of 1" in run("--scenario", path).output


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([], "no table at the top"),
        ({}, "no program"),
        ({"program": [3]}, "program 0 is no table"),
        ({"program": [{}], "speed": 3}, "there is no speed; give platform"),
        ({"program": [{}], "platform": "ceph"}, "no platform 'ceph'; give orangefs-hdd-sync"),
        ({"program": [{}], "offsets": [0]}, "need two programs, and there are 1"),
        ({"program": [{}], "offsets": "0"}, "offsets are no list of seconds"),
        ({"program": [{}], "stop_share": "most"}, "stop_share is 'most'"),
        ({"program": [{"pattern": "tar"}]}, "pattern is 'tar'; give owc or ws or aw"),
        ({"program": [{"processes": True}]}, "processes is True; give a number"),
        ({"program": [{}], "storage": 3}, "storage is no table"),
    ],
)
def test_a_scenario_that_makes_no_sense_is_refused_with_the_remedy(content, says):
    with pytest.raises(StorageModelError, match=says):
        parse_scenario(content)


def test_the_command_names_the_file_and_what_is_wrong(tmp_path):
    path = tmp_path / "broken.toml"
    for text, says in (("[[program", "broken.toml"), ("[[program]]\nprocess = 3", "no process")):
        path.write_text(text)
        result = CliRunner().invoke(sluice, ["lab", "reproduce", "--scenario", str(path)])
        assert result.exit_code == 1
        assert says in result.output
    assert run("Y1", "--parameters").exit_code == 2
