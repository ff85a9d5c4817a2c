"""`sluice site sweep`: a grid of comparisons in one file that can be computed again."""

import csv
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import interruptible
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from sluice.cli.main import main
from sluice.sim.replay.experiment import Experiment
from sluice.sim.replay.sweep import TABLES, parameters, varied

SLUICE = Path(sys.executable).with_name("sluice")
GENERATED = ("--generate", "150", "--slots", "64", "--policy", "two-groups,class-lanes")
GRID = ("--vary", "load=0.6,1.2", "--vary", "max-delay=0,900")


def sluice(*arguments):
    """Run in this process, which has imported everything before."""
    return CliRunner().invoke(main, ["site", "sweep", *map(str, arguments)])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "sweep.json"
    result = sluice(*GENERATED, *GRID, "--repeat", "2", "--output", path)
    assert result.exit_code == 0, result.output
    return path


def cases_of(path):
    return json.loads(path.read_text())["cases"]


def test_every_combination_is_a_case_the_last_parameter_fastest(made):
    assert [case["parameters"] for case in cases_of(made)] == [
        {"load": load, "max_delay": delay} for load in ("0.6", "1.2") for delay in ("0", "900")
    ]
    for case in cases_of(made):
        assert list(case["policies"]) == ["none", "two-groups", "class-lanes"]
        for figures in case["policies"].values():
            lost = figures["lost_slot_hours"]
            assert lost["interval"]["low"] <= lost["value"] <= lost["interval"]["high"]


def test_a_case_answers_for_its_own_load_and_max_delay(made):
    light, _, heavy, delayed = cases_of(made)

    def figure(case, policy, name):
        return case["policies"][policy][name]["value"]

    assert figure(light, "none", "wait_mean_s") < figure(heavy, "none", "wait_mean_s")
    assert figure(heavy, "two-groups", "held_jobs") == 0
    assert figure(delayed, "two-groups", "held_max_s") > 0


def test_a_sweep_is_computed_again_to_the_same_bytes(made, tmp_path):
    again = tmp_path / "again.json"
    result = sluice("--again", made, "--output", again)
    assert result.exit_code == 0, result.output
    assert again.read_bytes() == made.read_bytes()


def test_one_core_makes_the_same_bytes(made, tmp_path):
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(cores)})
        result = sluice("--again", made, "--output", tmp_path / "again.json")
    finally:
        os.sched_setaffinity(0, cores)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "again.json").read_bytes() == made.read_bytes()


@pytest.mark.parametrize("done", [0, 1, 3])
def test_a_sweep_that_was_stopped_goes_on_where_it_was(made, tmp_path, done):
    document = json.loads(made.read_text())
    path = tmp_path / "sweep.json"
    part = {**document, "cases": document["cases"][:done]}
    path.write_text(json.dumps(part))
    result = sluice(*GENERATED, *GRID, "--repeat", "2", "--output", path)
    assert result.exit_code == 0, result.output
    assert path.read_bytes() == made.read_bytes()


def test_ctrl_c_keeps_what_was_finished_and_nothing_half(tmp_path):
    path = tmp_path / "sweep.json"
    seeds = ",".join(map(str, range(2000)))
    words = ("--vary", f"seed={seeds}", "--output", path)
    process = interruptible.start(SLUICE, "site", "sweep", *GENERATED, *words)
    while process.poll() is None and not (path.exists() and cases_of(path)):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    done = len(cases_of(path))
    assert 1 <= done < 2000
    assert errors.strip() == (
        f"sluice: stopped; {path} holds {done} of 2000 cases, and the same command goes on with it"
    )
    assert [one.name for one in tmp_path.iterdir()] == ["sweep.json"]


def test_a_full_disk_keeps_what_was_finished(made, tmp_path):
    """Room for the first case, but not for all."""
    path = tmp_path / "sweep.json"

    def little_space():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        room = made.stat().st_size * 2 // 3
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    result = subprocess.run(
        [SLUICE, "site", "sweep", *GENERATED, *GRID, "--repeat", "2", "--output", path],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=little_space,
    )
    assert result.returncode == 1
    assert f"{path}: File too large; {path} holds 2 of 4 cases" in result.stderr
    assert cases_of(path) == cases_of(made)[:2]
    assert [one.name for one in tmp_path.iterdir()] == ["sweep.json"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_table_has_a_row_a_case_and_policy(made, tmp_path, suffix):
    table = tmp_path / f"sweep{suffix}"
    result = sluice(
        *(*GENERATED, *GRID, "--repeat", "2", "--output", made, "--table", table, "--json")
    )
    document = json.loads(result.stdout)
    if suffix == ".csv":
        rows = list(csv.DictReader(table.open()))
    else:
        rows = parquet.read_table(table).to_pylist()
    assert len(rows) == 4 * 3
    expected = [(case, policy) for case in document["cases"] for policy in case["policies"]]
    for row, (case, policy) in zip(rows, expected, strict=True):
        assert (row["load"], row["policy"]) == (case["parameters"]["load"], policy)
        wait = case["policies"][policy]["wait_mean_s"]
        assert float(row["wait_mean_s"]) == wait["value"]
        assert float(row["wait_mean_s_high"]) == wait["interval"]["high"]


def test_a_file_of_another_sweep_is_left_alone(made, tmp_path):
    path = tmp_path / "sweep.json"
    path.write_bytes(made.read_bytes())
    for arguments, what in (
        (["--repeat", "3", *GRID], "repeats"),
        (["--repeat", "2", "--vary", "load=0.6"], "grid"),
        (["--repeat", "2", "--seed", "5", *GRID], "experiment"),
    ):
        result = sluice(*GENERATED, *arguments, "--output", path)
        assert result.exit_code == 1
        assert f"{path} holds another sweep: its {what} differ" in result.output
    assert path.read_bytes() == made.read_bytes()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "not a sweep"),
        (b'{"format": "sluice sweep 2", "cases": [', "not a sweep"),
        (b'{"format": "sluice sweep 2"}', "not a whole sweep"),
        (b"[1, 2]", "not a file of `sluice site sweep`"),
        (b"\xff\xfe\x00", "not a sweep"),
    ],
)
def test_a_damaged_file_is_named_and_left_alone(tmp_path, content, text):
    path = tmp_path / "sweep.json"
    path.write_bytes(content)
    result = sluice("--again", path, "--output", tmp_path / "again.json")
    assert result.exit_code == 1
    assert f"{path}: {text}" in result.output
    assert sluice(*GENERATED, "--output", path).exit_code == 1
    assert path.read_bytes() == content


def test_a_changed_input_is_told_before_anything_is_computed(tmp_path):
    trace = tmp_path / "trace.swf"
    line = "{} {} 0 60 4 -1 -1 4 90 -1 1 1 1 -1 -1 1 -1 -1\n"
    trace.write_text("; MaxProcs: 8\n" + "".join(line.format(i, i) for i in range(1, 9)))
    path = tmp_path / "sweep.json"
    result = sluice(trace, "--policy", "two-groups", "--vary", "io_share=0.5", "--output", path)
    assert result.exit_code == 0, result.output
    trace.write_text(trace.read_text() + line.format(9, 9))
    again = sluice("--again", path, "--output", tmp_path / "again.json")
    assert f"{trace} has changed since {path} was made" in again.output
    trace.unlink()
    again = sluice("--again", path, "--output", tmp_path / "again.json")
    assert f"{path} was made of {trace}, which is not there" in again.output
    assert not (tmp_path / "again.json").exists()


WRONG = (
    (["--policy", "magic"], 2, "no policy 'magic'"),
    ([], 2, "give a --policy"),
    (["--policy", "two-groups", "--vary", "colour=red"], 1, "nothing called colour can vary"),
    (["--policy", "two-groups", "--vary", "load=0.5,much"], 1, "load=much: give a number"),
    (["--policy", "two-groups", "--vary", "wrong=0,some"], 1, "wrong = some: give a number"),
    (["--policy", "two-groups", "--table", "t.xls"], 2, "end its name in .csv or .parquet"),
)


@pytest.mark.parametrize(("arguments", "code", "text"), WRONG)
def test_wrong_arguments_are_refused_before_anything_is_computed(tmp_path, arguments, code, text):
    path = tmp_path / "sweep.json"
    result = sluice("--generate", "50", *arguments, "--output", path)
    assert (result.exit_code, text in result.output) == (code, True), result.output
    assert not path.exists()


def test_again_takes_no_other_parameters(made, tmp_path):
    result = sluice("--again", made, "--seed", "3", "--output", tmp_path / "again.json")
    assert (result.exit_code, "leave out seed" in result.output) == (2, True)


@given(
    case=st.fixed_dictionaries(
        {},
        optional={
            "load": st.just("0.5"),
            "io_share": st.just("0.25"),
            "sharing": st.just("jobs"),
            "max_delay": st.just("inf"),
            "backfill": st.just("easy"),
            "node_rate": st.just("1e9"),
        },
    )
)
def test_an_experiment_comes_back_from_a_file_as_it_was(case):
    experiment = varied(Experiment(trace="t.swf", columns=(("submit", "When"),)), case)
    plain = json.loads(json.dumps(experiment.plain()))
    assert Experiment.of(plain) == experiment
    assert set(case) <= set(parameters())


def test_no_name_can_vary_in_two_tables():
    names = [name for table in TABLES.values() for name in table]
    assert len(names) == len(set(names))


def test_a_sweep_over_max_delay_says_which_one_pays(tmp_path):
    result = sluice(*GENERATED, "--vary", "max-delay=0,900", "--output", tmp_path / "sweep.json")
    assert result.exit_code == 0, result.output
    (said,) = [line for line in result.output.splitlines() if "MaxDelay" in line]
    assert said.startswith("two-groups: ")
