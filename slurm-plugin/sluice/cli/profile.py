"""`sluice profile`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.cli.common import json_option, show_facts, show_json
from sluice.slurm.views.formatting import (
    NOTHING,
    bytes_text,
    duration_text,
    one_line,
    rate_text,
    share_text,
    time_text,
)
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.patterns.profile import Reading


UNREADABLE = 1  # exit code


@click.command(short_help="Say what a Darshan log does to storage.")
@click.argument(
    "logs",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, readable=False, path_type=Path),
    metavar="LOG…",
)
@json_option
@click.pass_context
def command(ctx: click.Context, /, *, logs: tuple[Path, ...], as_json: bool) -> None:
    """Say what a Darshan log does to storage.

    The pattern, how certain it is and why; the numbers that drive interference. Needs no
    history and keeps nothing. Patterns: owc creates, writes and closes one file after the other;
    ws rewrites parts of a file; aw appends; read, metadata and none speak for themselves; mixed
    has phases of several; unknown is not certain enough.

    \b
        sluice profile run.darshan
        sluice profile --json run.darshan | jq .pattern

    JSON: one object; of several logs a list `profiles`. Exit code: 0 all were read, 1 one could
    not be.
    """
    from sluice.ingest.workers import Failure, read_profiles

    readings: list[Reading] = []
    failed = False
    for result in read_profiles(logs):
        if isinstance(result, Failure):
            click.echo(one_line(f"sluice: {result.path}: {result.reason}"), err=True)
            failed = True
        else:
            readings.append(result)
    if as_json:
        values = [_as_json(reading) for reading in readings]
        if readings:
            show_json(values[0] if len(logs) == 1 else {"profiles": values})
    else:
        for reading in readings:
            _print(reading)
    if failed:
        ctx.exit(UNREADABLE)


def _as_json(reading: Reading) -> dict[str, object]:
    from sluice.history_db.records import NUMBERS
    from sluice.patterns.advice import advice
    from sluice.patterns.profile import evidence

    log, profile = reading.log, reading.profile
    return {
        "path": log.path,
        "pattern": profile.pattern,
        "confidence": round(profile.confidence, 4),
        "shares": {name: round(share, 4) for name, share in profile.shares.items()},
        "time_shares": {name: round(share, 4) for name, share in reading.time_shares.items()},
        "duty_cycle": _duty_cycle(profile.numbers),
        **{name: _json_number(profile.numbers.get(name)) for name in NUMBERS},
        "evidence": evidence(profile, reading.features),
        "advice": [asdict(one) for one in advice(profile, reading.features)],
        "not_counted": list(reading.not_counted),
        "jobid": log.jobid,
        "uid": log.uid,
        "exe": log.exe,
        "start": log.start,
        "end": log.end,
        "format": log.format,
        "partial": log.partial,
    }


def _json_number(value: float | None) -> float | int | None:
    return int(value) if value is not None and value == int(value) else value


def _print(reading: Reading) -> None:
    from sluice.patterns.advice import advice
    from sluice.patterns.profile import evidence

    log, profile = reading.log, reading.profile
    remarks = advice(profile, reading.features)
    job = "none," if log.jobid is None else log.jobid
    click.echo(one_line(log.path))
    show_facts(
        [
            ("pattern", f"{profile.pattern}, confidence {profile.confidence:.2f}"),
            ("because it", "; ".join(evidence(profile, reading.features)) or NOTHING),
            ("shares of the bytes", _shares(profile.shares)),
            ("shares of the I/O time", _shares(reading.time_shares)),
            ("job", f"{job} of {user_text(log.uid or 0)}, {time_text(log.start)}"),
            ("program", (log.exe or NOTHING)[:100]),
            *((title, text) for title, text in _numbers(profile.numbers) if text != NOTHING),
            *(("not counted", f"{one}, which cannot be true") for one in reading.not_counted),
            *(("advice", f"It {one.finding}. {one.remedy}") for one in remarks),
        ],
    )


def _shares(shares: dict[str, float]) -> str:
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {share:.0%}" for name, share in ordered if share >= 0.01)


def _numbers(numbers: dict[str, float]) -> list[tuple[str, str]]:
    def show(name: str, text: Callable[[float | None], str]) -> str:
        return text(numbers.get(name))

    return [
        ("processes", show("nprocs", _plain)),
        ("run time", show("runtime_seconds", duration_text)),
        ("share of it in I/O", show("io_share", share_text)),
        ("written", show("write_bytes", bytes_text)),
        ("read", show("read_bytes", bytes_text)),
        ("chunk", show("chunk_bytes", bytes_text)),
        ("bytes a read", show("read_chunk_bytes", bytes_text)),
        ("read in order", show("read_sequential_share", share_text)),
        ("read from the cache", show("read_cached_share", share_text)),
        ("rate during I/O", show("rate", rate_text)),
        ("files written", show("files", _plain)),
        ("in shared files", show("shared_share", share_text)),
        ("collectively", show("collective_share", share_text)),
        ("between flushes", show("bytes_per_flush", bytes_text)),
        ("left in the cache", show("unflushed_bytes", bytes_text)),
        ("files created a MiB", show("creates_per_mib", _plain)),
        ("opens and stats a s", show("metadata_rate", _plain)),
        ("burst", show("burst_seconds", duration_text)),
        ("period", show("period_seconds", duration_text)),
        ("share of the period", share_text(duty) if (duty := _duty_cycle(numbers)) else NOTHING),
        ("storage targets", show("targets", _plain)),
    ]


def _duty_cycle(numbers: dict[str, float]) -> float | None:
    """Return the share of a period that is burst; None where either is unknown."""
    burst, period = numbers.get("burst_seconds"), numbers.get("period_seconds")
    return round(min(1.0, burst / period), 4) if burst and period else None


def _plain(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
