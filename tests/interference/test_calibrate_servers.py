"""What calibration says of servers whose capacity, switching cost and law are known."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mean_field import MeanField

from sluice.history_db.records import CoRun
from sluice.interference.calibrate import servers
from sluice.interference.calibrate.analysis import (
    make_report,
    servers_remarks,
    servers_rows,
    to_json,
)
from sluice.interference.calibrate.protocol import Timing
from sluice.interference.calibrate.servers import FAIR, FIRST_COME, UNDECIDED, Station, stations
from sluice.interference.calibrate.session import Settings, rounds_within
from sluice.interference.programs import Program
from sluice.sim._engine import ffi
from sluice.sim.storage.mean_field import LOAD, rates_alone

CAPACITY = 100e6
DRAWS = 30
LEAST_COVERAGE = 0.85
"""Of intervals of 95 % in DRAWS draws."""
LEAST_KNOWN = 0.85

NOISE = 0.03

Rates = Callable[[Sequence[Program]], list[float]]


def by_demand(capacity: float, asked: list[float]) -> list[float]:
    """First come, first served."""
    return [capacity * rate / sum(asked) for rate in asked]


def evenly(capacity: float, asked: list[float]) -> list[float]:
    """Fair: who asks for less than an equal share leaves the rest to the others."""
    given_to = [0.0] * len(asked)
    for after, i in enumerate(sorted(range(len(asked)), key=asked.__getitem__)):
        given_to[i] = min(asked[i], (capacity - sum(given_to)) / (len(asked) - after))
    return given_to


LAWS = {FIRST_COME: by_demand, FAIR: evenly}


def made(verdict: str, *, share: float, cost: float) -> Rates:
    """Servers of which a stream takes a share, and that lose time between programs."""

    def rates(programs: Sequence[Program]) -> list[float]:
        asked = [share * CAPACITY * program.processes for program in programs]
        capacity = CAPACITY / (1 + cost * (1 - 1 / len(programs)))
        return asked if sum(asked) <= capacity else LAWS[verdict](capacity, asked)

    return rates


def measured(
    rates: Rates, *, noise: float = 0.0, seed: int = 1, rounds: int = 3, tasks: int = 1
) -> list[CoRun]:
    """What the rounds would keep; the noise is of a run, and of each program in it."""
    rng = random.Random(seed)
    found = []
    for run in [run for _ in range(rounds) for run in servers.runs_of_a_round(tasks)]:
        together = math.exp(rng.gauss(0, noise))
        found.append(
            CoRun(
                started=0,
                mode=servers.MODE,
                members=tuple(map(str, run)),
                targets=("a",) * len(run),
                alone=(),
                together=tuple(
                    rate * together * math.exp(rng.gauss(0, noise)) for rate in rates(run)
                ),
                foreign_share=0.0,
                dropped="",
            )
        )
    return found


def of_bytes(coruns: Sequence[CoRun]) -> Station:
    (found,) = stations([e for e in coruns if e.members[0].startswith("aw:1M:")])
    return found


def holds(estimate: servers.Estimate, truth: float) -> bool:
    return estimate.low - 1e-6 <= truth <= estimate.high + 1e-6


def drawn(verdict: str, *, share: float, cost: float, noise: float, draws: int) -> list[Station]:
    rates = made(verdict, share=share, cost=cost)
    return [of_bytes(measured(rates, noise=noise, seed=seed)) for seed in range(draws)]


def coverage(found: Sequence[Station], *, share: float, cost: float) -> dict[str, float]:
    """Which share of the intervals contain the truth, by what they are of."""
    truths = {
        "capacity": CAPACITY,
        "switch_cost": cost,
        "stream_share": share,
        "node_share": min(1.0, 4 * share),
    }
    return {
        name: fmean(holds(getattr(station, name), truth) for station in found)
        for name, truth in truths.items()
    }


@pytest.mark.parametrize("verdict", LAWS)
@pytest.mark.parametrize("share", [1.0, 0.3, 0.15])
@pytest.mark.parametrize("cost", [0.0, 0.5])
def test_the_truth_lies_in_the_intervals_and_no_verdict_is_wrong(verdict, share, cost):
    """Now and then noise looks like growth, and nothing is said of the capacity."""
    draws = drawn(verdict, share=share, cost=cost, noise=NOISE, draws=DRAWS)
    known = [station for station in draws if station.capacity]
    assert len(known) >= LEAST_KNOWN * DRAWS
    assert min(coverage(known, share=share, cost=cost).values()) >= LEAST_COVERAGE
    verdicts = Counter(station.sharing.verdict for station in draws)
    assert set(verdicts) <= {verdict, UNDECIDED}
    if share >= 0.3:  # else one stream and 8 hardly fill it
        assert verdicts[verdict] >= LEAST_KNOWN * DRAWS


@pytest.mark.acceptance
@pytest.mark.parametrize("noise", [0.01, 0.05])
@pytest.mark.parametrize("share", [1.0, 0.25, 0.15, 0.1])
def test_intervals_hold_what_they_say_over_many_draws(share, noise, capsys):
    """Of 100 draws for each of six kinds of servers; the table of docs/evidence/sessions.md."""
    inside, verdicts, count = Counter(), Counter(), 0
    for verdict, cost in itertools.product(LAWS, [0.0, 0.1, 1.0]):
        draws = drawn(verdict, share=share, cost=cost, noise=noise, draws=100)
        known = [station for station in draws if station.capacity]
        for name, part in coverage(known, share=share, cost=cost).items():
            inside[name] += part * len(known)
        count += len(known)
        verdicts["right"] += sum(station.sharing.verdict == verdict for station in draws)
        verdicts["undecided"] += sum(station.sharing.verdict == UNDECIDED for station in draws)
    with capsys.disabled():
        texts = [f"{name} {number / count:.0%}" for name, number in inside.items()]
        print(f"\n{share:.0%} a stream, noise {noise:.0%}: {count} of 600 known,", *texts, verdicts)
    assert verdicts.total() == 600
    if share >= 0.25:
        assert min(inside.values()) >= 0.9 * count
        assert verdicts["right"] >= 0.95 * verdicts.total()


@pytest.mark.parametrize("verdict", LAWS)
def test_estimates_are_exact_without_noise(verdict):
    found = of_bytes(measured(made(verdict, share=0.3, cost=0.5)))
    assert found.capacity.value == pytest.approx(CAPACITY)
    assert found.switch_cost.value == pytest.approx(0.5)
    assert found.stream_share.value == pytest.approx(0.3)
    assert found.node_share.value == 1.0
    assert found.fills_at == 4
    assert found.sharing.by_demand.value == pytest.approx(float(verdict == FIRST_COME))


def test_several_nodes_may_be_needed_to_fill_a_target():
    found = of_bytes(measured(made(FIRST_COME, share=0.1, cost=0.2)))
    assert found.node_share.value == pytest.approx(0.4)
    assert found.capacity.value == pytest.approx(CAPACITY)
    assert found.switch_cost.value == pytest.approx(0.2)
    assert found.fills_at == 16


def test_the_link_of_a_node_is_not_taken_for_the_target():
    """One program takes half of the target, however many streams it has."""

    def rates(programs):
        asked = [min(0.5, 0.4 * program.processes) * CAPACITY for program in programs]
        return asked if sum(asked) <= CAPACITY else by_demand(CAPACITY, asked)

    found = of_bytes(measured(rates))
    assert found.capacity.value == pytest.approx(CAPACITY)
    assert found.node_share.value == pytest.approx(0.5)
    assert found.fills_at == 8


def test_what_nobody_fills_is_not_said_to_be_full():
    found = of_bytes(measured(made(FIRST_COME, share=0.001, cost=0.0), noise=0.02))
    assert (found.capacity, found.fills_at, found.node_share) == (None, None, None)
    assert found.sharing.verdict == UNDECIDED
    assert found.most == pytest.approx(0.032 * CAPACITY, rel=0.1)


def test_no_interval_comes_from_one_round():
    found = of_bytes(measured(made(FIRST_COME, share=1.0, cost=0.0), rounds=1))
    assert found.capacity is None
    assert found.sharing.verdict == UNDECIDED
    assert "--rounds" in found.sharing.why


def test_noise_that_hides_a_doubling_leaves_all_unknown():
    found = of_bytes(measured(made(FIRST_COME, share=1.0, cost=0.0), noise=0.6, seed=3))
    assert found.capacity is None


def test_runs_that_were_dropped_do_not_count():
    good = measured(made(FAIR, share=0.3, cost=0.0), noise=0.01)
    bad = [
        replace(e, together=tuple(9 * rate for rate in e.together), dropped="others wrote")
        for e in good
    ]
    with_bad, without = of_bytes([*good, *bad]), of_bytes(good)
    assert with_bad.dropped == with_bad.runs == without.runs == 24
    assert replace(with_bad, dropped=0) == without


def test_a_node_is_a_task_where_a_calibration_has_several():
    found = of_bytes(measured(made(FIRST_COME, share=0.1, cost=0.0), tasks=4))
    assert found.node_share.value == pytest.approx(0.25)
    assert found.stream_share.value == pytest.approx(0.4)  # of one stream in each task
    assert found.sharing.verdict == FIRST_COME


def test_operations_are_counted_and_not_their_bytes():
    _, found = stations(measured(made(FIRST_COME, share=1.0, cost=0.0)))
    assert found.station == "operations"
    assert found.capacity.value == pytest.approx(CAPACITY / 4096)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_whatever_was_measured_an_estimate_lies_in_its_interval(data):
    rate = st.floats(1e-3, 1e12)
    some = [
        replace(e, together=tuple(data.draw(rate) for _ in e.members))
        for e in measured(made(FAIR, share=1.0, cost=0.0), rounds=2)
        if data.draw(st.booleans())
    ]
    for found in stations(some):
        shares = (found.stream_share, found.node_share, found.sharing.by_demand)
        for estimate in (found.capacity, found.switch_cost, *shares):
            assert estimate is None or 0 <= estimate.low <= estimate.value <= estimate.high
        assert all(estimate is None or estimate.high <= 1 for estimate in shares)


# Servers of the storage models, which know nothing of these estimates


@pytest.mark.parametrize("cost", [0.0, 0.3])
@pytest.mark.parametrize(("sharing", "verdict"), [("fifo", FIRST_COME), ("jobs", FAIR)])
def test_the_law_and_the_switching_cost_of_the_mean_field_model_are_found(sharing, verdict, cost):
    found = of_bytes(measured(mean_field(sharing, cost), noise=0.01))
    assert holds(found.switch_cost, cost)
    assert found.sharing.verdict == verdict


def mean_field(sharing: str, cost: float) -> Rates:
    numbers = {"switch_cost": cost}

    def rates(programs: Sequence[Program]) -> list[float]:
        mean_field = MeanField(numbers, lanes=((1, 1.0),), sharing=sharing)
        loads = [
            mean_field.load_of(
                program.profile(), nodes=program.processes, runtime=1e9, max_bursts=1
            )
            for program in programs
        ]
        slots = [mean_field.start(0.0, load) for load in loads]
        rows = np.concatenate([np.frombuffer(ffi.buffer(load), LOAD) for load in loads])
        shares = [mean_field.rate(slot) for slot in slots]
        return list(np.array(shares) * rates_alone(rows, mean_field.config))

    return rates


# As it is shown


def test_the_report_shows_each_station_and_says_why_something_is_not_known():
    good = measured(made(FIRST_COME, share=1.0, cost=0.25), noise=0.001)
    poor = measured(made(FAIR, share=0.01, cost=0.0), noise=0.001)
    here = [*good, *(replace(e, targets=("b",) * len(e.members)) for e in poor)]
    report = make_report("here", here)
    row, _, unfilled, _ = servers_rows(report.servers)
    assert row[:4] == ("bytes of a", "100 MB/s (99.9 to 100)", "1 stream", "100% (100 to 100)")
    assert row[5:] == ("25% (25 to 25)", "first come: 1.00 (1.00 to 1.00)")
    assert unfilled[1:3] == ("at least 32 MB/s", "–")
    remarks = servers_remarks(report.servers)
    assert any("bytes of b: the programs do not fill it" in remark for remark in remarks)
    assert any("bytes of b: first come or fair is undecided" in remark for remark in remarks)
    assert not any("of a" in remark for remark in remarks)


def test_programs_read_every_figure_with_its_interval():
    coruns = measured(made(FIRST_COME, share=0.3, cost=0.0), noise=0.01)
    found = to_json(make_report("here", coruns))["servers"][0]
    assert (found["target"], found["station"]) == ("a", "bytes")
    for name in ("capacity", "stream_share", "node_share", "switch_cost"):
        assert found[name].keys() == {"value", "low", "high"}
    assert found["sharing"]["verdict"] == FIRST_COME
    assert found["sharing"]["by_demand"]["value"] > 0.9


# Rounds of a calibration


def test_what_an_interruption_left_of_the_rounds_is_measured():
    rounds = servers.runs_to_do(2, tasks=1, seed=1, measured=())
    runs = [tuple(map(str, run)) for run in rounds]
    kept = {e.members: e for e in measured(made(FAIR, share=1.0, cost=0.0))}
    for count in (0, 1, 15, 16, 20, 32):
        before = [kept[members] for members in runs[:count]]
        left = servers.runs_to_do(2, tasks=1, seed=1, measured=before)
        assert [tuple(map(str, run)) for run in left] == runs[count:]


@pytest.mark.parametrize(("budget", "rounds"), [(30, 0), (180, 1), (690, 3), (9000, 3)])
def test_rounds_leave_the_co_runs_two_thirds_of_the_budget(budget, rounds):
    settings = Settings((), (), Timing(), budget=float(budget), rounds=3)
    assert rounds_within(settings) == rounds


def test_settings_of_an_older_calibration_have_no_rounds():
    kept = Settings((), (), Timing(), budget=1.0, rounds=3).to_json()
    assert Settings.from_json(kept).rounds == 3
    del kept["rounds"]
    assert Settings.from_json(kept).rounds == 0
