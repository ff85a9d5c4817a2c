"""The storage of a site, and what levers would bring there: one answer for three commands."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.cli.common import read_config
from sluice.cli.listing import progress
from sluice.cli.site.replay_words import cores, fit_text, misfit_text, with_interval
from sluice.slurm.views.formatting import (
    amount_text,
    count_text,
    duration_text,
    rate_text,
    share_text,
    times_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluice.cli.common import Files
    from sluice.policies.core import Config
    from sluice.sim.replay.experiment import Experiment
    from sluice.sim.replay.levers import Levers, SiteStorage
    from sluice.sim.replay.site_placement import SitePlacement

NOT_ASKED = "--no-levers was given"
NOT_AT_STAKE = "nothing is at stake"


def replayed_levers(
    files: Files,
    settings: Config,
    *,
    bandwidth: float,
    bandwidth_from: str,
    laws: Sequence[str],
    draws: int,
) -> Levers | str:
    """Replay the last jobs of a site under each lever; a text: why they cannot be."""
    from sluice.interference.cost import FASTEST_RUN
    from sluice.sim.engine import SimError
    from sluice.sim.replay.levers import MisfitError, experiment_of, levers, replays
    from sluice.sim.replay.site_placement import site_placement
    from sluice.slurm.doctor.site_discovery import own_allocator

    try:
        experiment = experiment_of(files.history, settings, bandwidth=bandwidth)
        with files.open_history(read_only=True) as store:
            placement = site_placement(
                experiment,
                store,
                settings,
                bandwidth=bandwidth,
                is_told=bandwidth_from != FASTEST_RUN,
                own_allocator=own_allocator(),
            )
        with progress("replays", lambda: replays(laws, draws, placement)) as (_, advance):
            return levers(
                experiment,
                placement,
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
            "placement": {
                "nothing_to_gain": "not_at_stake" if found is None else None,
                "why": NOT_AT_STAKE if found is None else None,
            },
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
        "placement": {
            **found.placement.as_json(),
            "why": nothing_to_gain(found.placement) or None,
            "storages": [one.as_json() for one in found.on_targets],
        },
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


def nothing_to_gain(found: SitePlacement) -> str:
    """Say why placement has nothing to gain; empty: it may have."""
    from sluice.sim.replay import site_placement as reasons

    targets = count_text(found.targets, "target")
    return {
        "": "",
        reasons.UNKNOWN: "how many targets the storage has is not known; lanes of the "
        "configuration, servers' counts, or Lustre's records in logs tell",
        reasons.ONE: "the storage has one target",
        reasons.TOO_MANY: f"the storage has {targets}, more than placement knows",
        reasons.OWN_ALLOCATOR: f"{found.own_allocator} spreads new files over its servers itself",
        reasons.NO_IO: "no job of the last has I/O",
        reasons.ALL_TARGETS: f"output goes to all {targets}, or to more than half of them",
        reasons.UNDISTURBED: "the file system gives new files targets in turn, and by logs too "
        f"few other files are created during a burst to disturb that: "
        f"{amount_text(found.creates or 0.0)}, on {targets}",
        reasons.EVENLY: f"the load of {targets} is even: the busiest has "
        f"{times_text(found.busiest or 1.0)} the mean",
        reasons.LINKS_FULL: f"links are full before targets: these moved "
        f"{rate_text(found.own_rate)}, each in its best time",
    }[found.nothing]


def placement_sentences(levers: Levers | str | None) -> Iterator[str]:
    """Say what is known of targets, and the cheap remedies."""
    if levers is None:
        yield f"Placement has nothing to gain: {NOT_AT_STAKE}."
        return
    if isinstance(levers, str):
        yield f"What placement would bring is not known: {levers}."
        return
    from sluice.sim.replay.site_placement import TWICE

    found = levers.placement
    if found.nothing:
        yield f"Placement has nothing to gain: {nothing_to_gain(found)}."
        return
    targets = count_text(found.targets, "target")
    yield f"Placement: {targets} ({found.targets_from}); {_used(found)}."
    if found.busiest is not None:
        yield f"By servers' counts, the busiest target moves {times_text(found.busiest)} the mean."
    if misfits := [one for one in levers.on_targets if one.exaggerates]:
        yield f"What placement would bring is not known: {misfit_text(misfits[0])}."
        return
    if found.is_at_most:
        yield (
            "Logs do not show creates of others that disturb the file system's own choice of "
            "targets: placement saves at most what its rows say, and nothing where that choice "
            "is undisturbed."
        )
    else:
        yield (
            f"By logs, others create {amount_text(found.creates or 0.0)} files during a burst, "
            "which disturbs the file system's own choice of targets."
        )
    names = [one.removeprefix(TWICE) for one in found.levers if one.startswith(TWICE)]
    yield (
        f"Slower than their targets: {', '.join(names)}. Striped over twice as many, they leave "
        "each of them room for others."
        if names
        else "No program is known to be slower than its targets."
    )
    if found.big_writers:
        yield (
            f"Big writers: {', '.join(found.big_writers)}. Files of others do not move the pointer "
            "of Lustre's allocator in a pool of their own."
        )
    for one in levers.on_targets:
        fit = fit_text(one)
        yield f"With single targets, {fit[0].lower()}{fit[1:]}"


def _used(found: SitePlacement) -> str:
    if found.used is None:
        return "how many of them programs use is not known, and their rates stand in"
    used = found.used
    return (
        f"half of the I/O is of programs on at most {used.median:g} of them, "
        f"all on {used.least:g} to {used.most:g}"
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
            "yes" if worth.pays else "not known" if worth.is_at_most else "no",
        )
        for worth in found.worths
    ]
