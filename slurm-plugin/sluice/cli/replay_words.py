"""What a comparison of policies says, in words and cells, for the terminal and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.cli.common import NOTHING, amount_text, duration_text, times_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.sim.replay.bound import Bound
    from sluice.sim.replay.compare import Comparison
    from sluice.sim.replay.experiment import Experiment
    from sluice.sim.replay.intervals import Interval
    from sluice.sim.trace.repairs import Replayable


HARDLY = 0.01
"""Of the jobs with I/O: so few are hardly anybody."""


def value_text(value: float | None, unit: str) -> str:
    """Write a figure by the unit that its Meaning has."""
    if value is None:
        return NOTHING
    sign, size = ("-" if value < 0 else ""), abs(value)
    if unit == "seconds":
        return sign + duration_text(size)
    if unit == "share":
        return f"{value:.1%}"
    if unit == "times":
        return times_text(value)
    return sign + (f"{size:.0f}" if unit == "jobs" else amount_text(size))


def with_interval(value: float | None, found: Interval | None, unit: str) -> str:
    """Write a figure and where it lies in other draws, unless it is the same in all."""
    text = value_text(value, unit)
    if found is None or found.low == found.high:
        return text
    return f"{text} ({value_text(found.low, unit)} to {value_text(found.high, unit)})"


def figure_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return a row a figure: its title and a cell a policy. What no policy has is left out."""
    from sluice.sim.replay.figures import FIGURES

    rows = []
    for name, meaning in FIGURES.items():
        values = [comparison.figures[policy][0][name] for policy in comparison.policies]
        if any(value is not None for value in values):
            cells = (
                with_interval(value, comparison.interval(policy, name), meaning.unit)
                for policy, value in zip(comparison.policies, values, strict=True)
            )
            rows.append((meaning.title, *cells))
    return rows


def verdict(comparison: Comparison) -> list[str]:
    """Return what there was to gain and what each policy made of it, a sentence each."""
    from sluice.sim.replay.compare import PLAIN

    bound = comparison.bounds[0]
    said = [_lost_text(bound), _bound_text(bound)]
    said += [_policy_text(comparison, name) for name in comparison.policies if name != PLAIN]
    if comparison.repetitions:
        said.append(interval_text(comparison))
    return said


def _lost_text(bound: Bound) -> str:
    share = bound.lost / bound.ran if bound.ran else 0.0
    return (
        f"Without a policy, {amount_text(bound.lost / 3600)} slot-hours are lost to interference: "
        f"{share:.2%} of those that jobs took."
    )


def _bound_text(bound: Bound) -> str:
    limit = (
        "however long jobs wait"
        if bound.max_delay == float("inf")
        else f"if no job starts more than {duration_text(bound.max_delay)} later"
    )
    if not bound.is_anything_to_gain:
        return (
            "Nothing remains to be gained: perfect knowledge could recover "
            f"{amount_text(bound.gain / 3600)} slot-hours at most, {limit}."
        )
    forced = (
        f"; the {bound.station} cannot do all I/O in time, which costs "
        f"{amount_text(bound.forced / 3600)} whatever the policy"
        if bound.forced
        else ""
    )
    return (
        f"Perfect knowledge could recover {amount_text(bound.gain / 3600)} of them at most, "
        f"{limit}{forced}."
    )


def _policy_text(comparison: Comparison, policy: str) -> str:
    figures = comparison.figures[policy][0]
    less = -(comparison.difference(policy, "lost_slot_hours") or 0.0)
    found = comparison.difference_interval(policy, "lost_slot_hours")
    share = figures["share_of_bound"]
    of_bound = f", {share:.1%} of the bound" if share is not None else ""
    if not less:
        said = "recovers nothing"
    elif less > 0:
        said = f"recovers {amount_text(less)} slot-hours{of_bound}"
    else:
        said = f"loses {amount_text(-less)} slot-hours more"
    if found is not None:
        low, high = (value_text(-end, "hours") for end in (found.high, found.low))
        said += f" (recovered in other draws: {low} to {high})"
    return (
        f"{policy} {said}; mean wait "
        f"{_change(comparison, policy, 'wait_mean_s')}, p99 "
        f"{_change(comparison, policy, 'wait_p99_s')}, makespan "
        f"{_change(comparison, policy, 'makespan_s')}."
        f"{_hardly_anybody_text(comparison, policy)}"
    )


def _hardly_anybody_text(comparison: Comparison, policy: str) -> str:
    """Say so where MaxDelay leaves Sluice hardly any job to delay."""
    from sluice.sim.policies.policies import POLICIES
    from sluice.sim.replay.figures import has_io

    outcomes, most = comparison.outcomes[policy], comparison.draw.options.max_delay
    held, count = int((outcomes.delay > 0).sum()), int(has_io(outcomes).sum())
    is_sluice = policy.startswith("sluice-") and POLICIES[policy].delays
    if (
        not is_sluice
        or most == float("inf")
        or held >= HARDLY * count
        or not comparison.bounds[0].is_anything_to_gain
    ):
        return ""
    return (
        f" It delayed {held} of {count} jobs with I/O: only those whose conflict should be over "
        f"within MaxDelay, {duration_text(most)}. `sluice site sweep --vary max-delay=…` says "
        "whether more would pay."
    )


def _change(comparison: Comparison, policy: str, figure: str) -> str:
    change = comparison.difference(policy, figure)
    if change is None:
        return NOTHING
    return ("+" if change >= 0 else "") + value_text(change, "seconds")


def interval_text(comparison: Comparison) -> str:
    """Say what the intervals are."""
    found = comparison.interval(comparison.policies[0], "lost_slot_hours")
    coverage = f"{found.coverage:.0%}" if found else "unknown"
    return (
        f"Intervals come from {comparison.repetitions} more draws of seeds and storage; one more "
        f"would lie within with a probability of {coverage} at least."
    )


def fairness_rows(comparison: Comparison, policy: str, what: str) -> list[Sequence[str]]:
    """Return who gains and who pays under a policy: FAIRNESS_TITLES."""
    from sluice.sim.replay.compare import PLAIN
    from sluice.sim.replay.figures import fairness

    rows = fairness(comparison.outcomes[policy], comparison.outcomes[PLAIN], what)
    return [
        (
            str(row[what]),
            str(row["jobs"]),
            value_text(row["wait_plain_mean_s"], "seconds"),
            value_text(row["wait_mean_s"], "seconds"),
            value_text(row["held_mean_s"], "seconds"),
            value_text(row["held_max_s"], "seconds"),
            value_text(row["lost_plain_slot_hours"], "hours"),
            value_text(row["lost_slot_hours"], "hours"),
        )
        for row in rows
    ]


FAIRNESS_TITLES = (
    *("jobs", "wait without, mean", "wait, mean", "delayed, mean", "delayed, longest"),
    *("slot-hours lost without", "slot-hours lost"),
)
"""Of fairness_rows, behind the group's own."""


def repair_texts(replayable: Replayable) -> list[str]:
    """Return what was repaired in a trace, a line a rule."""
    texts = []
    for repair in replayable.repairs:
        unit = "line" if repair.what == "broken line" else "job"
        named = ", ".join(map(str, repair.examples))
        more = ", …" if repair.count > len(repair.examples) else ""
        texts.append(f"{repair.what}: {repair.count} ({unit} {named}{more}); {repair.rule}")
    return texts


def source_text(experiment: Experiment, comparison: Comparison) -> str:
    """Say where the jobs' I/O comes from."""
    known = experiment.profiles_of(comparison.draw.replayable)[1]
    drawn = experiment.io_share_drawn
    others = "do no I/O" if drawn is None else f"are drawn, {drawn:.0%} of them I/O-heavy"
    if experiment.mix == "measured":
        others = "are drawn from the history's runs"
    if drawn is not None:
        others += f" (mix `{experiment.mix}`)"
    if experiment.history is None:
        return f"No logs tell what the jobs did: their I/O profiles {others}."
    return f"Logs tell the I/O of {known:.1%} of the jobs; all others {others}."
