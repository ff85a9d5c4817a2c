"""`sluice site replay` of several policies: the work, the table and the JSON."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import CommandError, coverage_alongside, show_table
from sluice.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sluice.sim.replay.compare import Comparison
    from sluice.sim.replay.experiment import Experiment
    from sluice.sim.replay.intervals import Interval


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
    from pathlib import Path

    if experiment.history is None:
        return [], None
    line, coverage = coverage_alongside(None, Path(experiment.history))
    return [line], asdict(coverage) if coverage else None


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


def show(experiment: Experiment, comparison: Comparison) -> None:
    from sluice.cli.replay_words import figure_rows, source_text, verdict

    for sentence in (source_text(experiment, comparison), *verdict(comparison)):
        click.echo(sentence)
    click.echo()
    show_table(("total", *comparison.policies), figure_rows(comparison))


def document(experiment: Experiment, comparison: Comparison) -> dict[str, Any]:
    """Return what `--json` adds where jobs do I/O."""
    from sluice.cli.replay_words import verdict
    from sluice.sim.replay.figures import FIGURES

    return {
        "experiment": experiment.plain(),
        "inputs": inputs(experiment),
        "verdict": verdict(comparison),
        "bound": _bound(comparison),
        "repetitions": comparison.repetitions,
        "policies": {
            policy: {
                "figures": {
                    name: {
                        "value": comparison.figures[policy][0][name],
                        "interval": _plain(comparison.interval(policy, name)),
                        "above_none": comparison.difference(policy, name),
                        "above_none_interval": _plain(comparison.difference_interval(policy, name)),
                    }
                    for name in FIGURES
                },
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
    bound = comparison.bounds[0]
    return {
        "lost_slot_hours": bound.lost / 3600,
        "forced_slot_hours": bound.forced / 3600,
        "forced_by": bound.station or None,
        "gain_slot_hours": bound.gain / 3600,
        "max_delay_s": None if bound.max_delay == float("inf") else bound.max_delay,
        "is_anything_to_gain": bound.is_anything_to_gain,
    }


def _plain(found: Interval | None) -> dict[str, float] | None:
    return None if found is None else asdict(found)
