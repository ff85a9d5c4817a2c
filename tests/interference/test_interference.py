"""`sluice site interference`: for programs, jobs and applications, and for a whole site."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from sluice.cli.main import main
from sluice.history_db.records import CoRun, ObservedInterference
from sluice.history_db.store import Store
from sluice.interference.observations import Observation, nearest, observations
from sluice.interference.programs import KIB, MIB, Program
from sluice.interference.site_model import fit

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def ingested(tmp_path_factory):
    """Real logs with their accounting."""
    path = tmp_path_factory.mktemp("ingested") / "history.db"
    words = [DATA / "darshan", "--sacct", DATA / "darshan" / "sacct-parsable2.txt"]
    done = CliRunner().invoke(main, ["history", "ingest", "--history", str(path), *map(str, words)])
    assert done.exit_code == 0, done.output
    return path


@pytest.fixture
def history(ingested, tmp_path, monkeypatch):
    """The same, for this test alone."""
    path = tmp_path / "history.db"
    with Store(ingested, read_only=True):  # nobody else writes it
        path.write_bytes(ingested.read_bytes())
    monkeypatch.setenv("SLUICE_HISTORY", str(path))
    return path


def ask(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["site", "interference", *words])
    assert done.exit_code == code, done.output
    return done.output if code else done.stdout


def named_jobs(path: Path) -> list[tuple[int, str]]:
    with Store(path, read_only=True) as store:
        return [
            (run.job.job_id, run.job.name)
            for run in store.runs.runs()
            if run.job and run.job.name and run.profile.numbers.get("chunk_bytes", 0) > 0
        ]


def corun(probe: str, signal: str, kept: float) -> CoRun:
    return CoRun(
        started=0,
        mode="rates",
        members=(probe, signal),
        targets=("a", "a"),
        alone=(100e6, 100e6),
        together=(kept * 100e6, 50e6),
        foreign_share=0.0,
        dropped="",
    )


def test_jobs_and_applications_of_the_history_are_compared_over_chunk_sizes(history):
    number, name = named_jobs(history)[0]
    answer = json.loads(ask(f"job:{number}", f"app:{name}", "--json"))
    assert [row["victim"] for row in answer["losses"]] == [f"job:{number}", f"app:{name}"]
    for row in answer["losses"]:
        assert row["least"] <= row["loss"] <= row["most"]
        assert row["measured"] == []
    assert answer["by_chunk"][0]["chunk"] == "64K"
    assert "By published figures of other file systems" in ask(f"app:{name}", "aw:1M:4")


def test_what_production_showed_of_two_applications_is_named(history):
    number, name = named_jobs(history)[0]
    seen = ObservedInterference(name, name, 0, 0.4, 0.1, 0.001, 12, 40)
    with Store(history) as store:
        store.interference.put_observed_interference([seen])
    text = ask(f"job:{number}", f"app:{name}")
    assert f"In production, {name} kept 40% alongside {name} (12 slices; attributed)" in text


def test_the_measurements_most_like_the_pair_are_named(history):
    with Store(history) as store:
        calibration = store.interference.add_calibration(created=1, site="here", settings={})
        store.interference.add_corun(calibration, corun("owc:1M:2", "aw:1M:2", 0.1))
        store.interference.add_corun(calibration, corun("owc:64K:2", "aw:16M:2", 0.3))
    answer = json.loads(ask("owc:1M:4", "aw:1M:4", "--json"))
    first = answer["losses"][0]["measured"][0]
    assert (first["victim"], first["alongside"]) == ("owc:1M:2", "aw:1M:2")
    assert first["loss"] == pytest.approx(0.9)
    assert 0.5 < first["likeness"] < 1


def calibrated(path: Path, *coruns: CoRun) -> list[Observation]:
    with Store(path) as store:
        calibration = store.interference.add_calibration(created=1, site="here", settings={})
        for one in coruns:
            store.interference.add_corun(calibration, one)
    return observations(coruns)


def test_of_programs_that_were_measured_their_rates_alone_count(history):
    """As where the accuracy in docs/evidence/sessions.md is from."""
    slow = replace(corun("owc:1M:2", "aw:1M:2", 0.2), alone=(60e6, 60e6), together=(12e6, 9e7))
    seen = calibrated(history, slow, corun("aw:1M:2", "owc:1M:2", 0.9))
    model = fit(seen)
    answer = json.loads(ask("owc:1M:2", "aw:1M:2", "--json"))
    for row in answer["losses"]:
        victim, other = Program.parse(row["victim"]), Program.parse(row["alongside"])
        item = next(o for o in seen if (o.victim, o.others) == (victim, (other,)))
        assert row["loss"] == pytest.approx(1 - model.predict(item))
        assert row["loss"] != pytest.approx(1 - model.share_kept(victim, [other]))
    at_1m = next(row for row in answer["by_chunk"] if row["chunk"] == "1M")
    assert [at_1m["first"], at_1m["second"]] == [row["loss"] for row in answer["losses"]]
    matrix = json.loads(ask("--json"))["matrices"][1]
    owc, aw = (matrix["patterns"].index(name) for name in ("owc", "aw"))
    assert matrix["loss"][owc][aw] == at_1m["first"]


def test_what_is_like_nothing_measured_is_called_extrapolated(history):
    calibrated(history, corun("ws:4K:1", "ws:4K:1", 0.5))
    for far in ("aw:256M:512", "ws:512K:8"):
        assert "Nothing like them was measured; extrapolated by a fit to the" in ask(far, far)
    near = ask("ws:4K:1", "ws:4K:2")
    assert f"By a fit to the history {history}: 2 measurements here." in near
    assert "Most like it" in ask("ws:512K:8", "ws:512K:8")  # a little, and that is shown


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize("program", ["metadata:4K:2", "owc+metadata:1M:2"])
def test_programs_that_do_metadata_are_refused(program):
    for words in ((program, "aw:1M:2"), ("aw:1M:2", program)):
        answer = ask(*words, code=1)
        assert f"{program}: metadata are not in the model" in answer
        assert "sluice site calibrate report" in answer


@pytest.mark.usefixtures("history")
def test_jobs_that_do_metadata_are_refused():
    answer = ask("aw:1M:2", "app:mdtest_meta", code=1)
    assert "app:mdtest_meta (pattern metadata): metadata are not in the model" in answer


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize("reader", ["read:1M:2", "owc+read:1M:2", "app:ior_read"])
def test_what_reads_lose_is_predicted(reader):
    for words in ((reader, "aw:1M:2"), ("aw:1M:2", reader)):
        rows = json.loads(ask(*words, "--json"))["losses"]
        assert all(0 <= row["loss"] < 1 for row in rows)


def test_measured_reads_are_named_alongside_what_is_most_like_them(history):
    calibrated(history, corun("read:1M:2", "aw:1M:2", 0.6), corun("ws:1M:2", "aw:1M:2", 0.3))
    first = json.loads(ask("read:1M:4", "aw:1M:2", "--json"))["losses"][0]["measured"][0]
    assert (first["victim"], first["alongside"]) == ("read:1M:2", "aw:1M:2")
    assert first["loss"] == pytest.approx(0.4)


def test_no_name_of_a_job_reaches_the_terminal_as_it_is(history):
    number, _ = named_jobs(history)[0]
    name = "cfd\x1b[2J\nIn production"
    seen = ObservedInterference(name, name, 0, 0.4, 0.1, 0.001, 12, 40)
    with Store(history) as store:
        store.jobs.upsert_jobs([replace(job, name=name) for job in store.jobs.jobs_with_id(number)])
        store.interference.put_observed_interference([seen])
    text = ask(f"job:{number}", f"job:{number}")
    assert "\x1b" not in text
    assert "In production, cfd\N{REPLACEMENT CHARACTER}[2J" in text


@pytest.mark.usefixtures("history")
def test_a_whole_site_has_a_matrix_and_its_worst_pairs():
    answer = json.loads(ask("--json"))
    assert [matrix["chunk"] for matrix in answer["matrices"]] == ["64K", "1M", "16M"]
    one_mib = answer["matrices"][1]
    owc, aw = (one_mib["patterns"].index(name) for name in ("owc", "aw"))
    assert one_mib["loss"][owc][aw] > one_mib["loss"][aw][owc]
    costs = [pair["lost"] for pair in answer["worst_pairs"]]
    assert costs == sorted(costs, reverse=True)
    assert len(costs) <= 10
    assert answer["interference_model"]["source"] == "published"
    assert "alongside owc" in ask()


def test_a_history_without_runs_still_has_the_matrix(tmp_path, monkeypatch):
    monkeypatch.setenv("SLUICE_HISTORY", str(tmp_path / "empty.db"))
    Store(tmp_path / "empty.db", create=True).close()
    assert "None of 0 finished jobs" in ask()


@pytest.mark.usefixtures("history")
def test_who_is_not_known_is_named():
    for number in ("1", "\N{SUPERSCRIPT TWO}", "9" * 30, "-1", ""):
        assert "no log of such a job" in ask(f"job:{number}", "aw:1M:4", code=1)
    assert "app:nobody: no log of such a job" in ask("aw:1M:4", "app:nobody", code=1)
    assert "not a program" in ask("xyz", "aw:1M:4", code=2)
    assert "Name two" in ask("aw:1M:4", code=2)


def test_evidence_is_sorted_by_the_less_like_of_the_two_programs():
    def seen(victim: Program, other: Program) -> Observation:
        return Observation(victim, (other,), 0.5, 1e8)

    owc, aw = Program("owc", MIB), Program("aw", MIB)
    same, near, far = (
        seen(owc, aw),
        seen(owc, Program("aw", 256 * KIB)),
        seen(owc, Program("aw", 4 * KIB)),
    )
    found = nearest([far, near, same, same], owc.profile(), aw.profile())
    assert [one.observation for one in found] == [same, near, far]
    assert found[0].likeness == pytest.approx(1.0)
    assert found[0].likeness > found[1].likeness > found[2].likeness
    assert nearest([], owc.profile(), aw.profile()) == []
