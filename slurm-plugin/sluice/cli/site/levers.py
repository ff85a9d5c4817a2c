"""The storage of a site, and what levers would bring there: one answer for three commands."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.cli.common import read_config
from sluice.cli.listing import progress
from sluice.cli.site.replay_words import cores, fit_text, misfit_text, with_interval
from sluice.slurm.views.formatting import amount_text, duration_text, share_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.cli.common import Files
    from sluice.policies.core import Config
    from sluice.sim.replay.experiment import Experiment
    from sluice.sim.replay.levers import Levers, SiteStorage

NOT_ASKED = "--no-levers was given"


def replayed_levers(
    files: Files, settings: Config, *, bandwidth: float, laws: Sequence[str], draws: int
) -> Levers | str:
    """Replay the last jobs of a site under each lever; a text: why they cannot be."""
    from sluice.sim.engine import SimError
    from sluice.sim.replay.levers import MisfitError, experiment_of, levers, replays

    try:
        experiment = experiment_of(files.history, settings, bandwidth=bandwidth)
        with progress("replays", lambda: replays(laws, draws)) as (_, advance):
            return levers(
                experiment,
                bandwidth=bandwidth,
                laws=laws,
                repeats=draws,
                workers=cores(),
                advance=advance,
            )
    except MisfitError as error:
        return misfit_text(next(one for one in error.storages if not one.fits))
    except SimError as error:
        return str(error)


def site_storage(experiment: Experiment) -> SiteStorage | None:
    """Return the storage of `replayed_levers` for a history that is replayed by itself.

    None: the trace is no history, or the experiment says what its storage is.
    """
    from sluice.sim.replay.levers import fitted
    from sluice.sim.storage.mean_field import MEAN_FIELD
    from sluice.sim.trace.sources import is_history

    is_told = experiment.targets is not None or experiment.storage
    if experiment.trace is None or is_told or experiment.storage_model != MEAN_FIELD:
        return None
    if not is_history(Path(experiment.trace)):
        return None
    lanes = [lane.bandwidth for lane in read_config(None).policy.lanes]
    bandwidth = sum(lanes) if lanes and all(lanes) else None
    as_it_was = replace(experiment, load=None)
    return fitted(as_it_was, experiment.sharing, bandwidth=bandwidth)


def levers_json(found: Levers | str | None) -> dict[str, Any]:
    if found is None or isinstance(found, str):
        return {
            "levers": None,
            "no_levers": found,
            "levers_that_pay": [],
            "levers_of_sluice_that_pay": [],
            "storages": [],
        }
    worths = [{**asdict(worth), "pays": worth.pays} for worth in found.worths]
    return {
        "levers": worths,
        "no_levers": None,
        "levers_that_pay": list(found.that_pay),
        "levers_of_sluice_that_pay": list(found.of_sluice_that_pay),
        "storages": [one.as_json() for one in found.storages],
        "levers_hang_on": asdict(found.bursts),
        "lost_slot_hours": found.lost,
        "delays_by_user": list(found.users),
    }


def levers_sentence(found: Levers) -> str:
    """Say what was replayed, and on what the answer hangs."""
    from sluice.sim.replay.levers import ACTS_FROM

    bursts = found.bursts
    burst, short = duration_text(bursts.burst_median or 0.0), share_text(bursts.short_share)
    return (
        f"Replayed: {bursts.jobs} jobs, {bursts.with_io} with I/O. A burst of the median job "
        f"takes {burst}; {short} of the time in bursts is in those below "
        f"{duration_text(ACTS_FROM)}, which turns leave alone. "
        f"{' '.join(map(fit_text, found.storages))} "
        f"It is full with {bursts.nodes_that_fill:.2g} {found.slot}s; `sluice site calibrate` "
        "measures the service discipline of the servers."
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
