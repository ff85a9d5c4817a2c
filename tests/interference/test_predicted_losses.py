"""What a calibration predicts of programs that it did not measure, on recorded measurements."""

import itertools
import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

import pytest
from held_out import coverage, kept, median_error, noise_floor
from recorded import CALIBRATIONS, SESSIONS, coruns, rows

from sluice.interference.calibrate.analysis import agreement, stability
from sluice.interference.observations import Observation, observations
from sluice.interference.programs import Program
from sluice.interference.site_model import SiteModel, fit

pytestmark = pytest.mark.acceptance  # prints the figures that docs/evidence/sessions.md has


def seen_by(calibration: str) -> list[Observation]:
    return observations(coruns(calibration))


def is_stream(program: Program) -> bool:
    return program.profile()["unflushed_bytes"] > 0


@pytest.fixture(scope="module")
def models() -> dict[str, SiteModel]:
    return {name: fit(seen_by(name)) for name in CALIBRATIONS}


@dataclass
class Judged:
    """What one calibration predicts of the losses of one session."""

    error: float
    without_rates: float
    inside: float
    off: list[float]
    hits: int


@pytest.fixture(scope="module")
def judged(models) -> dict[str, dict[str, Judged]]:
    """By calibration and session."""
    seen = {name: list(kept(rows(name))) for name in SESSIONS}
    return {
        calibration: {name: judge(model, seen[name]) for name in SESSIONS}
        for calibration, model in models.items()
    }


def judge(model: SiteModel, seen: list[Observation]) -> Judged:
    hits = model.hits(seen, with_rates=True)
    return Judged(
        error=median_error(model, seen),
        without_rates=median_error(model, seen, with_rates=False),
        inside=hits / len(seen),
        off=[off(model.predict(item), item) for item in seen],
        hits=hits,
    )


@pytest.mark.parametrize("name", SESSIONS)
def test_each_session_is_predicted_better_than_by_the_published_figures(
    name, models, judged, capsys
):
    """By each calibration: with at most two thirds of their error where rates alone are known."""
    measured = rows(name)
    seen = list(kept(measured))
    published, floor = median_error(fit([]), seen), noise_floor(measured)
    streams = [o for o in seen if all(map(is_stream, (o.victim, *o.others)))]
    with capsys.disabled():
        print(
            f"\n{len(seen)} losses of {name}: median error of log I of a perfect model "
            f"{floor:.3f}, of published figures alone {published:.3f}"
        )
        for calibration, model in models.items():
            found = judged[calibration][name]
            print(
                f"  of {calibration} {found.error:.3f}; {found.inside:.0%} inside intervals of "
                f"90 %; of streams alongside streams {median_error(model, streams):.3f}; "
                f"without rates alone {found.without_rates:.3f}, "
                f"{coverage(model, seen, with_rates=False):.0%} inside"
            )
    for calibration in CALIBRATIONS:
        found = judged[calibration][name]
        assert floor < found.error
        assert found.error < 2 / 3 * published
        assert found.without_rates < published


MOST_ERROR, LEAST_INSIDE = 0.13, 0.85


def pooled(sessions: Iterable[Judged]) -> tuple[float, float]:
    """Return the median error and the share inside intervals, over all losses together."""
    every = [one for session in sessions for one in session.off]
    return median(every), sum(session.hits for session in sessions) / len(every)


@pytest.mark.parametrize("calibration", CALIBRATIONS)
def test_over_all_sessions_errors_are_small_and_intervals_hold(calibration, judged, capsys):
    """What is claimed of a calibration, over the losses of nine sessions together.

    How often chance alone would fail it: sessions differ by more than their losses do, so
    sessions are drawn anew, with replacement.
    """
    sessions = list(judged[calibration].values())
    error, inside = pooled(sessions)
    rng = random.Random(1)
    drawn = [pooled(rng.choices(sessions, k=len(sessions))) for _ in range(1000)]
    failed = sum(one >= MOST_ERROR or share < LEAST_INSIDE for one, share in drawn)
    with capsys.disabled():
        print(
            f"\n{calibration}, all sessions: {error:.3f}, {inside:.0%} inside; of "
            f"{len(drawn)} draws of nine sessions {failed} fail"
        )
    assert error < MOST_ERROR
    assert LEAST_INSIDE <= inside < 1
    assert failed <= 0.05 * len(drawn)


HARMLESS, LOSS = 1.05, 1 / 3
"""A slowdown that decisions neglect, and a loss that they must not."""


@pytest.mark.parametrize("calibration", CALIBRATIONS)
def test_no_loss_of_a_third_is_called_harmless(calibration, models):
    found = [o for name in SESSIONS for o in kept(rows(name)) if o.rho <= 1 - LOSS]
    called_harmless = [o for o in found if 1 / models[calibration].predict(o) <= HARMLESS]
    assert len(found) > 1000
    assert not called_harmless


@pytest.mark.xfail(
    strict=True,
    reason="intervals do not know how noisy a session is: single measurements of the eighth "
    "were twice as noisy, and 84 % of its losses lie inside by one of the calibrations",
)
def test_each_session_by_itself_lies_inside_its_intervals(judged):
    found = {(c, name): one.inside for c, by in judged.items() for name, one in by.items()}
    assert min(found.values()) >= LEAST_INSIDE


DEFAULT = CALIBRATIONS[2:]
"""Of the plan that ships, each on targets of its own."""


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(DEFAULT, 2)))
def test_any_two_default_calibrations_agree(first, second, capsys):
    found = agreement(coruns(first), coruns(second))
    bound = stability(coruns(first)).bound
    with capsys.disabled():
        print(
            f"\n{first} and {second}: {found.cells} cells, rank correlation "
            f"{found.rank_correlation:.3f}, mean difference {found.mean_difference:.3f} "
            f"(bound {bound:.3f})"
        )
    assert found.rank_correlation >= 0.9
    assert found.mean_difference <= bound


def test_measuring_the_same_again_is_hardly_more_exact(models, capsys):
    """What two calibrations differ by is noise, and no model can say it."""
    first, again = (
        {(o.victim, o.others): o.rho for o in seen_by(calibration)}
        for calibration in CALIBRATIONS[:2]
    )
    both = sorted(first.keys() & again.keys())
    apart = median(abs(math.log(first[key] / again[key])) for key in both)
    of_others = median_error(models["calibration-again"], list(kept(rows("pairs"))))
    with capsys.disabled():
        print(f"\n{len(both)} losses measured by two calibrations differ by {apart:.3f}")
    assert len(both) >= 50
    assert apart > 0.5 * of_others


def test_rates_alone_make_it_more_exact(models):
    """Of two programs of one kind the faster one waits less, and keeps more."""
    seen = list(kept(rows("pairs")))
    for model in models.values():
        assert median_error(model, seen) < median_error(model, seen, with_rates=False)


def off(predicted: float, item: Observation) -> float:
    return abs(math.log(predicted / item.rho))


def test_measured_triples_are_predicted_from_pairs_alone(capsys):
    """OWC, WS and AW at 1 MiB, the one triple that was recorded, in four sessions."""
    found, as_product, as_worst, inside = [], [], [], 0
    for name in DEFAULT:
        seen = seen_by(name)
        model = fit([o for o in seen if len(o.others) == 1])
        triples = [o for o in seen if len(o.others) == 2]
        inside += model.hits(triples, with_rates=True)
        for item in triples:
            alongside_each = [model.share_kept(item.victim, [other]) for other in item.others]
            found.append(off(model.predict(item), item))
            as_product.append(off(math.prod(alongside_each), item))
            as_worst.append(off(min(alongside_each), item))
    with capsys.disabled():
        print(
            f"\n{len(found)} losses of three together, predicted from pairs: median error of "
            f"log I {median(found):.3f}, largest {max(found):.3f}, {inside} inside intervals of "
            f"90 %; as the product of pairs {median(as_product):.3f}, as the worst pair alone "
            f"{median(as_worst):.3f}"
        )
    assert len(found) == 12
    assert median(found) < 0.13
    assert median(found) < 0.6 * median(as_product)
    assert inside >= 0.85 * len(found)
