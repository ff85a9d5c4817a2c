"""What a calibration foretells of programs that it did not measure, on recorded measurements."""

import json
from pathlib import Path
from typing import Any

import pytest
from held_out import coverage, kept, median_error

from sluice.calibrate.observations import observations
from sluice.calibrate.site_model import SiteModel, fit
from sluice.history_db.records import Encounter

pytestmark = pytest.mark.acceptance  # prints the figures that docs/calibration.md has

DATA = Path(__file__).parents[1] / "data" / "throttled"


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def calibration() -> list[Encounter]:
    fixed = {"started": 0, "mode": "rates", "offset": 0.0}
    return [
        Encounter(**{k: tuple(v) if isinstance(v, list) else v for k, v in (fixed | row).items()})
        for row in rows("calibration.jsonl")
    ]


@pytest.fixture(scope="module")
def model() -> SiteModel:
    return fit(observations(calibration()))


def test_a_calibration_foretells_pairs_of_other_programs(model, capsys):
    """Better than the published figures alone, and as well as its intervals say."""
    seen = list(kept(rows("pairs.jsonl")))
    error, published = median_error(model, seen), median_error(fit([]), seen)
    inside = coverage(model, seen)
    with capsys.disabled():
        print(
            f"\n{len(seen)} losses in {len(seen) // 2} pairs: median error of log I {error:.3f}, "
            f"published figures alone {published:.3f}; {inside:.0%} inside "
            "intervals of 90 %"
        )
    assert error < 0.18
    assert error < 0.75 * published
    assert 0.85 <= inside <= 0.95


def test_streams_are_found_to_press_as_one(model):
    """Sharing by weights alone foretells the same pairs less exactly."""
    apart = SiteModel(model.interference | {"pooling": 0.0}, model.bandwidth)
    seen = list(kept(rows("pairs.jsonl")))
    assert model.interference["pooling"] > 0.1
    assert median_error(model, seen) < median_error(apart, seen)
