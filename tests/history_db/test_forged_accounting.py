"""Texts that users write into accounting never make a row, a column or a step of another job."""

from datetime import UTC
from io import StringIO
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.history_db.records import Job
from sluice.history_db.sacct import (
    TEXT_FIELDS,
    TYPED_FIELDS,
    BrokenLine,
    SacctError,
    parse_answers,
    parse_sacct,
)

RANDOM = "|6f1c0c1e9a5b4d7f8e2a3b4c5d6e7f80|"
FIELDS = (
    *("JobIDRaw", "JobID", "Cluster", "JobName", "User", "UID", "Account", "Partition", "QOS"),
    *("Submit", "Start", "End", "State", "ExitCode", "NNodes", "NTasks", "NCPUS"),
    *("TimelimitRaw", "SubmitLine", "Restarts", "TRESUsageInTot", "TRESUsageOutTot"),
)
TIMES = {"Submit": "1764000000", "Start": "1764000010", "End": "1764003610"}
FIXED = {"Cluster": "lab", "Partition": "main", "QOS": "normal", "State": "COMPLETED"} | TIMES
FIXED |= {"ExitCode": "0:0", "NNodes": "1", "NTasks": "", "NCPUS": "4", "TimelimitRaw": "60"}
FIXED |= {"Restarts": "0", "TRESUsageInTot": "", "TRESUsageOutTot": ""}
ALICE = {"User": "alice", "UID": "1000", "Account": "proj"}
EVE = {"User": "eve", "UID": "1666", "Account": "proj"}


def a_row(job: int | str, **values: str) -> dict[str, str]:
    return FIXED | {"JobIDRaw": str(job), "JobID": str(job), "JobName": "cfd"} | values


def of_alice(job: int | str, **values: str) -> dict[str, str]:
    return a_row(job, **ALICE | {"SubmitLine": "sbatch cfd.sh"} | values)


def of_eve(job: int | str, **values: str) -> dict[str, str]:
    return a_row(job, **EVE | {"SubmitLine": "sbatch job.sh"} | values)


def printed(rows, fields=FIELDS, separator="|") -> str:
    """What sacct prints: it escapes nothing."""
    lines = [fields, *([row.get(field, "") for field in fields] for row in rows)]
    return "".join(separator.join(line) + "\n" for line in lines)


FORGED_STEP = of_alice("4711.0", TRESUsageOutTot="fs/disk=900000000000000", User="", UID="")
FORGED = printed([of_alice(4711), FORGED_STEP, of_alice(4712)]).partition("\n")[2].rstrip("\n")
TEXTS = st.lists(
    st.sampled_from(
        [
            "|",
            "\n",
            "x",
            " ",
            "",
            "4711",
            FORGED,
            "|".join(FIELDS),
            "\n4711|4711|lab|",
            "|0||\n",
            "ö",
        ]
    ),
    max_size=6,
).map("".join)
ROWS = st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=4).map(
    lambda rows: [
        of_eve(
            9001 + place,
            JobName=f"n{name}n",
            Account=f"a{account}a",
            SubmitLine=f"sbatch {line}.",
        )
        for place, (name, account, line) in enumerate(rows)
    ]
)


def told(jobs) -> list[tuple[object, ...]]:
    assert all(isinstance(job, Job) for job in jobs), jobs
    return [(job.job_id, job.uid, job.name, job.account, job.submit_line) for job in jobs]


def true(rows) -> list[tuple[object, ...]]:
    return [
        (int(row["JobIDRaw"]), 1666, row["JobName"], row["Account"], row["SubmitLine"])
        for row in rows
    ]


@given(ROWS)
def test_what_sluice_asks_itself_has_the_true_jobs_whatever_users_write(rows):
    typed, texts = printed(rows, TYPED_FIELDS), printed(rows, TEXT_FIELDS, RANDOM)
    assert told(list(parse_answers(typed, texts))) == true(rows)


@given(ROWS, st.permutations(FIELDS), st.booleans())
def test_a_file_with_a_random_delimiter_has_the_true_jobs_whatever_users_write(
    rows, fields, is_closed
):
    text = printed(rows, (*fields, "") if is_closed else fields, RANDOM)
    jobs = list(parse_sacct(StringIO(text, newline="\n"), zone=UTC))
    if is_closed or not {fields[0], fields[-1]} <= {"JobName", "Account", "SubmitLine"}:
        assert told(jobs) == true(rows)
    else:  # the first lines of one text may count for the other
        assert [job[:2] for job in told(jobs)] == [job[:2] for job in true(rows)]
    assert all(job.start and job.end and job.nodes == 1 for job in jobs)
    assert all(job.write_bytes is None for job in jobs)


def test_even_a_delimiter_that_was_guessed_makes_no_job_and_no_bytes():
    row = of_eve(9001, SubmitLine="sbatch")
    forged = RANDOM.join(of_alice(4711)[field] for field in TEXT_FIELDS)
    texts = printed([row], TEXT_FIELDS, RANDOM) + forged + "\n"
    (job,) = parse_answers(printed([row], TYPED_FIELDS), texts)
    assert (job.job_id, job.uid, job.submit_line) == (9001, 1666, "sbatch")


def test_texts_that_disagree_belong_to_no_job():
    row = of_alice(4711)
    texts = printed([row, row | {"JobName": "forged"}], TEXT_FIELDS, RANDOM)
    (job,) = parse_answers(printed([row], TYPED_FIELDS), texts)
    assert (job.uid, job.name, job.submit_line) == (1000, None, None)


@pytest.mark.parametrize(
    ("typed", "texts"),
    [
        pytest.param(FIELDS, RANDOM, id="texts among the fields that identify"),
        pytest.param(TYPED_FIELDS, "|", id="a sacct without --delimiter"),
    ],
)
def test_an_answer_that_was_not_asked_for_is_not_read(typed, texts):
    row = of_alice(4711)
    with pytest.raises(SacctError):
        list(parse_answers(printed([row], typed), printed([row], TEXT_FIELDS, texts)))


# Files with plain separators


def read(text: str) -> tuple[dict[int, Job], list[BrokenLine]]:
    items = list(parse_sacct(text.splitlines(keepends=True), zone=UTC))
    jobs = [item for item in items if isinstance(item, Job)]
    found = {job.job_id: job for job in jobs}
    assert len(found) == len(jobs)
    return found, [item for item in items if isinstance(item, BrokenLine)]


AROUND = [of_alice(4000), of_alice(9002)]
CLOSED = "|0||\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param({"SubmitLine": f"sbatch --comment={CLOSED}{FORGED}"}, id="its row completed"),
        pytest.param({"SubmitLine": f"sbatch --comment=|||\n{FORGED}"}, id="with empty fields"),
        pytest.param({"SubmitLine": f"sbatch --comment=\n{FORGED}"}, id="its row left open"),
        pytest.param(
            {"SubmitLine": f"sbatch {CLOSED}{'|'.join(FIELDS)}\n{FORGED}"}, id="after a heading"
        ),
        pytest.param(
            {"JobName": "x|eve|1666" + FORGED[FORGED.index("|proj") :] + "\n" + FORGED},
            id="in the name",
        ),
        pytest.param({"Account": f"proj|main\n{FORGED}"}, id="in the account"),
    ],
)
def test_earlier_jobs_are_not_made_by_a_later_ones_text(text):
    jobs, broken = read(printed([AROUND[0], of_eve(9001, **text), AROUND[1]]))
    assert {number: job.uid for number, job in jobs.items() if number != 9001} in (
        {4000: 1000, 9002: 1000},
        {4000: 1000},  # where no one can tell whose the last line is
    )
    assert broken
    assert all(job.write_bytes is None for job in jobs.values())


def test_a_name_does_not_make_a_job_another_users():
    """Both ways to read it look as they must."""
    name = "x|alice|1000|proj|main|normal|1764000000|1764000010|1764003610|COMPLETED|0:0|1||4|60|y"
    jobs, broken = read(printed([AROUND[0], of_eve(9001, JobName=name), AROUND[1]]))
    assert {number: job.uid for number, job in jobs.items()} == {4000: 1000, 9002: 1000}
    assert "cannot be told apart" in broken[0].reason


def test_rows_of_one_job_that_contradict_each_other_are_all_left_out():
    forged = of_eve(9001, SubmitLine=f"sbatch {CLOSED}" + FORGED.replace("4711", "9002"))
    jobs, broken = read(printed([AROUND[0], forged, of_alice(9002, **EVE), of_alice(9003)]))
    assert 9002 not in jobs
    assert jobs[9003].uid == 1000
    assert sum("contradicts line" in line.reason for line in broken) == 2


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize(
    "forged",
    [
        pytest.param([of_alice(999_999_999)], id="one job"),
        pytest.param([of_alice(1 << 40), of_alice((1 << 40) + 1)], id="two jobs"),
        pytest.param([of_alice(999_999_999, JobID="999999999_7")], id="a task of an array"),
        pytest.param([of_alice(999_999_999, JobID="999999998_7")], id="a task of another"),
        pytest.param([of_alice(999_999_999, End="sometime")], id="a broken row"),
    ],
)
def test_a_job_of_a_huge_id_in_a_text_hides_no_later_job(forged, times):
    text = printed(forged).partition("\n")[2].rstrip("\n")
    author = of_eve(9001, SubmitLine=f"sbatch {CLOSED}{text}")
    later = [of_alice(9002 + n, Submit=f"{1764000001 + n}") for n in range(6)]
    rows = [of_alice(9000), author, *later[:3], *[author | {"JobIDRaw": "9004"}] * (times > 1)]
    jobs, broken = read(printed([*rows, *later[3:]]))
    assert set(jobs) >= {9000, 9001, 9002, 9003, *range(9005, 9008)}
    assert max(jobs) == 9007
    assert broken


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_rows_of_earlier_jobs_in_the_last_text_are_none_however_many_they_are(count):
    forged = printed([of_alice(4711 + n) for n in range(count)]).partition("\n")[2].rstrip("\n")
    author = of_eve(9001, SubmitLine=f"sbatch {CLOSED}{forged}")
    jobs, broken = read(printed([of_alice(4000), of_alice(9000), author]))
    assert set(jobs) == {4000, 9000, 9001}
    assert len(broken) == count


def test_the_orders_in_which_slurm_prints_arrays_are_known():
    """As 22.05 does, by submission, and as 20.11 did, by id."""
    later, last = {"Submit": "1764000001"}, {"Submit": "1764000016"}
    rows = [
        *(of_alice(1), of_alice(3), of_alice(5), of_alice(8, JobID="2_1")),
        *(of_alice(9, JobID="2_2"), of_alice(2, JobID="2_3"), of_alice(10, JobID="4_5")),
        *(of_alice(4, JobID="4_9"), of_alice(7, **later)),
        *(of_alice(15, **last), of_alice(16, JobID="14_1", **last)),
        of_alice(14, JobID="14_2", **last),
    ]
    by_id = sorted(rows, key=lambda row: int(row["JobIDRaw"]))
    for ordered in (rows, by_id):
        jobs, broken = read(printed(ordered))
        assert (set(jobs), broken) == ({*range(1, 6), *range(7, 11), 14, 15, 16}, [])


@pytest.mark.parametrize("job", ["4711_1", "9000_1"])
def test_an_earlier_job_is_not_made_as_a_task_either(job):
    forged = printed([of_alice(4711, JobID=job)]).partition("\n")[2].rstrip("\n")
    early = of_alice(9000, Submit="1763990000")
    jobs, broken = read(printed([early, of_eve(9001, SubmitLine=f"sbatch {CLOSED}{forged}")]))
    assert set(jobs) == {9000, 9001}
    assert len(broken) == 1


def test_an_id_that_came_again_is_two_jobs():
    later = {"Submit": "1774000000", "Start": "1774000010", "End": "1774003610"}
    items = list(parse_sacct(printed([of_alice(7), of_eve(7, **later)]).splitlines(), zone=UTC))
    assert [item.uid for item in items] == [1000, 1666]


def test_a_step_counts_for_the_job_that_it_is_of():
    step = of_alice("4711.0", TRESUsageOutTot="fs/disk=900")
    other = of_alice("4712.0", TRESUsageOutTot="fs/disk=77")
    jobs, _ = read(printed([of_alice(4711), step, other]))
    assert jobs[4711].write_bytes == 900


def test_without_texts_of_users_the_order_does_not_matter():
    fields = [field for field in TYPED_FIELDS if field != "JobID"]
    jobs, broken = read(printed([of_alice(4712), of_alice(4711)], fields))
    assert (set(jobs), broken) == ({4711, 4712}, [])


def test_rows_of_a_trace_may_have_any_order():
    lines = printed([of_alice(4712), of_alice(4711)]).splitlines()
    assert [job.job_id for job in parse_sacct(lines, zone=UTC, is_trace=True)] == [4712, 4711]


# When summer time ends, an hour comes twice


@pytest.mark.parametrize(
    ("elapsed", "start", "end", "seconds"),
    [
        ("1200", "02:50:00", "02:10:00", 1200),
        ("5400", "02:05:00", "02:35:00", 5400),
        ("5400", "02:30:00", "04:00:00", 5400),
        ("9000", "02:30:00", "04:00:00", 9000),
        ("600", "02:05:00", "02:15:00", 600),
        ("00:20:00", "02:50:00", "02:10:00", 1200),
        ("0", "10:00:26", "10:00:10", 0),
        ("3000", "10:00:00", "11:00:00", 3600),  # the rest it was suspended
        ("", "10:00:00", "11:00:00", 3600),
    ],
)
def test_how_long_a_job_ran_tells_which_hour_was_meant(elapsed, start, end, seconds):
    field = "Elapsed" if ":" in elapsed else "ElapsedRaw"
    line = f"201|2025-10-26T01:50:00|2025-10-26T{start}|2025-10-26T{end}|{elapsed}"
    heading = f"JobID|Submit|Start|End|{field}"
    (job,) = parse_sacct([heading, line], zone=ZoneInfo("Europe/Berlin"))
    assert job.end - job.start == seconds
    assert job.start >= job.submit


@pytest.mark.parametrize(
    ("text", "count"),
    [("4K", 4096), ("1.17K", 1198), ("2M", 2 << 20), ("16", 16), ("0", None), ("K", None)],
)
@pytest.mark.parametrize(("field", "attribute"), [("AllocNodes", "nodes"), ("AllocCPUS", "cpus")])
def test_numbers_are_read_as_sacct_shortens_them(text, count, field, attribute):
    (job,) = parse_sacct([f"JobID|{field}", f"7|{text}"])
    assert getattr(job, attribute) == count
