"""What an owner could change about a job's I/O, by logs of real programs."""

from pathlib import Path

import pytest

from sluice.patterns.advice import advice
from sluice.patterns.profile import read_profile

LOGS = Path(__file__).parents[1] / "data/programs"


def kinds(name: str) -> set[str]:
    reading = read_profile(LOGS / f"{name}.darshan")
    return {one.kind for one in advice(reading.profile, reading.features)}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sqlite", {"heavy", "small", "random", "flushes", "rewritten"}),
        ("r9_mpi_one", {"heavy", "small", "independent"}),
        ("untar6", {"heavy", "metadata", "small"}),
        ("r8_scrub", {"heavy", "rewritten"}),
        ("r9_aria2", {"heavy", "small"}),
    ],
)
def test_real_programs_are_told_what_they_do(name: str, said: set[str]) -> None:
    assert kinds(name) == said


def test_large_writes_in_order_are_not_called_small() -> None:
    assert "small" not in kinds("dd_1M")


def test_nobody_is_advised_on_io_that_hardly_takes_time() -> None:
    reading = read_profile(LOGS / "sqlite.darshan")
    reading.profile.numbers["io_share"] = 0.019
    assert advice(reading.profile, reading.features) == []
    del reading.profile.numbers["io_share"]  # unknown: better to say it
    assert {one.kind for one in advice(reading.profile, reading.features)} == {
        "small",
        "random",
        "flushes",
        "rewritten",
    }


def test_many_small_files_are_remarked_on_from_a_thousand_on() -> None:
    reading = read_profile(LOGS / "untar6.darshan")
    reading.profile.numbers.update(files=999.0, write_bytes=999e3)
    assert "files" not in {one.kind for one in advice(reading.profile, reading.features)}
    reading.profile.numbers.update(files=1000.0, write_bytes=1000e3)
    (said,) = [one for one in advice(reading.profile, reading.features) if one.kind == "files"]
    assert said.finding == "writes 1000 files of 1,000 bytes on average"


def test_remarks_on_other_logs_read_as_sentences() -> None:
    for path in sorted(LOGS.glob("*.darshan"))[::10]:
        reading = read_profile(path)
        for one in advice(reading.profile, reading.features):
            assert one.finding[0].islower(), (path, one)
            assert "nan" not in one.finding, (path, one)
            assert one.remedy.endswith("."), (path, one)
