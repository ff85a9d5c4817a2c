"""`sluice site replay` on a small trace: totals, tables, refusals."""

import csv
import json
import resource
import signal
import subprocess
import sys
from pathlib import Path

import interruptible
import numpy as np
import pytest

SLUICE = Path(sys.executable).with_name("sluice")


def write_trace(path, count=200, seed=3):
    rng = np.random.default_rng(seed)
    submits = np.sort(rng.integers(0, count * 60, count))
    lines = ["; MaxProcs: 16\n; UnixStartTime: 1000000000\n"]
    for number, submit in enumerate(submits, start=1):
        runtime, slots, user = rng.integers(1, 600), rng.integers(1, 9), rng.integers(1, 5)
        lines.append(
            f"{number} {submit} 0 {runtime} {slots} -1 -1 {slots} {runtime + 60} -1 1 "
            f"{user} 1 -1 -1 1 -1 -1\n"
        )
    path.write_text("".join(lines))
    return path


@pytest.fixture
def trace(tmp_path):
    return write_trace(tmp_path / "trace.swf")


def sluice(*arguments, **options):
    return subprocess.run(
        [SLUICE, "site", "replay", *arguments],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_json_holds_totals_that_agree_with_the_table_of_jobs(trace, tmp_path):
    table = tmp_path / "jobs.csv"
    result = sluice(trace, "--policy", "none", "--json", "--jobs", table)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    rows = list(csv.DictReader(table.open()))
    waits = [float(row["wait"]) for row in rows]
    assert document["totals"]["jobs"] == len(rows) == 200
    assert document["totals"]["wait_s"]["mean"] == pytest.approx(np.mean(waits))
    assert document["totals"]["makespan_s"] == max(int(row["end"]) for row in rows) - min(
        int(row["submit"]) for row in rows
    )
    used = sum(int(row["slots"]) * float(row["runtime"]) for row in rows)
    assert document["totals"]["slot_hours"] == pytest.approx(used / 3600)
    assert sum(row["jobs"] for row in document["by_user"]) == 200
    assert int(rows[0]["submit"]) >= 1_000_000_000


def test_csv_and_json_lines_say_the_same_twice(trace, tmp_path):
    for name in ("a.csv", "b.csv", "a.jsonl"):
        assert sluice(trace, "--jobs", tmp_path / name).returncode == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    rows = list(csv.DictReader((tmp_path / "a.csv").open()))
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [{key: str(value) for key, value in line.items()} for line in lines] == rows


def test_the_table_on_the_terminal_names_what_was_repaired(trace):
    trace.write_text(trace.read_text() + "broken\n999 1 0 5 99 -1 -1 99 9 -1 1 1 1 -1 -1 1 -1 -1\n")
    result = sluice(trace)
    assert result.returncode == 0
    assert "broken line: 1 (line 203); dropped" in result.stderr
    assert "larger than its partition: 1 (job 999); refused at its submission" in result.stderr
    assert "utilisation" in result.stdout


WRONG = (
    (["--slots", "0"], 2, "0 is not in the range"),
    (["--jobs", "out.xls"], 2, "end its name in .csv, .jsonl or .parquet"),
)
WRONG_SCENARIOS = (
    ("[scheduler]\nwindow = 'soon'", "[scheduler] window = soon: give a number"),
    ("[scheduler]\nwndow = 3", "no setting wndow; there are interval"),
    ("[storage]\ngrain = 4\n[policy]\nturns = 1", 'give model = "discrete-event" in [storage]'),
    ("[trace]\nformat = 'sacct'", "no heading with a field JobID"),
    ("[trace]\nformat = 'pdf'", "scenario.toml: [trace] format is 'pdf'; give swf, sacct"),
    (
        "[trace]\nkils = true",
        "[trace] has no kils; there are format, count, processors_per_node, cluster, kill",
    ),
    ("[trace]\nkill = 1", "[trace] kill is 1; give true or false"),
    ("[storage]\nlanes = 17", "[storage] lanes is 17; give 1 to 16"),
    ("[storage]\ntargets = {}", "[storage] targets is {}; give a whole number"),
    ("[mix]\nname = 'long'", "no mix long; there are checkpointing"),
    ("[machine]\nslots = 3", "unknown [machine]; there are trace, scheduler"),
    ("mix = 3", "mix is no table"),
    ("[mix", "scenario.toml: "),
)


@pytest.mark.parametrize(("text", "says"), WRONG_SCENARIOS)
def test_a_scenario_that_makes_no_sense_is_refused_in_one_line(trace, tmp_path, text, says):
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(text)
    result = sluice(trace, "--policy", "turns", "--scenario", scenario)
    assert (result.returncode, says in result.stderr) == (1, True), result.stderr
    assert result.stderr.count("\n") == 1


def test_what_is_given_wins_over_the_scenario(trace, tmp_path):
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(
        "[mix]\nio_share = 1.0\n[policy]\nmax_delay = 5\n[scheduler]\nslurm = true\n"
    )
    words = (trace, "--policy", "turns", "--scenario", scenario, "--json")
    found = [json.loads(sluice(*words, *more).stdout) for more in ([], ["--io-share", "0"])]
    assert [
        one["policies"]["none"]["figures"]["lost_slot_hours"]["value"] > 1e-6 for one in found
    ] == [True, False]


@pytest.mark.parametrize(("arguments", "code", "text"), WRONG)
def test_wrong_arguments_are_refused_in_one_line(trace, arguments, code, text):
    result = sluice(trace, *arguments)
    assert (result.returncode, text in result.stderr) == (code, True), result.stderr


def test_a_trace_is_generated_where_there_is_none_and_again_the_same():
    runs = [sluice("--generate", "500", "--load", "0.9", "--json") for _ in range(2)]
    assert [run.returncode for run in runs] == [0, 0]
    assert runs[0].stdout == runs[1].stdout
    assert json.loads(runs[0].stdout)["totals"]["jobs"] == 500


def test_neither_a_trace_nor_a_generator_is_a_usage_error(trace):
    for arguments in ([], [trace, "--generate", "5"]):
        result = sluice(*arguments)
        assert (result.returncode, "give either a TRACE" in result.stderr) == (2, True)


def test_a_full_disk_leaves_nothing_half_written(trace, tmp_path):
    table = tmp_path / "jobs.csv"
    table.write_text("old\n")

    def no_space():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    result = sluice(trace, "--jobs", table, preexec_fn=no_space)
    assert result.returncode == 1
    assert "jobs.csv: File too large; nothing was written" in result.stderr
    assert table.read_text() == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.csv", "trace.swf"]


def test_ctrl_c_stops_a_long_replay_and_leaves_nothing(tmp_path):
    trace = write_trace(tmp_path / "trace.swf", count=60_000)
    scenario = tmp_path / "s.toml"
    scenario.write_text("[scheduler]\nslurm = true\ninterval = 1\n")
    words = ("--scenario", scenario, "--jobs", tmp_path / "j.csv")
    process = interruptible.start(SLUICE, "site", "replay", trace, *words)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(4)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors.strip() == "Aborted!"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.toml", "trace.swf"]
