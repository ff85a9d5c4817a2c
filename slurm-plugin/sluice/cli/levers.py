"""What levers would bring a site: asked of replays of its last jobs, and told, by two commands."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sluice.cli.listing import progress
from sluice.cli.replay_words import cores, with_interval
from sluice.slurm.texts import amount_text, duration_text, share_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.cli.common import Files
    from sluice.policies.core import Config
    from sluice.sim.replay.levers import Levers


def replayed_levers(
    files: Files, settings: Config, *, bandwidth: float, laws: Sequence[str], draws: int
) -> Levers | str:
    """Replay the last jobs of a site under each lever; a text: why they cannot be."""
    from sluice.sim.engine import SimError
    from sluice.sim.replay.levers import experiment_of, levers, replays

    try:
        experiment = experiment_of(files.history, settings, bandwidth=bandwidth)
        with progress("replays", lambda: replays(laws, draws)) as (_, advance):
            return levers(experiment, laws=laws, repeats=draws, workers=cores(), advance=advance)
    except SimError as error:
        return str(error)


def levers_json(found: Levers | str | None) -> dict[str, Any]:
    if found is None or isinstance(found, str):
        return {"levers": None, "no_levers": found, "levers_that_pay": []}
    worths = [{**asdict(worth), "pays": worth.pays} for worth in found.worths]
    return {
        "levers": worths,
        "no_levers": None,
        "levers_that_pay": list(found.that_pay),
        "levers_hang_on": asdict(found.bursts),
        "lost_slot_hours": found.lost,
        "delays_by_user": list(found.users),
    }


def levers_verdict(found: Levers) -> str:
    if not found.that_pay:
        return (
            "No lever is worth it here: in replays of the last jobs, none saves more than its "
            "waits cost in every case (table at the end)."
        )
    return f"Worth it here, by replays of the last jobs: {'; '.join(found.that_pay)}."


def levers_sentence(found: Levers) -> str:
    """Say what was replayed, and on what the answer hangs."""
    from sluice.sim.replay.levers import ACTS_FROM

    bursts = found.bursts
    burst, short = duration_text(bursts.burst_median or 0.0), share_text(bursts.short_share)
    return (
        f"Replayed: {bursts.jobs} jobs, {bursts.with_io} with I/O. A burst of the median job "
        f"takes {burst}; {short} of the time in bursts is in those below "
        f"{duration_text(ACTS_FROM)}, which turns leave alone. The storage is taken to be full "
        f"with {bursts.nodes_that_fill:.2g} {found.slot}s; `sluice site calibrate` measures that, "
        "and the law of the servers."
    )


LEVERS = ("servers", "lever", "saved", "of what can be", "delayed", "mean wait", "pays")
"""Headings of `lever_rows`."""


def lever_rows(found: Levers) -> list[tuple[str, ...]]:
    from sluice.sim.replay.levers import LAWS

    return [
        (
            LAWS[worth.law],
            worth.lever,
            with_interval(worth.saved, worth.saved_interval, "hours"),
            share_text(worth.share),
            amount_text(worth.held),
            f"{worth.wait_more:+.0f} s",
            "yes" if worth.pays else "no",
        )
        for worth in found.worths
    ]
