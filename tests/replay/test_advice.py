"""Which MaxDelay a sweep advises: one that saves more than its waits cost, and fairly."""

import pytest

from sluice.cli.site.sweep import advice_text
from sluice.sim.replay.sweep import advice


def case(max_delay, *, saved, held=0.0, held_mean=60.0, interval=None, **others):
    """Return a case of a sweep's document, of one policy."""

    def figure(value, above=0.0, low_high=None):
        found = low_high and {"low": low_high[0], "high": low_high[1], "coverage": 0.9}
        return {"value": value, "above_none": above, "above_none_interval": found}

    return {
        "parameters": {"max_delay": max_delay, **others},
        "policies": {
            "none": {"wait_mean_s": figure(600.0)},
            "sluice-auto": {
                "lost_slot_hours": figure(100.0 - saved, -saved, interval),
                "held_slot_hours": figure(held),
                "held_mean_s": figure(held_mean),
            },
        },
    }


def document(*cases, options=None):
    names = cases[0]["parameters"]
    return {
        "grid": {name: sorted({one["parameters"][name] for one in cases}) for name in names},
        "policies": ["sluice-auto", "class-lanes"],
        "experiment": {"options": options or {}},
        "cases": list(cases),
    }


def best(*cases, **options):
    (one,) = advice(document(*cases, **options))
    return one.best.max_delay if one.best else None


def test_the_one_that_gains_most_after_its_waits_is_advised():
    """At WaitPrice 0.2, 50 slot-hours delayed cost 10."""
    assert best(case("60", saved=5), case("900", saved=14, held=50)) == "60"
    assert best(case("60", saved=5), case("900", saved=16, held=50)) == "900"


def test_the_price_of_waiting_is_that_of_the_sweep():
    cases = case("60", saved=5), case("900", saved=14, held=50)
    assert best(*cases, options={"wait_price": "0.1"}) == "900"


def test_none_is_advised_that_loses_in_some_draws():
    assert best(case("60", saved=0), case("900", saved=9, interval=(-20.0, 1.0))) is None
    assert best(case("60", saved=0), case("900", saved=9, interval=(-20.0, -1.0))) == "900"


def test_none_is_advised_that_few_pay_for():
    """Who is delayed must not wait, on average, twice as long as jobs do anyhow."""
    cases = case("60", saved=1), case("9000", saved=90, held_mean=601.0)
    assert best(*cases) == "60"
    (one,) = advice(document(case("60", saved=-1), cases[1]))
    assert one.best is None
    assert "pays fairly" in advice_text(one)


def test_where_waits_cost_too_much_the_price_is_told_at_which_they_would_not():
    (one,) = advice(document(case("60", saved=1, held=50), case("900", saved=5, held=50)))
    assert one.best is None
    assert one.nearest.max_delay == "900"
    assert "Nearest is 900, which would at 0.1:" in advice_text(one)


@pytest.mark.parametrize(
    ("saved", "says"),
    [
        (9, "sluice-auto at load=0.7: MaxDelay=900 pays: 9"),
        (-1, "none loses less in nearly every draw"),
    ],
)
def test_each_value_of_what_else_varies_has_its_own_advice(saved, says):
    found = list(
        advice(
            document(
                case("60", saved=0, load="0.7"),
                case("60", saved=0, load="0.9"),
                case("900", saved=saved, load="0.7"),
                case("900", saved=1, load="0.9"),
            )
        )
    )
    assert [one.parameters for one in found] == [{"load": "0.7"}, {"load": "0.9"}]
    assert says in advice_text(found[0])


def test_there_is_none_where_max_delay_does_not_vary():
    assert not list(advice(document(case("60", saved=5))))
