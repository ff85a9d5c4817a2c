"""What production showed: kept for each time, put together, and learned from."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from history_rows import a_job, a_log, a_profile

from sluice.cli.main import main
from sluice.history_db.records import ObservedInterference
from sluice.history_db.store import Store
from sluice.interference.observations import Observation, Seen
from sluice.interference.pairs import pooled, site_evidence
from sluice.interference.production import time_covered
from sluice.interference.programs import MIB, ProductionProgram, Program
from sluice.interference.site_model import fit
from sluice.interference.timeline import Timeline
from sluice.policies.core import default_interference

NOVEMBER = ObservedInterference("cfd", "md", 100, 0.3, 0.1, 0.001, 40, 80, 1000, 1999)
DECEMBER = replace(NOVEMBER, found=200, rho=0.9, log_sd=0.4, p_value=0.4, since=2000, until=2999)


def application(name: str, pattern: str, chunk: int = MIB, processes: int = 4) -> ProductionProgram:
    members = Program(pattern, chunk, processes).profile()
    return ProductionProgram(name, members)


CFD, MD = application("cfd", "owc"), application("md", "ws")


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "history.db", create=True) as opened:
        yield opened


def one(store: Store):
    (pair,) = pooled(store.interference.observed_interference())
    return pair


def test_a_strong_finding_is_not_erased_by_a_weak_one_of_the_next_month(store):
    store.interference.put_observed_interference([NOVEMBER])
    alone = one(store)
    store.interference.put_observed_interference([DECEMBER])
    both = one(store)
    precision = [0.1**-2, 0.4**-2]
    mean = (precision[0] * math.log(0.3) + precision[1] * math.log(0.9)) / sum(precision)
    assert (alone.rho, alone.log_sd) == pytest.approx((0.3, 0.1))
    assert both.rho == pytest.approx(math.exp(mean))
    assert both.log_sd == pytest.approx(sum(precision) ** -0.5)
    assert both.is_attributed
    assert (both.disturbed, both.undisturbed) == (80, 160)


def test_the_same_logs_count_once_also_when_more_are_read_with_them(store):
    store.interference.put_observed_interference([NOVEMBER])
    store.interference.put_observed_interference([replace(NOVEMBER, found=300)])
    assert store.interference.observed_interference() == [replace(NOVEMBER, found=300)]
    store.interference.put_observed_interference([DECEMBER])
    year = replace(NOVEMBER, rho=0.5, since=0, until=4000)
    store.interference.put_observed_interference([year])
    assert store.interference.observed_interference() == [year]


def test_the_last_thirty_days_asked_every_week_count_once(store):
    for week in range(4):
        span = {"since": 1000 + 700 * week, "until": 4000 + 700 * week, "found": week}
        store.interference.put_observed_interference([replace(NOVEMBER, p_value=0.04, **span)])
    assert [row.found for row in store.interference.observed_interference()] == [3]
    store.interference.put_observed_interference(
        [replace(NOVEMBER, since=5000, until=5500, found=4)]
    )
    assert [row.found for row in store.interference.observed_interference()] == [4]


def test_a_log_of_a_clock_that_is_years_off_does_not_stretch_thetime_covered():
    def run(start: float) -> Timeline:
        return Timeline("a", 1, start, 1.0, np.ones(9))

    day = 86400
    runs = [run(20_000 * day + i * day) for i in range(30)]
    assert time_covered([*runs, run(946_684_800)]) == (20_000 * day, 20_029 * day)
    assert time_covered([]) == (0, 0)


def test_other_pairs_stay_when_one_is_replaced(store):
    other = replace(NOVEMBER, aggressor="climate")
    store.interference.put_observed_interference([NOVEMBER, other])
    store.interference.put_observed_interference([replace(NOVEMBER, rho=0.4)])
    assert {row.rho for row in store.interference.observed_interference()} == {0.3, 0.4}


def test_what_is_called_interference_is_judged_on_all_pairs_together(store):
    """A pair that just passes among few fails among many that show nothing."""
    edge = replace(NOVEMBER, p_value=0.04)
    store.interference.put_observed_interference([edge])
    assert one(store).is_attributed
    nothing = [replace(edge, aggressor=f"a{i}", p_value=0.5, rho=0.99) for i in range(9)]
    store.interference.put_observed_interference(nothing)
    assert not any(
        pair.is_attributed for pair in pooled(store.interference.observed_interference())
    )


def test_a_speed_up_is_kept_as_it_was_seen_and_never_called_interference(store):
    store.interference.put_observed_interference([replace(NOVEMBER, rho=1.3)])
    assert one(store).rho == pytest.approx(1.3)
    assert not one(store).is_attributed


def test_with_nothing_seen_in_production_the_fit_is_the_same_to_the_bit():
    programs = [Program(pattern, MIB) for pattern in ("owc", "ws", "aw")]
    measured = [Observation(a, (b,), 0.4, 1e8) for a in programs for b in programs]
    assert fit(measured).interference == fit(measured, []).interference


STREAMS = [Program("aw", chunk, 4) for chunk in (MIB, 16 * MIB)]
CALIBRATED = [Observation(a, (b,), 0.5, 1e8) for a in STREAMS for b in STREAMS]


@pytest.mark.parametrize("known", [[], CALIBRATED], ids=["published", "calibrated"])
def test_the_model_moves_towards_what_was_seen_by_its_weight(known):
    def kept(*seen: Seen) -> float:
        return fit(known, seen).profile_share(CFD.profile(), [MD.profile()])

    before = kept()
    weak, fair, strong = (kept(Seen(CFD, MD, 0.25, sd)) for sd in (2.0, 0.5, 0.05))
    assert before > weak > fair > strong > 0.25
    assert kept(Seen(CFD, MD, 0.25, 1e3)) == pytest.approx(before, rel=1e-3)
    assert math.log(strong / before) < 0.5 * math.log(0.25 / before)
    faster = kept(Seen(CFD, MD, 1.2, 0.05))
    assert before < faster <= 1.0


def test_without_measurements_the_published_figures_are_corrected():
    """What was seen of nobody's kind of traffic leaves the rest as published."""
    model = fit([], [Seen(CFD, MD, 0.15, 1e6)])
    published = default_interference()
    for name in set(published) - {"log_sd"}:
        assert model.interference[name] == pytest.approx(published[name], abs=1e-6)
    assert str(model.basis) == "published figures and 1 pair of applications seen in production"


def test_the_order_of_what_was_seen_does_not_count():
    seen = [Seen(CFD, MD, 0.3, 0.3), Seen(MD, CFD, 0.8, 0.2), Seen(MD, MD, 0.5, 0.1)]
    assert fit([], seen).interference == fit([], seen[::-1]).interference


def test_an_application_that_reads_teaches_nothing():
    reader = replace(MD, members=MD.members | {"share": {"read": 0.5, "ws": 0.5}})
    assert fit([], [Seen(CFD, reader, 0.1, 0.05)]).interference == default_interference()


@pytest.fixture
def seen_here(store, monkeypatch):
    """A history of two programs that are known, and of what one of them does to the other."""
    rewriting = a_profile(pattern="ws", shares={"ws": 1.0})
    store.runs.add_logs(
        [
            (a_log(1, exe="/apps/cfd -v", jobid=1), a_profile(), b""),
            (a_log(2, exe="/apps/md", jobid=2), rewriting, b""),
        ]
    )
    counts = {"uid": 1000, "write_bytes": 0, "read_bytes": 0}
    store.jobs.upsert_jobs(a_job(job_id=number, **counts) for number in (1, 2))
    store.jobs.link_logs()
    unknown = replace(NOVEMBER, aggressor="(other load)")
    store.interference.put_observed_interference([replace(NOVEMBER, rho=0.1), unknown])
    monkeypatch.setenv("SLUICE_HISTORY", str(store.path))
    return store


def test_of_what_was_seen_the_model_learns_whose_traffic_is_known(seen_here):
    evidence = site_evidence(seen_here)
    assert len(evidence.pairs) == 2
    (seen,) = evidence.production
    assert (seen.victim.name, seen.other.name, seen.rho) == ("cfd", "md", pytest.approx(0.1))
    learned = evidence.model().profile_share(seen.victim.profile(), [seen.other.profile()])
    assert learned < fit([]).profile_share(seen.victim.profile(), [seen.other.profile()])


@pytest.mark.parametrize("counts", [{}, {"write_bytes": 4096, "read_bytes": 0}])
def test_of_logs_that_no_counter_confirms_the_model_learns_nothing(seen_here, counts):
    claims = a_profile(numbers=a_profile().numbers | {"write_bytes": 1e12})
    seen_here.runs.add_logs([(a_log(3, exe="/apps/forged", jobid=3), claims, b"")])
    seen_here.jobs.upsert_jobs([a_job(job_id=3, uid=1000, **counts)])
    assert seen_here.jobs.link_logs() == 1
    before = site_evidence(seen_here).model().interference
    seen_here.interference.put_observed_interference(
        [replace(NOVEMBER, aggressor="forged", rho=0.01)]
    )
    evidence = site_evidence(seen_here)
    assert len(evidence.pairs) == 3, "it is shown"
    assert evidence.model().interference == before


def test_what_the_program_of_a_named_job_did_is_shown_for_the_job(seen_here):
    """Accounting names jobs, production knows the programs that they run."""
    seen_here.jobs.upsert_jobs([a_job(name="night-run", job_id=1, uid=1000)])
    words = ["site", "interference", "app:night-run", "app:md"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "In production, cfd kept 10% alongside md" in done.stdout


@pytest.mark.usefixtures("seen_here")
def test_interference_says_that_it_rests_on_production():
    words = ["site", "interference", "app:cfd", "app:md"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert ": published figures and 1 pair of applications seen in production." in done.stdout
    answer = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)
    basis = {"measurements": 0, "production": 1, "busy_runs": 0, "busy_reads": 0, "reads": 0}
    assert answer["interference_model"]["basis"] == basis
