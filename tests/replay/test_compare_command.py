"""`sluice site replay` of several policies: tables, JSON, page, table of jobs, what goes wrong."""

import hashlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from statistics import median

import interruptible
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from sluice.cli.main import main

SLUICE = Path(sys.executable).with_name("sluice")
GENERATED = ("--generate", "400", "--slots", "64", "--load", "0.9")
COMPARED = (*GENERATED, "--policy", "two-groups", "--compare", "class-lanes,server-fair")


def sluice(*arguments):
    """Run in this process, which has imported everything before."""
    return CliRunner().invoke(main, ["site", "replay", *map(str, arguments)])


def own_process(*arguments, **options):
    return subprocess.run(
        [SLUICE, "site", "replay", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One comparison with everything written."""
    folder = tmp_path_factory.mktemp("made")
    table, page = folder / "jobs.parquet", folder / "gain.html"
    result = sluice(*COMPARED, "--repeat", "2", "--json", "--jobs", table, "--report", page)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout), table, page


def test_json_sets_every_policy_next_to_plain_slurm(made):
    document, _, _ = made
    assert list(document["policies"]) == ["none", "two-groups", "class-lanes", "server-fair"]
    assert document["policy"] == "two-groups"
    assert document["repetitions"] == 2
    for found in document["policies"].values():
        lost = found["figures"]["lost_slot_hours"]
        assert lost["value"] == median(lost["draws"])
        assert lost["interval"]["low"] <= lost["value"] <= lost["interval"]["high"]
        plain = document["policies"]["none"]["figures"]["lost_slot_hours"]["draws"]
        more = [one - other for one, other in zip(lost["draws"], plain, strict=True)]
        assert lost["above_none"] == pytest.approx(median(more))
        assert {"user", "partition", "size"} == set(found["fairness"])
    assert document["bound"]["gain_slot_hours"] <= document["bound"]["lost_slot_hours"]


def test_the_table_of_jobs_agrees_with_the_totals(made):
    document, path, _ = made
    table = parquet.read_table(path)
    assert table.num_rows == 400 * 4
    for policy, found in document["policies"].items():
        rows = [row for row in table.to_pylist() if row["policy"] == policy]
        lost = sum(row["lost_slot_seconds"] for row in rows) / 3600
        assert found["figures"]["lost_slot_hours"]["value"] == pytest.approx(lost, rel=1e-6)
        held = [row["delay"] for row in rows if row["delay"]]
        assert found["figures"]["held_jobs"]["value"] == len(held)
    assert {row["lanes"] for row in rows} == {0}


class Elements(HTMLParser):
    """What a page is made of."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.unclosed = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if self.open.pop() != tag:
            self.unclosed.append(tag)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def test_the_page_is_whole_and_can_be_read_without_its_pictures(made):
    document, _, path = made
    text = path.read_text()
    page = Elements(text)
    assert not page.open
    assert not page.unclosed
    assert page.all("html") == [{"lang": "en"}]
    pictures = page.all("img")
    assert len(pictures) == 7
    for picture in pictures:
        assert picture["src"].startswith("data:image/png;base64,")
        assert all(policy in picture["alt"] for policy in document["policies"])
    assert all(cell.get("scope") in ("col", "row") for cell in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))
    for sentence in document["verdict"]:
        assert sentence in text


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing(made):
    page = Elements(made[2].read_text())
    assert not page.all("script") + page.all("link") + page.all("iframe")
    assert all(not attributes.get("href") for _, attributes in page.tags)
    assert all(not re.match("on", name) for _, attributes in page.tags for name in attributes)


def test_the_page_tells_the_command_and_the_checksums_of_its_inputs(tmp_path):
    trace = tmp_path / "trace.swf"
    trace.write_text("; MaxProcs: 8\n1 0 0 60 4 -1 -1 4 90 -1 1 1 1 -1 -1 1 -1 -1\n")
    result = own_process(trace, "--policy", "none", "--report", tmp_path / "r.html")
    assert result.returncode == 0, result.stderr
    text = (tmp_path / "r.html").read_text()
    assert f"sluice site replay {trace} --policy none --report" in text
    assert hashlib.sha256(trace.read_bytes()).hexdigest() in text


def test_one_core_answers_with_the_same_bytes(made):
    document, table, page = made
    before = page.read_bytes(), table.read_bytes()
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(cores)})
        result = sluice(*COMPARED, "--repeat", "2", "--json", "--jobs", table, "--report", page)
    finally:
        os.sched_setaffinity(0, cores)
    assert json.loads(result.stdout) == document
    assert (page.read_bytes(), table.read_bytes()) == before


def test_where_nothing_remains_to_be_gained_that_is_said_plainly():
    result = sluice(*GENERATED, "--policy", "two-groups", "--io-share", "0", "--json")
    document = json.loads(result.stdout)
    assert not document["bound"]["is_anything_to_gain"]
    assert any(text.startswith("Nothing remains to be gained") for text in document["verdict"])
    assert document["policies"]["two-groups"]["figures"]["share_of_bound"]["value"] is None


def test_the_terminal_shows_a_column_a_policy_and_no_interval_without_repetitions():
    result = sluice(*COMPARED)
    assert result.exit_code == 0, result.stderr
    heading = next(line for line in result.stdout.splitlines() if line.startswith("total"))
    assert heading.split() == ["total", "none", "two-groups", "class-lanes", "server-fair"]
    assert "Perfect knowledge could recover" in result.stdout
    assert " to " not in result.stdout.split("total", 1)[1].replace("lost to", "")


def test_jobs_that_were_loaded_more_heavily_wait_longer(tmp_path):
    trace = tmp_path / "trace.swf"
    lines = ["; MaxProcs: 8\n"] + [
        f"{i} {i * 40} 0 60 4 -1 -1 4 90 -1 1 1 1 -1 -1 1 -1 -1\n" for i in range(1, 60)
    ]
    trace.write_text("".join(lines))
    waits = []
    for load in ("0.5", "1.5"):
        result = sluice(trace, "--load", load, "--json")
        waits.append(json.loads(result.stdout)["totals"]["wait_s"]["mean"])
    assert waits[0] == 0
    assert waits[1] > 100


WRONG = (
    (["--policy", "magic"], 2, "no policy 'magic'; there are none, server-fair"),
    (["--compare", "none,magic"], 2, "no policy 'magic'"),
    (["--report", "gain.pdf"], 2, "end its name in .html"),
    (["--policy", "two-groups", "--max-delay", "long"], 1, "max_delay = long: give a number"),
)
WRONG_SCENARIOS = (
    ("class-lanes", "[storage]\nlanes = 1", "give the storage two at least: lanes = 2"),
    ("two-groups", "[policy]\nwrong = 2", "the share of wrong predictions is 2.0"),
    ("two-groups", "[policy]\nsize = 2", "no policy has the option size"),
    ("two-groups", "[storage]\nspeed = 1", "a storage model has no speed"),
    ("two-groups", "[storage]\nlanes = 9\ntargets = 8", "9 lanes of 8 targets"),
)


@pytest.mark.parametrize(("policy", "scenario", "text"), WRONG_SCENARIOS)
def test_wrong_scenarios_are_refused_in_one_line(tmp_path, policy, scenario, text):
    path = tmp_path / "scenario.toml"
    path.write_text(scenario)
    result = sluice(*GENERATED, "--policy", policy, "--scenario", path)
    assert (result.exit_code, text in result.stderr) == (1, True), result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("arguments", "code", "text"), WRONG)
def test_wrong_arguments_are_refused_in_one_line(arguments, code, text):
    result = sluice(*GENERATED, *arguments)
    assert (result.exit_code, text in result.stderr) == (code, True), result.stderr
    assert "Traceback" not in result.stderr


def test_a_full_disk_leaves_nothing_half_written(tmp_path):
    page = tmp_path / "r.html"
    page.write_text("old\n")

    def no_space():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    result = own_process(*COMPARED, "--report", page, preexec_fn=no_space)
    assert result.returncode == 1
    assert "r.html: File too large; nothing was written. Name a place" in result.stderr
    assert page.read_text() == "old\n"
    assert [one.name for one in tmp_path.iterdir()] == ["r.html"]


def test_ctrl_c_ends_all_replays_and_leaves_nothing(tmp_path):
    """The trace is a pipe: once it was read, the command is at work, for minutes."""
    pipe = tmp_path / "trace"
    os.mkfifo(pipe)
    lines = [f"{i} {i} 0 600 4 -1 -1 4 900 -1 1 1 1 -1 -1 1 -1 -1\n" for i in range(1, 20_000)]
    process = interruptible.start(
        *(SLUICE, "site", "replay", pipe, "--policy", "two-groups", "--repeat", "500"),
        *("--slots", "64", "--report", tmp_path / "r.html", "--jobs", tmp_path / "jobs.csv"),
    )
    pipe.write_text("".join(lines))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert errors.strip() == "Aborted!"
    assert [path.name for path in tmp_path.iterdir()] == ["trace"]


MALFORMED = (
    ("empty", b"", "no job in it"),
    ("not a trace", b"\x89PNG\r\n\x1a\n\0\0", "no column for submit"),
    ("damaged gzip", b"\x1f\x8b\x08\0", "damaged gzip file"),
    ("JSON", b'{"jobs": 3}', "line 1 field 1 is no number"),
    ("text", b"hello world\nthis is no trace\n", "line 1 field 1 is no number; give a trace"),
    ("CSV without sizes", b"submit,runtime\n1,2\n", 'slots = "TITLE"'),
)


@pytest.mark.parametrize(("what", "content", "text"), MALFORMED)
def test_a_malformed_trace_is_refused_by_its_name(tmp_path, what, content, text):
    trace = tmp_path / "trace"
    trace.write_bytes(content)
    page = tmp_path / "r.html"
    result = sluice(trace, "--policy", "two-groups", "--report", page)
    assert result.exit_code == 1, what
    assert f"sluice: {trace}" in result.stderr
    assert text in result.stderr
    assert "Traceback" not in result.stderr
    assert not page.exists()


def test_an_impossible_job_is_named_and_delays_nobody(tmp_path):
    trace = tmp_path / "trace.swf"
    trace.write_text(
        "; MaxProcs: 8\n"
        "1 0 0 60 99 -1 -1 99 90 -1 1 1 1 -1 -1 1 -1 -1\n"
        "2 1 0 60 8 -1 -1 8 90 -1 1 1 1 -1 -1 1 -1 -1\n"
    )
    result = sluice(trace, "--policy", "two-groups", "--json", "--jobs", tmp_path / "jobs.jsonl")
    assert result.exit_code == 0, result.stderr
    rows = [json.loads(line) for line in (tmp_path / "jobs.jsonl").read_text().splitlines()]
    assert [(row["state"], row["wait"]) for row in rows[:2]] == [
        ("impossible", None),
        ("completed", 0),
    ]
    repairs = json.loads(result.stdout)["repairs"]
    assert repairs[0]["what"] == "larger than its partition"
    assert repairs[0]["examples"] == [1]


@pytest.mark.parametrize(
    ("jobs", "verdict"),
    [
        ("1 0 0 60 99 -1 -1 99 90 -1 1 1 1 -1 -1 1 -1 -1\n", "Nothing remains"),
        ("1 0 0 60 8 -1 -1 8 90 -1 1 1 1 -1 -1 1 -1 -1\n", "Nothing remains"),
        ("1 0 0 0 1 -1 -1 1 90 -1 1 1 1 -1 -1 1 -1 -1\n", "Nothing remains"),
    ],
    ids=["nobody can run", "nobody is alongside another", "nobody takes any time"],
)
def test_a_page_is_made_also_where_there_is_little_to_show(tmp_path, jobs, verdict):
    trace, page = tmp_path / "trace.swf", tmp_path / "r.html"
    trace.write_text("; MaxProcs: 8\n" + jobs)
    result = sluice(trace, "--policy", "two-groups", "--repeat", "2", "--report", page)
    assert result.exit_code == 0, result.output
    assert verdict in page.read_text()


@pytest.mark.parametrize(
    ("policy", "max_delay", "is_said"),
    [("sluice-auto", "0", True), ("sluice-auto", "inf", False), ("sluice-disjoint", "1", False)],
)
def test_a_max_delay_that_leaves_hardly_any_job_to_delay_is_told(policy, max_delay, is_said):
    result = sluice(*GENERATED, "--policy", policy, "--max-delay", max_delay)
    assert result.exit_code == 0, result.stderr
    assert ("within MaxDelay, " in result.stdout) == is_said
