"""`sluice site calibrate report`: what a calibration in the history found, as it is printed."""

import pytest
from click.testing import CliRunner

from sluice.cli.main import main
from sluice.history_db.records import CoRun
from sluice.history_db.store import Store


def corun(*members: str, kept: tuple[float, ...]) -> CoRun:
    return CoRun(
        started=0,
        mode="rates",
        members=members,
        targets=("a",) * len(members),
        alone=(100e6, 100e6),
        together=tuple(share * 100e6 for share in kept),
        foreign_share=0.0,
        dropped="",
    )


@pytest.fixture
def history(tmp_path, monkeypatch):
    path = tmp_path / "history.db"
    monkeypatch.setenv("SLUICE_HISTORY", str(path))
    with Store(path, create=True) as store:
        yield store


def measured(store: Store, *coruns: CoRun) -> None:
    number = store.interference.add_calibration(created=1, site="here", settings={})
    for one in coruns:
        store.interference.add_corun(number, one)


def report() -> list[list[str]]:
    done = CliRunner().invoke(main, ["site", "calibrate", "report"])
    assert done.exit_code == 0, done.output
    return [line.split() for line in done.stdout.splitlines()]


def test_what_fits_into_no_matrix_is_listed(history):
    measured(
        history,
        corun("owc:4K:8", "aw:16M:2:close", kept=(0.2, 0.9)),
        corun("owc:1M:2", "ws:1M:2", "aw:1M:2", kept=(0.1, 0.1, 0.7)),
        corun("ws:1M:2", "aw:1M:2", kept=(0.3, 0.7)),
    )
    lines = report()
    assert ["owc:4K:8", "aw:16M:2:close", "80%", "1"] in lines
    assert ["owc:1M:2", "aw:1M:2", "and", "ws:1M:2", "90%", "1"] in lines
    assert ["ws", "–", "70%"] in lines  # of the matrix
    assert ["ws:1M:2", "aw:1M:2", "70%", "1"] not in lines


def test_plain_programs_of_one_size_are_in_the_matrix_alone(history):
    measured(history, corun("owc:1M:2", "aw:1M:2", kept=(0.2, 0.9)))
    assert not any("Unequal" in line for line in report())
