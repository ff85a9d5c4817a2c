"""Traces from accounting, CSV and the history say the same of the same jobs."""

from dataclasses import replace

import numpy as np
import pytest
from history_rows import a_job

from sluice.history_db.records import Job
from sluice.history_db.store import Store
from sluice.sim.engine import TraceError
from sluice.sim.replay.experiment import Experiment
from sluice.sim.trace.jobs import JobEnd
from sluice.sim.trace.machine import site_of
from sluice.sim.trace.sources import guess, read_trace, trace_of_jobs

SACCT = """\
JobIDRaw|Submit|Start|End|NNodes|NCPUS|TimelimitRaw|User|Account|Partition|State
11|1000|1060|1120|2|8|10|ann|physics|batch|COMPLETED
12|1001|1070|1100|1|4|20|bob|physics|batch|CANCELLED by 0
12.batch|1001|1070|1100|1|4||||||
"""


CSV = """\
job,submitted,start,end,limit,slots,user,account,partition,state
11,1000,1060,1120,600,2,ann,physics,batch,COMPLETED
12,1970-01-01T00:16:41,1070,1100,1200,1,bob,physics,batch,CANCELLED
"""


def history(path):
    common = {
        **dict.fromkeys(("name", "uid", "qos", "tasks", "exit_code", "submit_line")),
        "script_signature": None,
        "cluster": "c",
        "restarts": 0,
        "account": "physics",
        "partition": "batch",
        "source": "sacct",
    }
    jobs = [
        Job(job_id=11, submit=1000, start=1060, end=1120, nodes=2, cpus=8, time_limit=10,
            user="ann", state="COMPLETED", **common),
        Job(job_id=12, submit=1001, start=1070, end=1100, nodes=1, cpus=4, time_limit=20,
            user="bob", state="CANCELLED", **common),
    ]  # fmt: skip
    with Store(path, create=True) as store:
        store.jobs.upsert_jobs(jobs)


@pytest.mark.parametrize("kind", ["sacct", "csv", "history"])
def test_every_format_tells_the_same_jobs(kind, tmp_path):
    path = tmp_path / "trace"
    texts = {"sacct": SACCT, "csv": CSV}
    if kind == "history":
        history(path)
    else:
        path.write_text(texts[kind])
    columns = {"submit": "submitted"} if kind == "csv" else None
    assert guess(path.read_bytes()) == kind
    trace = read_trace(path, columns=columns)
    assert list(trace.job_id) == [11, 12]
    assert list(trace.submit) == [1000, 1001]
    assert list(trace.start) == [1060, 1070]
    assert list(trace.runtime) == [60, 30]
    assert list(trace.limit) == [600, 1200]
    assert list(trace.slots) == [2, 1]
    assert [trace.users[i] for i in trace.user] == ["ann", "bob"]
    assert [trace.accounts[i] for i in trace.account] == ["physics"] * 2
    assert list(trace.outcome) == [JobEnd.COMPLETED, JobEnd.CANCELLED]


def test_accounting_may_be_counted_in_processors(tmp_path):
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT)
    assert list(read_trace(path, slot="processor").slots) == [8, 4]


ALONE = a_job(job_id=1, submit=1000, start=1000, end=1900, nodes=1, cpus=4, partition="batch")
TOGETHER = [replace(ALONE, job_id=i, start=2000, end=9000, cpus=1) for i in (2, 3, 4)]
"""On one node, which the job before them had to itself."""


SWF = """\
; MaxNodes: 8
; MaxProcs: 128
1 0 0 600 32 -1 -1 32 900 -1 1 1 1 -1 1 1 -1 -1
2 5 0 600 4 -1 -1 4 900 -1 1 1 1 -1 1 1 -1 -1
"""


@pytest.mark.parametrize(("asked", "of_node"), [(None, 16), (32.0, 32)])
def test_processors_make_nodes_for_storage(asked, of_node, tmp_path):
    """Targets, metadata server and what a job writes are those of its nodes."""
    path = tmp_path / "a.swf"
    path.write_text(SWF)
    draw = Experiment(trace=str(path), processors_per_node=asked, io_share=1.0).draw()
    workload = draw.replayable.workload
    assert workload.machine.slots == 128
    assert workload.nodes.tolist() == [32 / of_node, 4 / of_node]
    loads = draw.profiles.loads(workload, draw.storage.configuration())
    assert loads["weight"].tolist() == [32 / of_node, 1]
    assert draw.storage.number("metadata_rate") == 310 * 128 / of_node


def test_a_node_has_as_many_processors_as_a_job_took_of_one():
    jobs = [replace(ALONE, cpus=64), replace(ALONE, job_id=2, nodes=2, cpus=64)]
    assert trace_of_jobs("a", jobs, slot="processor").slots_per_node == 64
    assert trace_of_jobs("a", jobs, slot="node").slots_per_node == 1


def test_further_columns_of_a_workload_may_hold_anything():
    assert guess(b"1 0 0 600 32 -1 -1 32 900 -1 1 1 1 -1 1 1 -1 -1 gpu=2,mem=4\n") == "swf"
    assert guess(b"job, submit, nodes\n1, 0, 4\n") == "csv"


def test_jobs_that_shared_nodes_are_counted_in_processors():
    """Counted in nodes, three jobs on one node would have needed three."""
    jobs = [ALONE, *TOGETHER]
    trace = trace_of_jobs("history", jobs)
    assert (trace.slot, list(trace.slots)) == ("processor", [4, 1, 1, 1])
    assert site_of(trace).machine.slots == 4
    assert site_of(trace_of_jobs("history", jobs, slot="node")).machine.slots == 3


def test_jobs_that_had_nodes_to_themselves_are_counted_in_nodes():
    """Nodes of another partition may have fewer processors."""
    small = replace(ALONE, partition="small", nodes=2)
    trace = trace_of_jobs("history", [ALONE, small])
    assert (trace.slot, list(trace.slots)) == ("node", [1, 2])


def test_jobs_are_counted_in_nodes_where_the_processors_of_some_are_unknown():
    assert trace_of_jobs("history", [ALONE, *TOGETHER, replace(ALONE, cpus=None)]).slot == "node"


def test_accounting_of_several_clusters_is_replayed_one_at_a_time():
    jobs = [replace(ALONE, cluster="here"), replace(ALONE, cluster="there", job_id=3)]
    with pytest.raises(TraceError, match="clusters here, there; choose one by `cluster` in"):
        trace_of_jobs("history", jobs)
    with pytest.raises(TraceError, match="clusters here, there; choose one by `cluster` in"):
        trace_of_jobs("history", jobs, cluster="elsewhere")
    assert list(trace_of_jobs("history", jobs, cluster="there").job_id) == [3]


SACCT_CSV = """\
JobID,JobName,User,Account,Partition,Submit,Start,End,Elapsed,Timelimit,NNodes,State
11,a,ann,physics,batch,1970-01-01T00:16:40,1970-01-01T00:17:40,1970-01-01T00:18:40,00:01:00,00:10:00,2,COMPLETED
11.batch,batch,,physics,,1970-01-01T00:17:40,1970-01-01T00:17:40,1970-01-01T00:18:40,00:01:00,,1,COMPLETED
11.0,a,,physics,,1970-01-01T00:17:41,1970-01-01T00:17:41,1970-01-01T00:18:40,00:00:59,,2,COMPLETED
"""
SITE_CSV = """\
id;queue_name;user_id;submit_time;start_time;end_time;wallclock_req;nodes_req;cores_req
11;batch;ann;1000;1060;1120;600;2;64
"""


@pytest.mark.parametrize("text", [SACCT_CSV, SITE_CSV])
def test_usual_titles_of_accounting_need_no_map(text, tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    trace = read_trace(path, kind="csv")
    assert (len(trace), trace.bad_line_count) == (1, 0)
    [row] = zip(trace.submit, trace.start, trace.runtime, trace.limit, trace.slots, strict=True)
    assert row == (1000, 1060, 60, 600, 2)
    assert [*trace.users, *trace.partitions] == ["ann", "batch"]


def test_a_map_goes_before_a_usual_title(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(SITE_CSV)
    assert list(read_trace(path, columns={"slots": "cores_req"}).slots) == [64]


WRONG = (
    ("a,b\n1,2\n", {"submit": "c"}, "no column c; there are a, b"),
    ("a,b\n1,2\n", {}, "no column for submit, slots, runtime"),
    ("submit,slots,runtime\n", {}, "no job in it"),
    ("submit,slots,runtime\n1,2,3\n", {"size": "slots"}, "no column size in a trace; map job"),
    ('{"jobs": 3}', {}, "line 1 field 1 is no number"),
)


@pytest.mark.parametrize(("text", "columns", "reason"), WRONG)
def test_what_makes_no_sense_is_said_with_the_name_of_the_file(text, columns, reason, tmp_path):
    path = tmp_path / "wrong.txt"
    path.write_text(text)
    with pytest.raises(TraceError, match=reason) as caught:
        read_trace(path, columns=columns)
    assert str(path) in str(caught.value)


def test_broken_rows_are_counted_and_the_others_read(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("submit,slots,runtime\n1,2,3\n1,2\n5,,what\n")
    trace = read_trace(path)
    assert (len(trace), [bad.number for bad in trace.bad_lines]) == (2, [3])
    assert np.isnan(trace.runtime[1])
    assert trace.slots[1] == -1


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_table_from_a_spreadsheet_is_read_whatever_separates_and_encodes_it(
    separator, encoding, tmp_path
):
    path = tmp_path / "jobs.csv"
    rows = ("submit,slots,runtime,limit", "5,2,00:10:00,1-00:00:00", "9,1,10:30,UNLIMITED")
    path.write_text("\r\n".join(rows).replace(",", separator), encoding=encoding)
    trace = read_trace(path, kind="csv")
    assert trace.submit.tolist() == [5, 9]
    assert trace.runtime.tolist() == [600, 630]
    assert trace.limit[0] == 86400
    assert np.isnan(trace.limit[1])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_mark_before_a_workload_costs_no_job(encoding, tmp_path):
    path = tmp_path / "jobs.swf"
    path.write_text("1 0 0 9 4 -1 -1 4 20 -1 1 1 1 1 1 1 -1 -1\r\n", encoding=encoding)
    trace = read_trace(path)
    assert (len(trace), trace.bad_line_count) == (1, 0)


def test_half_a_character_of_utf_16_is_said(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_bytes("submit,slots,runtime\n1,2,3".encode("utf-16")[:-1])
    with pytest.raises(TraceError, match="damaged UTF-16"):
        read_trace(path)


def test_numbers_that_no_job_can_have_are_not_known(tmp_path):
    path = tmp_path / "jobs.csv"
    wrong = ("1e30", "inf", "-3", "nan", "9" * 400)
    rows = [f"{word},{word},{word}" for word in wrong]
    path.write_text("\n".join(["submit,slots,runtime", *rows]))
    trace = read_trace(path)
    assert np.isnan(trace.submit).all()
    assert np.isnan(trace.runtime).all()
    assert set(trace.slots.tolist()) == {-1}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "job_id,submit,nodes,runtime\n1,0,4K,60\n2,10,1.17K,60\n3,20,2e1,60\n"),
        (
            "a.txt",
            "JobID|JobName|AllocNodes|Submit|Start|End\n"
            + "".join(
                f"{job}|a|{nodes}|2026-03-01T10:00:0{job}|2026-03-01T10:01:00|2026-03-01T10:02:00\n"
                for job, nodes in ((1, "4K"), (2, "1.17K"), (3, "20"))
            ),
        ),
    ],
)
def test_numbers_of_nodes_are_read_as_slurm_shortens_them(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    assert read_trace(path).slots.tolist() == [4096, 1198, 20]
