"""`sluice lab decide`: a trace through the core, and traces that make no sense."""

import json
from pathlib import Path

import core_cases as storage_models
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from sluice.cli.main import main as sluice
from sluice.policies import core
from sluice.policies.record import Situation, decide
from sluice.policies.snapshot import pack_snapshot
from sluice.sim.engine import TraceError
from sluice.sim.replay.decisions import read_trace

JOB = {
    "time": storage_models.NOW,
    "uid": 1000,
    "name": "run_7",
    "nodes": 4,
    "script": "#!/bin/sh\n./a\n",
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    bundle = storage_models.bundle_bytes(storage_models.application(storage_models.FLUSHING))
    (tmp_path / "model.bundle").write_bytes(bundle)
    busy = storage_models.corunner(99, storage_models.STREAMING)
    (tmp_path / "cluster.snapshot").write_bytes(
        pack_snapshot(state={"sequence": 1, "taken": storage_models.NOW}, corunners=[busy])
    )
    (tmp_path / "sluice.conf").write_text("Mode=advise\n")
    return tmp_path


def run(files: Path, trace: str, *options: str) -> Result:
    (files / "trace.jsonl").write_text(trace)
    words = ["lab", "decide", files / "trace.jsonl", "--bundle", files / "model.bundle"]
    words += ["--config", files / "sluice.conf", *options]
    return CliRunner().invoke(sluice, [str(word) for word in words])


def test_each_submission_gets_the_decision_of_the_core(files):
    trace = [JOB, JOB | {"name": "unheard_of"}, JOB | {"time": storage_models.NOW + 3600}]
    out = files / "out.jsonl"
    snapshot = str(files / "cluster.snapshot")
    result = run(files, "\n".join(map(json.dumps, trace)), "--snapshot", snapshot, "-o", str(out))
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["decision"]["reason"] for row in rows][1:] == ["unknown_job", "stale_snapshot"]
    situation = Situation(
        storage_models.Bundle.parse((files / "model.bundle").read_bytes()),
        storage_models.Snapshot.parse((files / "cluster.snapshot").read_bytes()),
    )
    submission = core.submission_of({k: v for k, v in JOB.items() if k != "time"})
    config = core.read_config(files / "sluice.conf")
    expected = decide(situation, config, submission, storage_models.NOW).to_dict()
    assert rows[0]["decision"] == json.loads(json.dumps(expected["decision"]))
    assert rows[0]["decision"]["coruns"][0]["job_id"] == 99
    assert rows[0]["mode"] == "advise"


def test_the_same_trace_gives_the_same_bytes(files):
    trace = "\n".join(json.dumps(JOB | {"uid": uid}) for uid in range(995, 1005))
    first, second = run(files, trace), run(files, trace)
    assert first.output == second.output
    assert first.output.count("\n") == 10


def test_without_a_snapshot_nobody_knows_the_co_runners(files):
    assert json.loads(run(files, json.dumps(JOB)).output)["decision"]["reason"] == "no_snapshot"


def test_absent_and_null_are_the_same_and_blank_lines_are_skipped(files):
    explicit = JOB | {"account": None, "array": None}
    output = run(files, f"\n{json.dumps(JOB)}\n \n{json.dumps(explicit)}\n").output
    first, second = output.splitlines()
    assert first == second


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("x", "no JSON"),
        ("[1]", "no JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ("{}", "no time"),
        ('{"time": 1.5}', "no time"),
        ('{"time": true}', "no time"),
        ('{"time": -1}', "no time"),
        ('{"time": 99999999999999999999}', "no time"),
        ('{"time": 1, "foo": 1}', "unknown member foo"),
        ('{"time": 1, "nodes": "x"}', 'nodes cannot be "x"'),
        ('{"time": 1, "nodes": 1.5}', "nodes cannot be 1.5"),
        ('{"time": 1, "nodes": -1}', "nodes cannot be -1"),
        ('{"time": 1, "nodes": 4294967296}', "nodes cannot be 4294967296"),
        ('{"time": 1, "nodes": NaN}', "NaN is no number"),
        ('{"time": 1, "name": 5}', "name cannot be 5"),
        ('{"time": 1, "name": ["a"]}', "name cannot be"),
        ('{"time": 1, "name": "\\ud800"}', "name cannot be"),
    ],
)
def test_a_line_that_makes_no_sense_is_named_with_file_and_number(files, line, reason):
    result = run(files, f"{json.dumps(JOB)}\n{line}\n")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"sluice: {files}/trace.jsonl:2: {reason}")
    assert result.stderr.count("\n") == 1


def test_a_bundle_that_is_none_is_named(files):
    (files / "model.bundle").write_bytes(b"x" * 100)
    result = run(files, json.dumps(JOB))
    assert result.exit_code == 1
    assert result.stderr.startswith("sluice: ")


def outcome(lines: list[str]) -> list[int] | str:
    """The times of the submissions, or what is wrong."""
    try:
        return [submitted.time for submitted in read_trace("t", lines)]
    except TraceError as error:
        return str(error)


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_any_text_is_a_submission_or_a_trace_error(text):
    result = outcome(text.splitlines())
    assert isinstance(result, list) or result.startswith("t:")


@given(
    st.dictionaries(
        st.sampled_from(["time", "uid", "nodes", "name", "script", "array", "licenses", "qos"]),
        st.none() | st.booleans() | st.integers(-1, 1 << 33) | st.floats() | st.text(),
    )
)
def test_any_members_are_a_submission_or_a_trace_error(members):
    result = outcome([json.dumps(members)])
    assert result == [members.get("time")] or result.startswith("t:1: ")
