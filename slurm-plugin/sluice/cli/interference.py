"""`sluice interference`: who loses how much beside whom."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.assess import show_worst_pairs, storage_policy
from sluice.cli.common import (
    CommandError,
    config_option,
    coverage_line,
    history_option,
    json_option,
    open_history,
    read_config,
    share_text,
    show_json,
    show_table,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sluice.calibrate.observations import Observation
    from sluice.calibrate.site_model import SiteModel
    from sluice.history_db.records import ObservedInterference
    from sluice.history_db.store import Store

CURVE_EXPONENTS = range(16, 29, 2)  # chunks of 64 KiB to 256 MiB
MATRIX_EXPONENTS = (16, 20, 24)
MATRIX_PATTERNS = ("owc", "ws", "aw")


@click.command("interference", short_help="Say who loses how much beside whom.")
@click.argument("first", required=False)
@click.argument("second", required=False)
@config_option
@history_option
@json_option
def command(
    first: str | None,
    second: str | None,
    config: Path | None,
    history: Path | None,
    *,
    as_json: bool,
) -> None:
    """Say who loses how much beside whom.

    FIRST and SECOND are programs as `sluice calibrate` knows them (owc:1M:4), jobs of the
    history (job:4711), or applications by the name of their jobs (app:cfd). The loss is the
    share of its I/O rate that one loses while both write all the time, with an interval that
    should contain 90 % of measurements. Named beside it is what it rests on: the measurements
    here that are most like the two, what production showed of them, or published figures where
    there is neither; and the same over chunk sizes.

    Without names, the site's matrix, and the ten pairs of applications that cost each other
    most in the history, in node-hours. What that is of all, see `sluice assess`.

    \b
        sluice interference
        sluice interference owc:1M:4 aw:1M:4
        sluice interference app:cfd job:4711 --json
    """
    if first is not None and second is None:
        raise click.UsageError("Name two, or nobody for the whole site.")
    if first is None or second is None:
        _show_site(config, history, as_json=as_json)
    else:
        _show_pair(first, second, config, history, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Party:
    text: str
    application: str
    """Name of its jobs; empty for a program."""
    profile: Mapping[str, Any]
    """Members of struct sluice_profile, while it writes: how often it does is not asked."""


def _show_pair(
    first: str, second: str, config: Path | None, history: Path | None, *, as_json: bool
) -> None:
    from sluice.calibrate.observations import observations
    from sluice.calibrate.site import site_encounters
    from sluice.calibrate.site_model import fit

    with open_history(config, history, read_only=True) as store:
        seen = observations(site_encounters(store))
        parties = [_party(store, text) for text in (first, second)]
        observed = store.observed_interference()
        coverage, shares = coverage_line(store), asdict(store.coverage())
    model = fit(seen)
    rows = [_loss(model, a, b, seen, observed) for a, b in (parties, (parties[1], parties[0]))]
    curve = _curve(model, *parties)
    if as_json:
        show_json({"coverage": shares, "measured": len(seen), "losses": rows, "by_chunk": curve})
    else:
        click.echo(coverage)
        _print_pair(parties, rows, curve, len(seen))


def _party(store: Store, text: str) -> _Party:
    from sluice.calibrate.programs import Program
    from sluice.classifier.expectation import expected
    from sluice.classifier.jobs import finished_jobs
    from sluice.classifier.to_core import profile_members

    kind, _, name = text.partition(":")
    if kind not in ("job", "app"):
        return _Party(text, "", Program.parse(text).profile())
    if kind == "job":
        runs = store.runs_of_job(int(name)) if name.isdigit() else []
        jobs = finished_jobs(runs)[-1:]
    else:
        jobs = [job for job in finished_jobs(store.runs()) if job.name == name]
    if not jobs:
        raise CommandError(f"{text}: no log of such a job is in {store.path}")
    writing = {"rate": None, "io_share": 1.0}
    return _Party(text, jobs[-1].name, {**profile_members(expected(jobs)), **writing})


def _loss(
    model: SiteModel,
    victim: _Party,
    other: _Party,
    seen: Sequence[Observation],
    observed: Sequence[ObservedInterference],
) -> dict[str, Any]:
    from sluice.calibrate.evidence import nearest

    least_kept, most_kept = model.profile_interval(victim.profile, [other.profile])
    pair = (victim.application, other.application)
    return {
        "victim": victim.text,
        "beside": other.text,
        "loss": 1 - model.profile_share(victim.profile, [other.profile]),
        "least": max(0.0, 1 - most_kept),
        "most": 1 - least_kept,
        "measured": [
            {
                "victim": str(one.observation.victim),
                "beside": str(one.observation.others[0]),
                "loss": 1 - one.observation.rho,
                "likeness": one.likeness,
            }
            for one in nearest(seen, victim.profile, other.profile)
        ],
        "production": [asdict(one) for one in observed if (one.victim, one.aggressor) == pair],
    }


def _at_chunk(profile: Mapping[str, Any], chunk: float) -> dict[str, Any]:
    """Return the same behaviour with another chunk: as often flushed and created a write."""
    factor = chunk / profile["chunk_bytes"]
    scaled = {"chunk_bytes": chunk}
    if (profile.get("bytes_per_flush") or -1.0) >= 0:
        scaled["bytes_per_flush"] = profile["bytes_per_flush"] * factor
    if (profile.get("creates_per_mib") or -1.0) >= 0:
        scaled["creates_per_mib"] = profile["creates_per_mib"] / factor
    return {**profile, **scaled}


def _curve(model: SiteModel, first: _Party, second: _Party) -> list[dict[str, Any]]:
    """Both losses when both use the same chunk; nothing where one's chunk is not known."""
    from sluice.calibrate.programs import size_text

    if not all((party.profile.get("chunk_bytes") or 0.0) >= 1.0 for party in (first, second)):
        return []
    rows = []
    for exponent in CURVE_EXPONENTS:
        a, b = (_at_chunk(party.profile, float(1 << exponent)) for party in (first, second))
        rows.append(
            {
                "chunk": size_text(1 << exponent),
                "first": 1 - model.profile_share(a, [b]),
                "second": 1 - model.profile_share(b, [a]),
            }
        )
    return rows


def _print_pair(
    parties: Sequence[_Party], rows: list[dict[str, Any]], curve: list[dict[str, Any]], count: int
) -> None:
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
    click.echo(_source_text(count))
    measured = [one for row in rows for one in row["measured"]]
    if measured:
        show_table(
            ("Most like it: program", "beside", "lost", "likeness"),
            [
                (m["victim"], m["beside"], share_text(m["loss"]), share_text(m["likeness"]))
                for m in measured
            ],
        )
    for row in rows:
        for seen in row["production"]:
            verdict = "attributed" if seen["is_attributed"] else "may be chance"
            click.echo(
                f"In production, {seen['victim']} kept {share_text(seen['rho'])} beside "
                f"{seen['aggressor']} ({seen['disturbed']} slices; {verdict})."
            )
    if curve:
        first, second = (party.text for party in parties)
        show_table(
            ("Chunk", f"{first} loses", f"{second} loses"),
            [(c["chunk"], share_text(c["first"]), share_text(c["second"])) for c in curve],
        )


def _source_text(count: int) -> str:
    return f"From {count} measurements here." if count else "From published figures alone."


def _show_site(config: Path | None, history: Path | None, *, as_json: bool) -> None:
    from sluice.calibrate.observations import observations
    from sluice.calibrate.site import site_encounters
    from sluice.calibrate.site_model import fit
    from sluice.classifier.jobs import finished_jobs
    from sluice.sim.assess import assess

    with open_history(config, history, read_only=True) as store:
        seen = observations(site_encounters(store))
        jobs = finished_jobs(store.runs())
        coverage, shares = coverage_line(store), asdict(store.coverage())
    model = fit(seen)
    matrices = [_matrix(model, 1 << exponent) for exponent in MATRIX_EXPONENTS]
    policy, rate, source = storage_policy(read_config(config), None, jobs)
    found = assess(jobs, model=model.struct(), policy=policy)
    if as_json:
        pairs = [asdict(one) for one in found.worst_pairs]
        show_json(
            {"coverage": shares, "measured": len(seen), "matrices": matrices}
            | {"worst_pairs": pairs}
            | {"bandwidth": rate, "bandwidth_from": source}
        )
        return
    click.echo(coverage)
    for matrix in matrices:
        click.echo(f"{matrix['chunk']} chunks, {matrix['processes']} processes each")
        show_table(
            ("Loses", *(f"beside {name}" for name in MATRIX_PATTERNS)),
            [
                (name, *map(share_text, row))
                for name, row in zip(MATRIX_PATTERNS, matrix["loss"], strict=True)
            ],
        )
        click.echo()
    click.echo(_source_text(len(seen)))
    if found.worst_pairs:
        show_worst_pairs(found)
    else:
        click.echo(f"None of {len(jobs)} finished jobs in the history cost another anything.")


def _matrix(model: SiteModel, chunk: int) -> dict[str, Any]:
    """Losses among the plain patterns: a row for each that loses, a column for each beside it."""
    from sluice.calibrate.programs import Program, size_text

    programs = [Program(pattern, chunk) for pattern in MATRIX_PATTERNS]
    return {
        "chunk": size_text(chunk),
        "processes": programs[0].processes,
        "patterns": MATRIX_PATTERNS,
        "loss": [[1 - model.share_kept(a, [b]) for b in programs] for a in programs],
    }
