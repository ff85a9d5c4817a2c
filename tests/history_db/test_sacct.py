"""What `sacct --parsable2` prints, and everything users can put into it."""

import csv
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluice.history_db.records import Job
from sluice.history_db.sacct import BrokenLine, SacctError, parse_sacct

DATA = Path(__file__).parents[1] / "data"
SHARED = Path(__file__).parents[3] / "shared" / "data" / "traces"
HEADING = "JobID|JobName|User|Partition|NNodes|Submit|Start|End|State|ExitCode|SubmitLine"
LINE = (
    "7|run|alice|main|2|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T00:02:00|COMPLETED|0:0|"
    "sbatch run.sh"
)


def parsed(*lines: str, **options) -> list[Job | BrokenLine]:
    return list(parse_sacct(lines, **{"zone": UTC, **options}))


def one(heading: str, line: str, **options) -> Job:
    (job,) = parsed(heading, line, **options)
    assert isinstance(job, Job), job
    return job


def test_a_line_becomes_a_job():
    job = one(HEADING, LINE)
    assert (job.job_id, job.name, job.user, job.partition, job.nodes) == (
        7,
        "run",
        "alice",
        "main",
        2,
    )
    assert (job.submit, job.start, job.end) == (1767225600, 1767225660, 1767225720)
    assert (job.state, job.exit_code, job.submit_line) == ("COMPLETED", "0:0", "sbatch run.sh")
    assert (job.source, job.uid, job.cluster) == ("sacct", None, "")


def test_our_own_accounting_is_read_whole():
    with (DATA / "darshan" / "sacct-parsable2.txt").open() as file:
        jobs = list(parse_sacct(file, zone=UTC))
    with (DATA / "darshan" / "index.csv").open() as file:
        index = {int(row["jobid"]) for row in csv.DictReader(file)}
    assert {job.job_id for job in jobs} == index


@pytest.mark.parametrize(
    ("field", "text", "attribute", "value"),
    [
        ("TimelimitRaw", "90", "time_limit", 90),
        ("TimelimitRaw", "UNLIMITED", "time_limit", None),
        ("TimelimitRaw", "Partition_Limit", "time_limit", None),
        ("Timelimit", "1-02:03:00", "time_limit", 1563),
        ("Timelimit", "00:00:30", "time_limit", 1),
        ("Timelimit", "UNLIMITED", "time_limit", None),
        ("State", "CANCELLED by 75200", "state", "CANCELLED"),
        ("State", "NODE_FAIL", "state", "NODE_FAIL"),
        ("State", "CANCELLED+", "state", "CANCELLED"),
        ("Start", "Unknown", "start", None),
        ("End", "None", "end", None),
        ("Submit", "Unknown", "submit", 0),
        ("Start", "1767225600", "start", 1767225600),
        ("Start", "2026-01-01T01:00:00+01:00", "start", 1767225600),
        ("Start", "2026-99-01T01:00:00", "start", None),
        ("UID", "1000", "uid", 1000),
        ("UID", "", "uid", None),
        ("Restarts", "2", "restarts", 2),
        ("Cluster", "big", "cluster", "big"),
        ("AllocNodes", "3", "nodes", 3),
        ("AllocCPUS", "128", "cpus", 128),
        ("NNodes", "None assigned", "nodes", None),
        ("JobName", "", "name", None),
    ],
)
def test_a_field_of_sacct(field, text, attribute, value):
    assert getattr(one(f"JobID|{field}", f"7|{text}"), attribute) == value


@pytest.mark.parametrize(
    ("job_id", "raw", "expected", "task"),
    [
        ("12_3", "17", 17, -1),
        ("12_3", "", 12, 3),
        ("12_[1-5]", "12", 12, -1),
        ("12_[1-5%2]", "", 12, -1),
        ("12+1", "13", 13, -1),
        ("12+1", "", 13, -1),
        ("12+0", "", 12, -1),
    ],
)
def test_arrays_and_heterogeneous_jobs(job_id, raw, expected, task):
    job = one("JobID|JobIDRaw", f"{job_id}|{raw}")
    assert (job.job_id, job.array_task) == (expected, task)


def test_a_row_goes_on_where_its_submit_line_does():
    jobs = parsed(
        "JobID|JobName|SubmitLine|State|NNodes",
        "7|run|sbatch --wrap=set -e",
        "",
        "srun a | tee b|COMPLETED|2",
        "8|a",
        "b|sbatch x|FAILED|1",
        "9|c|sbatch y|COMPLETED|3",
    )
    assert [(job.job_id, job.name, job.submit_line, job.nodes) for job in jobs] == [
        (7, "run", "sbatch --wrap=set -e\n\nsrun a | tee b", 2),
        (8, "a\nb", "sbatch x", 1),
        (9, "c", "sbatch y", 3),
    ]


def test_a_row_that_was_cut_costs_no_other():
    cut, whole = parse_sacct(["JobID|User|State|NNodes", "7|al", "8|bob|COMPLETED|3"])
    assert isinstance(cut, BrokenLine)
    assert (cut.number, whole.user) == (2, "bob")
    glued = parse_sacct(["JobID|User|State|NNodes", "7|al", "8|bob|3"])
    assert [isinstance(row, BrokenLine) for row in glued] == [True]


def test_a_row_of_many_long_lines_ends_where_it_fills_the_memory():
    rows = parse_sacct(["JobID|User|State|NNodes", *["x" * (1 << 20)] * 6, "8|bob|COMPLETED|3"])
    *broken, whole = rows
    assert [row.number for row in broken] == [2, 6]
    assert whole.user == "bob"


def test_steps_only_tell_their_jobs_number_of_tasks():
    jobs = parsed(
        "JobIDRaw|JobID|NTasks|JobName",
        "7|7||run",
        "7.batch|7.batch|1|batch",
        "7.extern|7.extern|2|extern",
        "7.0|7.0|64|a.out",
        "7.1|7.1|32|b.out",
        "8|8||other",
    )
    assert [(job.job_id, job.tasks, job.name) for job in jobs] == [
        (7, 64, "run"),
        (8, None, "other"),
    ]


def test_local_times_are_read_in_the_zone_of_the_cluster():
    heading, line = "JobID|Start", "7|2026-07-01T12:00:00"
    assert one(heading, line, zone=ZoneInfo("Europe/Berlin")).start == 1782900000
    assert one(heading, line, zone=UTC).start == 1782907200


@pytest.mark.parametrize(
    ("name", "submit_line", "comment"),
    [
        ("run", "sbatch --wrap=env | grep SLURM | sort", ""),
        ("qlo|gin", "sbatch run.sh", ""),
        ("a|b", "sbatch --wrap=x|y", "note"),
        ("run", "sbatch x", "one|two|three"),
        ("||", "||", "||"),
    ],
)
def test_separators_in_free_text_do_not_shift_the_fields(name, submit_line, comment):
    job = one(
        "JobID|JobName|User|State|Comment|NNodes|Start|SubmitLine|ExitCode",
        f"7|{name}|alice|COMPLETED|{comment}|2|2026-01-01T00:00:00|{submit_line}|0:0",
    )
    assert (job.user, job.state, job.nodes, job.start) == ("alice", "COMPLETED", 2, 1767225600)
    assert job.submit_line == submit_line
    assert job.name == (name.strip("|") or None)
    assert job.exit_code == "0:0"


def test_the_other_form_with_a_separator_at_the_end_is_understood():
    assert one("JobID|JobName|", "7|run|").name == "run"


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter():
    assert one("\ufeffJobID|State\r\n", "7|COMPLETED\r\n").state == "COMPLETED"


def test_the_heading_may_come_again_where_files_were_put_together():
    jobs = parsed("JobID|JobName|", "7|run|", "\ufeffJobID|JobName|", "8|run|")
    assert [job.job_id for job in jobs] == [7, 8]


def test_broken_lines_are_counted_and_the_rest_is_read():
    items = parsed(HEADING, LINE, "8|cut of", "x" + LINE, "", "9" + LINE[1:])
    assert [item.job_id for item in items if isinstance(item, Job)] == [7, 9]
    broken = [item for item in items if isinstance(item, BrokenLine)]
    assert [item.number for item in broken] == [3, 4]
    assert "2 fields where the heading has 11" in broken[0].reason
    assert "'x7'" in broken[1].reason


@pytest.mark.parametrize("text", ["", "\n\n", "7|run\n8|run\n", "hello\n"])
def test_what_has_no_heading_says_how_to_print_one(text):
    with pytest.raises(SacctError, match="sacct --parsable2"):
        list(parse_sacct(text.splitlines(), name="file"))


def test_real_output_with_every_field_is_understood():
    path = SHARED / "sacct-parsable2-format-sample.txt"
    if not path.exists():
        pytest.skip("the sample of sacct's output is not alongside this repository")
    with path.open() as file:
        jobs = list(parse_sacct(file, zone=UTC))
    assert [job.job_id for job in jobs] == [7957382] * 5
    assert {job.state for job in jobs} == {"CANCELLED"}
    assert {job.uid for job in jobs} == {75200}
    assert {job.time_limit for job in jobs} == {1440}
    assert all("grep SLURM | sed" in job.submit_line for job in jobs)
    assert [job.name for job in jobs] == ["qlogin", "qlogin", "qlo|gin", "qlogin", "qlo|gin"]


FIELDS = st.sampled_from([*HEADING.split("|"), "UID", "TimelimitRaw", "Comment", "Whatever"])
PRINTABLE = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=40)


@given(st.lists(FIELDS, unique=True), st.lists(PRINTABLE, max_size=5))
def test_no_text_whatever_raises(fields, lines):
    for item in parse_sacct(["|".join(["JobID", *fields]), *lines], zone=UTC):
        assert isinstance(item, Job | BrokenLine)


@given(
    st.lists(PRINTABLE.filter(lambda text: not text[:1].isdigit()), max_size=8), st.integers(0, 8)
)
def test_a_good_line_is_never_lost_among_others(noise, place):
    """One that begins with a larger job id may be the row whose user wrote the good line."""
    lines = [*noise[:place], LINE, *noise[place:]]
    jobs = [item for item in parse_sacct([HEADING, *lines], zone=UTC) if isinstance(item, Job)]
    assert 7 in [job.job_id for job in jobs]


@example(name="||||||", submit_line="|")
@given(
    name=st.text("ab|", min_size=1, max_size=8),
    submit_line=st.text("sbatch |-", max_size=20),
)
def test_free_text_never_moves_the_typed_fields(name, submit_line):
    job = one(
        "JobID|JobName|UID|State|Start|SubmitLine",
        f"7|{name}|1000|FAILED|2026-01-01T00:00:00|{submit_line}",
    )
    assert (job.uid, job.state, job.start) == (1000, "FAILED", 1767225600)
    assert (job.name or "") == name.strip("|")
    assert (job.submit_line or "") == submit_line
