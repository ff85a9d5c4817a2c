"""`sluice lab reproduce`: published figures next to those of the storage model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import json_option, show_json, show_table, usage_errors
from sluice.slurm.texts import NOTHING, rate_text, share_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.sim.papers.figure import Figure, Verdict
    from sluice.sim.storage.discrete_event import Scenario


@click.command()
@click.argument("names", metavar="[FIGURE]...", nargs=-1)
@click.option(
    "--scenario",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Simulate a scenario of your own (TOML, or JSON by its suffix) instead.",
)
@click.option(
    "--what-if",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Try the papers' remedies on such a scenario instead.",
)
@click.option("--parameters", is_flag=True, help="List every number of the model and its source.")
@json_option
def command(
    names: tuple[str, ...],
    scenario: Path | None,
    what_if: Path | None,
    *,
    parameters: bool,
    as_json: bool,
) -> None:
    """Print published figures alongside what the model makes of them.

    FIGURE is a name such as Y7a; Y7 stands for all parts of it, Y for a whole paper; without a
    name all are asked. Each is marked `explained` (no number was fitted to it), `fitted`, with
    how many numbers were, or `not reproduced`, and a sentence says why. The model is the
    discrete-event one of docs/reference/storage-models.md: published figures are only compared
    with.

    A scenario names a platform of --parameters, or all numbers of a storage system, and
    programs. Each program is then simulated alone and with the others; with `offsets`, two
    programs at each offset (a Δ-graph). With --what-if, each remedy of
    docs/reference/storage-models.md is tried on it: staging in the nodes' buffers (buffer_bytes in
    [storage]), bursts in the order of the deployed rule, partition of the targets, turns of single
    writes and re-routing (throttle of a program) with the coordinators' messages, in-transit
    buffering, one writer a node, larger stripes, ordered service and balanced files. With a table
    [turns] in a scenario, bursts take turns by that rule while the programs are together.

    \b
    Examples:
        sluice lab reproduce
        sluice lab reproduce Y6 S3 --json
        sluice lab reproduce --parameters
        sluice lab reproduce --scenario pair.toml
        sluice lab reproduce --what-if pair.toml
    \b
    pair.toml:
        platform = "lustre"
        stop_share = 0.9
        [storage]
        targets = 52
        [[program]]
        name = "checkpoint"
        pattern = "aw"
        processes = 256
        nodes = 64
        operation_bytes = "16 MiB"
        operations = 20
        [[program]]
        name = "ensemble"
        pattern = "owc"
        processes = 128
        nodes = 32
        operations = 200
    """
    if (scenario is not None) + (what_if is not None) + parameters + bool(names) > 1:
        raise click.UsageError("Give figures, or --scenario, or --what-if, or --parameters.")
    if scenario is not None:
        from sluice.sim.storage.discrete_event import read_scenario

        _show_scenario(read_scenario(scenario), as_json=as_json)
    elif what_if is not None:
        from sluice.sim.storage.discrete_event import read_scenario

        _show_what_if(read_scenario(what_if), as_json=as_json)
    elif parameters:
        _show_parameters(as_json=as_json)
    else:
        from sluice.sim.engine import StorageModelError
        from sluice.sim.papers.figures import find

        with usage_errors(StorageModelError):
            figures = find(names)
        _show_figures(figures, as_json=as_json)


def _show_figures(figures: Sequence[Figure], *, as_json: bool) -> None:
    from rich.console import Console
    from rich.progress import track

    from sluice.sim.papers.figures import ask_all

    verdicts: list[Verdict] = []
    console = Console(stderr=True)
    threads = len(os.sched_getaffinity(0))
    for verdict in track(
        ask_all(figures, threads=threads),
        "Simulating",
        total=len(figures),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ):
        verdicts.append(verdict)
        if not as_json:
            _show_verdict(verdict)
    if as_json:
        show_json({"figures": [_verdict_json(verdict) for verdict in verdicts]})
    else:
        _show_summary(verdicts)


def _show_verdict(verdict: Verdict) -> None:
    figure = verdict.figure
    click.secho(f"{figure.name}  {figure.title}: {verdict.words}", bold=True)
    rows = [
        (row.what, row.published, f"{row.model:.2f}", "" if row.agrees else "differs")
        for row in verdict.rows
    ]
    show_table(("", "paper", "model", ""), rows)
    click.echo(f"{figure.why}\n")


def _show_summary(verdicts: Sequence[Verdict]) -> None:
    from sluice.sim.papers.figure import EXPLAINED, FITTED, NOT_REPRODUCED

    given = [verdict.status for verdict in verdicts]
    click.echo(", ".join(f"{given.count(s)} {s}" for s in (EXPLAINED, FITTED, NOT_REPRODUCED)))


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    figure = verdict.figure
    return {
        "figure": figure.name,
        "title": figure.title,
        "status": verdict.status,
        "fitted": figure.fitted if verdict.status == "fitted" else [],
        "why": figure.why,
        "platforms": figure.platforms,
        "rows": [
            {
                "what": row.what,
                "paper": row.published,
                "model": row.model,
                "low": row.low,
                "high": row.high,
                "agrees": row.agrees,
            }
            for row in verdict.rows
        ],
    }


def _show_parameters(*, as_json: bool) -> None:
    from sluice.sim.storage.discrete_event import PLATFORMS, STORAGE_FIELDS

    units = {field.name: field.unit for field in STORAGE_FIELDS}
    if as_json:
        platforms = {
            platform.name: {
                "title": platform.title,
                "parameters": [
                    {
                        "name": p.name,
                        "value": p.value,
                        "unit": units[p.name],
                        "source": p.source,
                        "fitted": p.fitted or None,
                    }
                    for p in platform.parameters
                ],
            }
            for platform in PLATFORMS.values()
        }
        show_json({"platforms": platforms})
        return
    for platform in PLATFORMS.values():
        click.secho(f"{platform.name}: {platform.title}", bold=True)
        rows = [
            (p.name, f"{p.value:g}", units[p.name], p.fitted, p.source) for p in platform.parameters
        ]
        show_table(("number", "value", "unit", "fitted to", "source"), rows)
        click.echo()


def _show_scenario(scenario: Scenario, *, as_json: bool) -> None:
    from sluice.sim.storage.discrete_event import delta_graph, run_together

    if scenario.offsets:
        points = delta_graph(scenario)
        if as_json:
            show_json({"offsets": [{"offset": o, "factors": fs} for o, *fs in points]})
            return
        columns = ("offset, s", *(f"I of {name}" for name in scenario.names))
        show_table(columns, [[f"{number:.2f}" for number in point] for point in points])
        return
    together = run_together(scenario)
    if as_json:
        programs = [
            {
                "program": one.name,
                "alone": {"seconds": _finite(one.alone_seconds), "rate": one.alone_rate},
                "together": {"seconds": _finite(one.seconds), "rate": one.rate},
                "factor": _finite(one.factor),
                "lost": one.lost,
            }
            for one in together
        ]
        show_json({"programs": programs})
        return
    rows = [
        (
            one.name,
            _seconds(one.alone_seconds),
            rate_text(one.alone_rate),
            _seconds(one.seconds),
            rate_text(one.rate),
            _seconds(one.factor),
            share_text(one.lost),
        )
        for one in together
    ]
    columns = ("program", "alone, s", "rate", "together, s", "rate", "I", "rate lost")
    show_table(columns, rows)


def _show_what_if(scenario: Scenario, *, as_json: bool) -> None:
    from sluice.sim.papers.remedies import what_if, writers

    found = what_if(scenario)
    programs = [scenario.names[i] for i in writers(scenario)]
    if as_json:
        remedies = [
            {
                "remedy": one.remedy,
                "title": one.title,
                "programs": programs,
                "factors": [_finite(factor) for factor in one.factors],
                "mean_factor": _finite(one.mean_factor),
                "seconds": _finite(one.seconds),
                "messages": one.messages,
                "why_not": one.why_not or None,
            }
            for one in found
        ]
        show_json({"remedies": remedies})
        return
    rows = [
        (
            one.remedy,
            one.title,
            *map(_seconds, (*one.factors, one.mean_factor, one.seconds)),
            f"{one.messages:.0f}",
        )
        for one in found
        if not one.why_not
    ]
    names = (f"I of {name}" for name in programs)
    show_table(("remedy", "", *names, "mean I", "last byte, s", "messages"), rows)
    for one in found:
        if one.why_not:
            click.echo(f"{one.remedy} was not tried: it {one.why_not}.")


def _finite(number: float) -> float | None:
    """Return a number, and none for a program that the end of the count cut off."""
    from math import isfinite

    return number if isfinite(number) else None


def _seconds(number: float) -> str:

    return NOTHING if _finite(number) is None else f"{number:.2f}"
