"""Which of a history's measurements the interference model of the site rests on."""

import pytest
from click.testing import CliRunner

from sluice.cli.main import main
from sluice.history_db.records import CoRun
from sluice.history_db.store import Store
from sluice.interference.observations import Observation, of_writers, site_coruns
from sluice.interference.programs import MIB, Program
from sluice.interference.site_model import fit
from sluice.policies import core


def corun(*members: str, **changes) -> CoRun:
    values = {
        "started": 0,
        "mode": "rates",
        "members": members,
        "targets": ("a",) * len(members),
        "alone": (100e6, 100e6),
        "together": (40e6,) * len(members),
        "foreign_share": 0.0,
        "dropped": "",
    }
    return CoRun(**{**values, **changes})


RATES = corun("owc:1M:2", "aw:1M:2")
DROPPED = corun("owc:1M:2", "aw:1M:2", dropped="others had 20 % of the traffic")
READS = corun("read:1M:2", "aw:1M:2")


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("SLUICE_HISTORY", str(tmp_path / "history.db"))
    with Store(tmp_path / "history.db", create=True) as opened:
        yield opened


def calibrate(store: Store, site: str, *coruns: CoRun) -> None:
    number = store.interference.add_calibration(created=1, site=site, settings={})
    for one in coruns:
        store.interference.add_corun(number, one)


@pytest.mark.parametrize("later", [(), (DROPPED,), (READS,)], ids=["stopped", "dropped", "reads"])
def test_what_tells_nothing_of_another_site_does_not_discard_the_site(store, later):
    calibrate(store, "lustre", RATES)
    calibrate(store, "elsewhere", *later)
    (seen,) = of_writers(site_coruns(store))
    assert (str(seen.victim), seen.rho) == ("owc:1M:2", 0.4)


def test_a_speed_up_is_kept_as_it_was_measured(store):
    calibrate(store, "lustre", corun("owc:1M:2", "aw:1M:2", together=(120e6, 40e6)))
    (seen,) = of_writers(site_coruns(store))
    assert seen.rho == 1.2


def test_the_site_is_the_one_measured_last_with_all_its_calibrations(store):
    calibrate(store, "lustre", RATES)
    calibrate(store, "elsewhere", corun("ws:1M:2", "ws:1M:2"))
    assert {str(seen.victim) for seen in of_writers(site_coruns(store))} == {"ws:1M:2"}
    calibrate(store, "lustre", corun("aw:1M:2", "ws:1M:2"))
    assert {str(seen.victim) for seen in of_writers(site_coruns(store))} == {
        "owc:1M:2",
        "aw:1M:2",
    }


def test_a_dropped_run_in_between_does_not_keep_two_calibrations_from_being_compared(store):
    """The report holds rates against the rates before, whatever else was measured there."""
    grid = [corun(f"owc:{64 * n}K:2", "aw:1M:2", together=(n * 5e6, 50e6)) for n in (1, 4, 8, 16)]
    calibrate(store, "lustre", *grid)
    calibrate(store, "lustre", DROPPED)
    calibrate(store, "lustre", *grid)
    done = CliRunner().invoke(main, ["site", "calibrate", "report"])
    assert done.exit_code == 0, done.output
    assert "mean difference" in done.stdout


def test_who_reads_or_touches_metadata_teaches_nothing_of_who_rewrites():
    ws, aw = Program("ws", MIB), Program("aw", MIB)
    known = [Observation(a, (b,), 0.5, 1e8) for a in (ws, aw) for b in (ws, aw)]
    others = [
        Observation(Program("read", MIB), (aw,), 0.9, 5e8),
        Observation(aw, (Program("metadata", MIB),), 0.1, 1e8),
        Observation(Program("owc+read", MIB), (aw,), 0.9, 5e8),
    ]
    model = fit([*known, *others])
    of_reads = {name: model.interference[name] for name in ("read_level", "hot_read_loss")}
    assert model.interference == fit(known).interference | of_reads
    assert (model.bandwidth, model.basis.measurements, model.basis.reads) == (1e8, 5, 1)
    assert fit(others).interference == core.default_interference()
