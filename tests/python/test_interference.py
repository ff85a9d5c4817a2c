"""`sluice interference`: for programs, jobs and applications, and for a whole site."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sluice.calibrate.evidence import nearest
from sluice.calibrate.observations import Observation
from sluice.calibrate.programs import KIB, MIB, Program
from sluice.cli.main import main
from sluice.history_db.records import Encounter, ObservedInterference
from sluice.history_db.store import Store

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def ingested(tmp_path_factory):
    """Real logs with their accounting."""
    path = tmp_path_factory.mktemp("ingested") / "history.db"
    words = [DATA / "darshan", "--sacct", DATA / "darshan" / "sacct-parsable2.txt"]
    done = CliRunner().invoke(main, ["ingest", "--history", str(path), *map(str, words)])
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
    done = CliRunner().invoke(main, ["interference", *words])
    assert done.exit_code == code, done.output
    return done.output if code else done.stdout


def named_jobs(path: Path) -> list[tuple[int, str]]:
    with Store(path, read_only=True) as store:
        return [
            (run.job.job_id, run.job.name)
            for run in store.runs()
            if run.job and run.job.name and run.profile.numbers.get("chunk_bytes", 0) > 0
        ]


def encounter(probe: str, signal: str, kept: float) -> Encounter:
    return Encounter(
        started=0,
        mode="rates",
        members=(probe, signal),
        targets=("a", "a"),
        offset=0.0,
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
    assert "From published figures alone." in ask(f"app:{name}", "aw:1M:4")


def test_what_production_showed_of_two_applications_is_named(history):
    number, name = named_jobs(history)[0]
    seen = ObservedInterference(name, name, 0, 0.4, 0.1, 0.001, 12, 40, is_attributed=True)
    with Store(history) as store:
        store.put_observed_interference([seen])
    text = ask(f"job:{number}", f"app:{name}")
    assert f"In production, {name} kept 40% beside {name} (12 slices; attributed)" in text


def test_the_measurements_most_like_the_pair_are_named(history):
    with Store(history) as store:
        calibration = store.add_calibration(created=1, site="here", settings={})
        store.add_encounter(calibration, encounter("owc:1M:2", "aw:1M:2", 0.1))
        store.add_encounter(calibration, encounter("owc:64K:2", "aw:16M:2", 0.3))
    answer = json.loads(ask("owc:1M:4", "aw:1M:4", "--json"))
    first = answer["losses"][0]["measured"][0]
    assert (first["victim"], first["beside"]) == ("owc:1M:2", "aw:1M:2")
    assert first["loss"] == pytest.approx(0.9)
    assert 0.5 < first["likeness"] < 1


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
    assert "beside owc" in ask()


def test_a_history_without_runs_still_has_the_matrix(tmp_path, monkeypatch):
    monkeypatch.setenv("SLUICE_HISTORY", str(tmp_path / "empty.db"))
    Store(tmp_path / "empty.db", create=True).close()
    assert "None of 0 finished jobs" in ask()


@pytest.mark.usefixtures("history")
def test_who_is_not_known_is_named():
    assert "no log of such a job" in ask("job:1", "aw:1M:4", code=1)
    assert "app:nobody: no log of such a job" in ask("aw:1M:4", "app:nobody", code=1)
    assert "not a program" in ask("xyz", "aw:1M:4", code=1)
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
