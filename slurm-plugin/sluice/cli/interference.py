"""`sluice interference`: who loses how much beside whom."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    CommandError,
    config_option,
    history_option,
    json_option,
    open_history,
    share_text,
    show_json,
    show_table,
)

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.calibrate.site_model import SiteModel
    from sluice.history_db.store import Store

CURVE_EXPONENTS = range(16, 29, 2)  # chunks of 64 KiB to 256 MiB


@click.command("interference", short_help="Say who loses how much beside whom.")
@click.argument("first")
@click.argument("second")
@config_option
@history_option
@json_option
def command(
    first: str, second: str, config: Path | None, history: Path | None, *, as_json: bool
) -> None:
    """Say who loses how much beside whom.

    FIRST and SECOND are programs as `sluice calibrate` knows them (owc:1M:4), or jobs of the
    history (job:4711). The loss is the share of its I/O rate that one loses while both write all
    the time, with an interval that should contain 90 % of measurements. It comes from what was
    measured here, and from published figures where nothing like it was. For programs the same
    is shown over chunk sizes. What this costs a site, see `sluice assess`.

    \b
        sluice interference owc:1M:4 aw:1M:4
        sluice interference job:4711 aw:16M:64 --json
    """
    from sluice.calibrate.observations import observations
    from sluice.calibrate.site import site_encounters
    from sluice.calibrate.site_model import fit

    with open_history(config, history, read_only=True) as store:
        seen = observations(site_encounters(store))
        profiles = [_profile(store, text) for text in (first, second)]
    model = fit(seen)
    rows = [
        _loss(model, first, profiles[0], second, profiles[1]),
        _loss(model, second, profiles[1], first, profiles[0]),
    ]
    curve = _curve(model, first, second)
    if as_json:
        show_json({"measured": len(seen), "losses": rows, "by_chunk": curve})
        return
    show_table(
        ("Program", "beside", "loses", "90 % between"),
        [
            (
                row["victim"],
                row["beside"],
                share_text(row["loss"]),
                f"{share_text(row['least'])} and {share_text(row['most'])}",
            )
            for row in rows
        ],
    )
    source = f"{len(seen)} measurements here" if seen else "published figures alone"
    click.echo(f"From {source}.")
    if curve:
        show_table(
            ("Chunk", f"{first} loses", f"{second} loses"),
            [(c["chunk"], share_text(c["first"]), share_text(c["second"])) for c in curve],
        )


def _profile(store: Store, text: str) -> dict[str, Any]:
    """Members of struct sluice_profile of a program or a job."""
    from sluice.calibrate.programs import Program
    from sluice.classifier.to_core import profile_members

    if not text.startswith("job:"):
        return Program.parse(text).profile()
    number = text.removeprefix("job:")
    runs = store.runs_of_job(int(number)) if number.isdigit() else []
    if not runs:
        raise CommandError(f"{text}: no log of such a job is in {store.path}")
    # While it writes: how often it does is not the question here.
    return {**profile_members(runs[-1].profile), "rate": None, "io_share": 1.0}


def _loss(
    model: SiteModel, victim: str, own: dict[str, Any], beside: str, other: dict[str, Any]
) -> dict[str, Any]:
    least_kept, most_kept = model.profile_interval(own, [other])
    return {
        "victim": victim,
        "beside": beside,
        "loss": 1 - model.profile_share(own, [other]),
        "least": max(0.0, 1 - most_kept),
        "most": 1 - least_kept,
    }


def _curve(model: SiteModel, first: str, second: str) -> list[dict[str, Any]]:
    """Both losses when both programs use the same chunk; nothing for jobs."""
    from sluice.calibrate.programs import Program, size_text

    if "job:" in (first[:4], second[:4]):
        return []
    programs = [Program.parse(text) for text in (first, second)]
    rows = []
    for exponent in CURVE_EXPONENTS:
        a, b = (replace(program, chunk_bytes=1 << exponent) for program in programs)
        rows.append(
            {
                "chunk": size_text(1 << exponent),
                "first": 1 - model.share_kept(a, [b]),
                "second": 1 - model.share_kept(b, [a]),
            }
        )
    return rows
