"""Whose I/O Lustre's servers counted, by the form in which a site names its jobs."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sluice.cli.main import main
from sluice.history_db.job_stats import JobStatsError, ParsedStats, parse_job_stats
from sluice.history_db.store import Store

GIB = 1 << 30
ACCOUNTING = """\
JobIDRaw|JobID|UID|Start|End|State|TRESUsageInTot|TRESUsageOutTot
4711|4711|1000|1700000000|1700000100|COMPLETED||
4712|4712|1000|1700000000|1700000100|COMPLETED||
4712.0|4712.0||1700000000|1700000100|COMPLETED|fs/disk=1|fs/disk=100
4713|4713|1000|1700000000|1700000100|COMPLETED||
4713.0|4713.0||1700000000|1700000100|COMPLETED|fs/disk=1|fs/disk=1000000000
4800|4800+0|1000|1700000000|1700000100|COMPLETED||
4801|4800+1|1000|1700000000|1700000100|COMPLETED||
4903|4900_3|1000|1700000000|1700000100|COMPLETED||
"""


def text_of(*names: str, size: int = GIB) -> str:
    entries = "".join(
        f"- job_id:          {name}\n  snapshot_time:   1700000050\n"
        f"  write_bytes:     {{ samples: 1, unit: bytes, min: 1, max: 1, sum: {size} }}\n"
        for name in names
    )
    return f"obdfilter.fs-OST0000.job_stats=\njob_stats:\n{entries}"


def parsed(*names: str, **how: str) -> ParsedStats:
    return parse_job_stats(text_of(*names).splitlines(), name="x", **how)


@pytest.mark.parametrize(
    ("names", "form", "jobs"),
    [
        (["4711.1000.node1", "4712.1000.node1"], "%j.%u.%h", {4711: 1000, 4712: 1000}),
        (["4711:node1", "4711:node2", "cp.0"], "%j:%h", {4711: None}),
        (["node1:4711", "node1:4712"], "%h:%j", {4711: None, 4712: None}),
        (["perl4711", "perl4712", "ll_ost.0"], "perl%j", {4711: None, 4712: None}),
        (["c1-4711", "c1-4712"], "c1-%j", {4711: None, 4712: None}),
        (["c1-4711:n1", "c1-4712:n2"], "c1-%j:%h", {4711: None, 4712: None}),
        (["4711", "4712.0", "4713.batch", "cp.1000"], "%j", {4711: None, 4712: None, 4713: None}),
        (["python3.1000", "python3.1001", "md5sum.1000"], "%j", {}),
    ],
)
def test_most_entries_tell_the_form(names, form, jobs):
    found = parsed(*names)
    assert (found.form, found.is_guessed) == (form, True)
    assert {job.job_id: job.uid for job in found.jobs} == jobs


def test_a_form_that_is_said_or_asked_for_goes_before():
    names = ["cp.4711.1000", "cp.4712.1000"]
    assert {job.job_id for job in parsed(*names, form="%e.%j.%u").jobs} == {4711, 4712}
    assert {job.job_id for job in parsed(*names, told="%e.%j.%u").jobs} == {4711, 4712}
    assert parsed("4711", told="%e.%u").form == "%j", "jobid_var alone names the job"
    said = "jobid_name=%e.%j.%u\n" + text_of(*names)
    assert {job.job_id for job in parse_job_stats(said.splitlines(), name="x").jobs} == {4711, 4712}
    for wrong in ("%u.%h", "%j.%x", "%j%j"):
        with pytest.raises(JobStatsError, match="no form of a job_id"):
            parsed(*names, form=wrong)


def test_a_count_that_no_machine_reaches_is_no_error():
    found = parse_job_stats(text_of("4711", size=1 << 70).splitlines() * 2, name="x")
    assert found.jobs[0].write_bytes == 1 << 62


def test_a_name_that_holds_line_ends_makes_no_counts():
    """A name has 31 characters: no counter with samples and a unit fits into that."""
    evil = "4711\nwrite_bytes:{sum:99999999}"
    found = parse_job_stats(text_of(evil, size=1).splitlines(), name="x")
    assert [job.write_bytes for job in found.jobs] == [1]


@pytest.fixture
def ingest(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SLUICE_HISTORY", str(tmp_path / "history.db"))
    monkeypatch.setenv("PATH", str(tmp_path))  # no Lustre but what a test puts there
    (tmp_path / "sacct").write_text(ACCOUNTING)
    (tmp_path / "stats").touch()

    def run(text: str, *words: str) -> str:
        (tmp_path / "stats").write_text(text)
        files = ["--sacct", str(tmp_path / "sacct"), "--job-stats", str(tmp_path / "stats")]
        done = CliRunner().invoke(main, ["history", "ingest", *files, "--cluster", "c", *words])
        assert done.exit_code == 0, done.output
        return done.output

    return run


def written(tmp_path: Path) -> dict[int, int | None]:
    with Store(tmp_path / "history.db") as store:
        return {job.job_id: job.write_bytes for job in store.jobs.all_jobs()}


def test_what_does_not_fit_is_shown_by_example(ingest):
    shown = ingest(text_of("4711.1000.n1", "4713.1000.n1", "cp.0"))
    assert "2 jobs" in shown
    assert "1 entries of no job, as 'cp.0'" in shown
    assert "%j.%u.%h" in shown
    assert "--job-id-form" in ingest(text_of("cp.0", "dd.0"))


def test_the_form_is_asked_of_lctl(ingest, tmp_path):
    (tmp_path / "lctl").write_text(
        '#!/bin/sh\n[ "$*" = "get_param -n jobid_name" ] && echo %e.%j\n'
    )
    (tmp_path / "lctl").chmod(0o755)
    text = text_of("dd.4711", "dd.4712", "dd.0")
    found = json.loads(ingest(text, "--json"))["job_stats"]
    assert (found["form"], found["is_guessed"]) == ("%e.%j", False)
    assert (found["jobs"], found["other_example"]) == (1, "dd.0")
    assert written(tmp_path)[4711] == GIB


def test_components_and_tasks_are_jobs_of_their_own(ingest, tmp_path):
    ingest(text_of("4800+1", "4900_3"))
    counts = written(tmp_path)
    assert (counts[4800], counts[4801], counts[4903]) == (None, GIB, GIB)


def test_what_the_accounting_contradicts_is_not_counted(ingest, tmp_path):
    shown = ingest(text_of("4711", "4712", "4713"))
    counts = written(tmp_path)
    assert counts[4711] == GIB, "nobody else counted"
    assert counts[4712] == 100, "Slurm counted far less"
    assert counts[4713] == GIB, "Slurm counted about as much"
    assert "1 of them are not counted" in shown
    assert "job 4712" in shown


def test_another_users_process_cannot_name_a_job(ingest, tmp_path):
    shown = ingest(text_of("4711.1666.n1", "4713.1000.n1"))
    counts = written(tmp_path)
    assert (counts[4711], counts[4713]) == (None, GIB)
    assert "job 4711 of user 1666, which is user 1000's" in shown
