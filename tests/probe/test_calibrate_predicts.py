"""What a default calibration predicts of programs that it did not plan, all measured here."""

import json
import random
import tempfile
import time

import pytest
from default_calibration import LIMITS, default_calibration
from held_out import coverage, draw, kept, measure_pairs, median_error, noise_floor
from storage_targets import StorageTargets

from sluice.history_db.store import Store
from sluice.interference.calibrate.grid import default_grid
from sluice.interference.calibrate.targets import Target
from sluice.interference.observations import observations
from sluice.interference.site_model import fit

pytestmark = [pytest.mark.acceptance, pytest.mark.storage]

MOST_ERROR = 0.10
COVERAGE = (0.85, 0.95)
"""Goals, printed: whether one session meets them is partly chance (two of seven did not)."""
MOST_OF_PUBLISHED = 0.7
LEAST_INSIDE = 0.75
"""What a session fails by. Over the nine recorded sessions and the calibrations of the plan that
ships (test_predicted_losses.py), the error is 0.38 to 0.61 of that of the published figures, and
84 to 96 % lie inside: means of 0.49 and 0.91 with standard deviations of 0.05 and 0.03. Were they
normal, less than one session in 1000 would fail by chance."""


def verdict(value: float, low: float, high: float) -> str:
    return "met" if low <= value <= high else "MISSED"


def test_a_default_calibration_predicts_programs_that_it_did_not_plan(program, tmp_path, capsys):
    """Held out by configuration: no program of a pair has a chunk of the grid.

    Pairs are drawn anew each time, so that no model can have been chosen for them.

    Prints the figures, also when it fails. Nothing else may run meanwhile: about half an hour.
    """
    seed = random.SystemRandom().randrange(1 << 16)
    pairs = draw(seed)
    planned = {p for e in default_grid() for p in (e.probe, *e.signals)}
    assert len(pairs) >= 150
    assert not {p.chunk_bytes for pair in pairs for p in pair} & {p.chunk_bytes for p in planned}
    rows: list[dict] = []
    with (
        tempfile.TemporaryDirectory(prefix="sluice-storage-") as name,
        StorageTargets(name, limits=LIMITS, kinds=["blkio", "io.max"]) as lab,
        Store(tmp_path / "history.db", create=True) as store,
    ):
        targets = [Target(lane, (lab.path(lane),)) for lane in lab.lanes]
        begin = time.monotonic()
        calibration = default_calibration(store, program, targets)
        seconds = time.monotonic() - begin
        measure_pairs(pairs, targets[0], str(program), rows.append)
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    seen = list(kept(rows))
    model = fit(observations(calibration))
    error, published, floor = (
        median_error(model, seen),
        median_error(fit([]), seen),
        noise_floor(rows),
    )
    inside = coverage(model, seen)
    dropped = sum(bool(e.dropped) for e in calibration)
    with capsys.disabled():
        print(
            f"\n{len(calibration)} co-runs, {dropped} of them dropped, in {seconds:.0f} s; "
            f"{len(seen)} losses in {len(seen) // 2} runs that were not in it (seed {seed}):\n"
            f"median error of log I {error:.3f} (published figures alone {published:.3f}, "
            f"a perfect model {floor:.3f}), goal {MOST_ERROR}: {verdict(error, 0, MOST_ERROR)}\n"
            f"{inside:.0%} inside intervals of 90 %, goal 85-95 %: "
            f"{verdict(inside, *COVERAGE)}\n"
            f"history and pairs are in {tmp_path}"
        )
    assert len(seen) >= 2 * 150
    assert seconds <= 600
    assert floor < error < MOST_OF_PUBLISHED * published
    assert LEAST_INSIDE <= inside < 1
