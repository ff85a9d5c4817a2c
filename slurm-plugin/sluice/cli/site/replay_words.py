"""A comparison of policies in words, cells, JSON, and the parts of a page."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import CommandError, Files, coverage_text, show_table
from sluice.cli.listing import progress
from sluice.slurm.views.formatting import NOTHING, amount_text, duration_text, rate_text, times_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluice.serve.tables import Part
    from sluice.sim.replay.compare import Comparison, Interval
    from sluice.sim.replay.experiment import Experiment
    from sluice.sim.replay.figures import Bound
    from sluice.sim.replay.levers import SiteStorage
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
        return f"{value:.1%}" if not 0 < size < HARDLY else f"{100 * value:.2g}%"
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
        values = [comparison.value(policy, name) for policy in comparison.policies]
        if any(value is not None for value in values):
            cells = (
                with_interval(value, comparison.interval(policy, name), meaning.unit)
                for policy, value in zip(comparison.policies, values, strict=True)
            )
            rows.append((meaning.title, *cells))
    return rows


def storage_text(found: SiteStorage) -> str:
    """Name the storage of a replay, the same in every output."""
    from sluice.sim.replay.levers import LAWS

    return (
        f"the {found.experiment.storage_model} storage model, {rate_text(found.bandwidth)}, "
        f"servers {LAWS.get(found.law, f'fair by {found.law}')}"
    )


def fit_text(found: SiteStorage) -> str:
    return (
        f"On {storage_text(found)}, jobs lose {amount_text(found.replayed)} {found.slot}-hours; "
        f"by their own I/O times they lost {amount_text(found.measured)}."
    )


def misfit_text(found: SiteStorage) -> str:
    return (
        "replays do not lose what these jobs lost: by their own I/O times "
        f"{amount_text(found.measured)} {found.slot}-hours, and {amount_text(found.replayed)} on "
        f"{storage_text(found)}, which comes nearest"
    )


def verdict(comparison: Comparison, storage: SiteStorage | None) -> list[str]:
    """Return what there was to gain and what each policy made of it, a sentence each.

    storage: of the site that the jobs are of (levers.site_storage).
    """
    from sluice.sim.replay.compare import PLAIN

    bound = comparison.bound
    if storage is not None and not storage.fits:
        return [f"What policies would gain here is not known: {misfit_text(storage)}."]
    said = [fit_text(storage)] if storage else []
    killed = comparison.value(PLAIN, "killed_slot_hours") or 0.0
    said += [_lost_text(bound, killed), _bound_text(bound)]
    said += [_policy_text(comparison, name) for name in comparison.policies if name != PLAIN]
    if comparison.repetitions:
        said.append(interval_text(comparison))
    return said


def _lost_text(bound: Bound, killed: float) -> str:
    share = bound.lost / bound.ran if bound.ran else 0.0
    of_kills = f"; {amount_text(killed)} are work of jobs killed at their limit" if killed else ""
    return (
        f"Without a policy, {amount_text(bound.lost / 3600)} slot-hours are lost to interference: "
        f"{share:.2%} of those that jobs took{of_kills}."
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
    less = -(comparison.difference(policy, "lost_slot_hours") or 0.0)
    found = comparison.difference_interval(policy, "lost_slot_hours")
    share = comparison.value(policy, "share_of_bound")
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
    predicted = comparison.value(policy, "predicted_slot_hours")
    if predicted is not None:
        said += f"; predicted were {amount_text(predicted)}"
    return (
        f"{policy} {said}; mean wait "
        f"{_change(comparison, policy, 'wait_mean_s')}, p99 "
        f"{_change(comparison, policy, 'wait_p99_s')}, makespan "
        f"{_change(comparison, policy, 'makespan_s')}."
        f"{_streams_text(comparison, policy)}{_hardly_anybody_text(comparison, policy)}"
    )


def _streams_text(comparison: Comparison, policy: str) -> str:
    """Say so where jobs that stream pay for what others save."""
    from sluice.sim.replay.compare import PLAIN

    more = comparison.difference(policy, "stream_lost_slot_hours") or 0.0
    without = comparison.value(PLAIN, "stream_lost_slot_hours") or 0.0
    if more <= HARDLY * without:
        return ""
    return (
        f" Jobs that stream lose {amount_text(without + more)} slot-hours, in place of "
        f"{amount_text(without)}."
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
        or not comparison.bound.is_anything_to_gain
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
        f"Figures are medians of {comparison.repetitions + 1} draws of seeds and storage; one more "
        f"would lie within the intervals with a probability of {coverage} at least."
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


def machine_text(replayable: Replayable) -> str:
    """Say how large the machine is, and what a node of it has."""
    workload, slot = replayable.workload, replayable.trace.slot
    of_node = f", {workload.slots_per_node:g} a node" if workload.slots_per_node != 1 else ""
    return f"{workload.machine.slots} {slot}s{of_node}"


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


def cores() -> int:
    return len(os.sched_getaffinity(0))


def compared(experiment: Experiment, policies: Sequence[str], repeats: int) -> Comparison:
    """Replay under the policies and without one, on all cores."""
    from sluice.sim.replay.compare import PLAIN, compare

    count = (1 + repeats) * len({PLAIN, *policies})
    with progress("replays", lambda: count) as (_, advance):
        return compare(experiment.draw, policies, repeats=repeats, workers=cores(), advance=advance)


def coverage_told(experiment: Experiment) -> tuple[list[str], dict[str, float] | None]:
    """Return the coverage of the history that tells of the jobs: lines and shares, if any does."""
    if experiment.history is None:
        return [], None
    coverage = Files(None, Path(experiment.history)).coverage()
    return [coverage_text(coverage)], asdict(coverage) if coverage else None


def write(path: Path, content: bytes) -> None:
    """Write a file as a whole, or leave the old one."""
    from sluice.policies.container import write_atomically

    try:
        write_atomically(path, content, mode=0o644)
    except OSError as error:
        raise CommandError(
            f"{path}: {error.strerror}; nothing was written. Name a place with room for "
            f"{len(content) / 1e6:.1f} MB where you may write."
        ) from error


def show(experiment: Experiment, comparison: Comparison, storage: SiteStorage | None) -> None:
    for sentence in (source_text(experiment, comparison), *verdict(comparison, storage)):
        click.echo(sentence)
    click.echo()
    show_table(("total", *comparison.policies), figure_rows(comparison))


def document(
    experiment: Experiment, comparison: Comparison, storage: SiteStorage | None
) -> dict[str, Any]:
    """Return what `--json` adds where jobs do I/O."""
    from sluice.sim.replay.figures import FIGURES

    return {
        "experiment": experiment.plain(),
        "inputs": inputs(experiment),
        "verdict": verdict(comparison, storage),
        "bound": _bound(comparison),
        "repetitions": comparison.repetitions,
        "policies": {
            policy: {
                "figures": {name: comparison.answer(policy, name) for name in FIGURES},
                "fairness": fairness_of(comparison, policy),
            }
            for policy in comparison.policies
        },
    }


def inputs(experiment: Experiment) -> dict[str, str | None]:
    """Return the SHA-256 of each file that was read; None of a pipe."""
    from sluice.sim.replay.experiment import checksum

    return {path: checksum(path) for path in experiment.inputs}


def fairness_of(comparison: Comparison, policy: str) -> dict[str, list[dict[str, Any]]]:
    from sluice.sim.replay.compare import PLAIN
    from sluice.sim.replay.figures import GROUPS, fairness

    outcomes, plain = comparison.outcomes[policy], comparison.outcomes[PLAIN]
    return {what: fairness(outcomes, plain, what) for what in GROUPS}


def _bound(comparison: Comparison) -> dict[str, Any]:
    bound = comparison.bound
    return {
        "lost_slot_hours": bound.lost / 3600,
        "forced_slot_hours": bound.forced / 3600,
        "forced_by": bound.station or None,
        "gain_slot_hours": bound.gain / 3600,
        "max_delay_s": None if bound.max_delay == float("inf") else bound.max_delay,
        "is_anything_to_gain": bound.is_anything_to_gain,
    }


# Pages

RULES = (
    "Lost are slot-seconds: run time beyond that alone and unhindered on all lanes, times slots. "
    "Delayed is the time for which the policy itself let a job wait that would have fitted; "
    "untouched jobs were neither delayed nor put on lanes, and moved because others did. The "
    "storage that answers is the mean-field storage model, never the model that a policy decides "
    "by. reference/replay.md and reference/storage-models.md of the documentation state all rules."
)


def page_parts(
    experiment: Experiment,
    comparison: Comparison,
    covered: Sequence[str],
    storage: SiteStorage | None,
) -> Iterator[Part]:
    """Return the parts of the page of a comparison, which opens with the coverage."""
    from sluice.cli.plots import replay_pictures
    from sluice.slurm.views.job_explanation import Heading, Rows

    over_time, *others = replay_pictures(comparison)
    yield from (*covered, *verdict(comparison, storage), source_text(experiment, comparison))
    yield Heading("Policies")
    yield Rows(("", *comparison.policies), figure_rows(comparison), caption="Totals by policy")
    yield Heading("Over time")
    yield over_time
    yield Heading("Distributions and comparison of policies")
    yield from others
    yield Heading("Gains and costs by group")
    yield from _fairness_parts(comparison)
    yield Heading("How this was made")
    yield RULES
    yield shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    facts = _page_facts(experiment, comparison)
    yield Rows(("fact", "value"), facts, caption="Versions, inputs and settings")
    repairs = repair_texts(comparison.draw.replayable)
    yield "In the trace was" if repairs else "The trace needed no repair."
    yield from repairs


def _fairness_parts(comparison: Comparison) -> Iterator[Part]:
    from sluice.sim.replay.compare import PLAIN
    from sluice.sim.replay.figures import GROUPS
    from sluice.slurm.views.job_explanation import Rows

    for policy in comparison.policies:
        for what in GROUPS if policy != PLAIN else ():
            if rows := fairness_rows(comparison, policy, what):
                yield Rows((what, *FAIRNESS_TITLES), rows, caption=f"{policy}, by {what}")


def _page_facts(experiment: Experiment, comparison: Comparison) -> list[Sequence[str]]:
    from sluice.sim.engine import scheduler_defaults

    draw = comparison.draw
    lanes = ", ".join(f"{targets:g} on {servers:g}" for targets, servers in draw.storage.lanes)
    settings = {**scheduler_defaults(), **draw.site.settings}
    return [
        ("version", version("sluice")),
        *(
            (path, f"SHA-256 {digest or 'of a pipe'}")
            for path, digest in inputs(experiment).items()
        ),
        *((name, str(value)) for name, value in experiment.plain().items() if value),
        ("machine", machine_text(draw.replayable)),
        ("jobs", f"{len(draw.replayable.rows)} of {len(draw.replayable.trace)} in the trace"),
        ("storage: targets on servers, by lane", lanes),
        ("scheduler", ", ".join(f"{name}={value}" for name, value in settings.items())),
        ("options of policies", str(draw.options)),
    ]
