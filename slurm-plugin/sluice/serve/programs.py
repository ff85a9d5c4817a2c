"""The page of programs, with interference and doubts, and the page of one program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.history_db.records import program_name
from sluice.policies.core import PATTERNS, sentence
from sluice.serve import doubts, interference
from sluice.serve.known_programs import (
    COLUMNS,
    entries,
    entry,
    facts_of,
    is_visible,
    name_of,
    profile_of,
    row_of,
    subject_of,
)
from sluice.serve.tables import (
    BYTES,
    SHARE,
    Column,
    Field,
    Head,
    Page,
    Table,
    any_of,
    job_cell,
    links_from,
    moment,
    number,
    start_of,
    words,
)
from sluice.slurm.views.formatting import (
    bytes_text,
    count_text,
    duration_text,
    intervals,
    rate_text,
    share_text,
)
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.history_db.store import Store
    from sluice.serve.known_programs import Entry
    from sluice.serve.site import Reader, Site

Facts = dict[str, Any]

SHOWN = 100
"""Programs on a page."""


def page(site: Site, store: Store, reader: Reader, query: Mapping[str, str]) -> Page:
    """List programs, what is in doubt, and interference; `find` chooses rows of all of these."""
    visible = [one for one in entries(site, store) if is_visible(one, reader)]
    chosen = _chosen(visible, query)
    start = start_of("programs", query, len(chosen))
    shown = chosen[start : start + SHOWN]
    doubtful, in_doubt = doubts.table(site, store, reader)
    matrix, losses = interference.matrix(site, store)
    pairs, costly = interference.pairs(site, store, reader)
    text = query.get("find", "")
    return Page(
        name="programs",
        title="Programs",
        facts={
            "programs": [facts_of(one) for one in shown],
            "first": start + 1 if shown else 0,
            "chosen": len(chosen),
            "known": len(visible),
            "doubts": doubtful,
            "matrix": matrix,
            "worst_pairs": pairs,
        },
        sentences=[ABOUT.format(share_text(site.policy.min_confidence))],
        fields=(
            Field("find", "Find", text),
            Field("pattern", "Pattern", query.get("pattern", ""), any_of(PATTERNS)),
            Field("evidence", "Known by", query.get("evidence", "user_name"), _evidences()),
        ),
        tables=[
            Table.of(
                "programs",
                f"Programs {start + 1} to {start + len(shown)} of {len(chosen)}",
                COLUMNS,
                [row_of(one, site) for one in shown],
                empty="No program of this kind is known.",
                sorted_by=query.get("sort", "programs:-written").partition(":")[2],
                is_headed=True,
                links=links_from("programs", start, SHOWN, len(chosen)),
            ),
            in_doubt.found(text),
            costly.found(text),
            losses,
        ],
    )


ABOUT = (
    "I/O of the next run of each program, estimated from earlier runs. "
    "Below MinConfidence ({}) Sluice abstains."
)
EVIDENCE = ("user_name", "user_script", "user_arguments", "user_size", "name")


def _evidences() -> dict[str, str]:
    return {name: sentence("evidence", name) for name in EVIDENCE} | {"all": "any of these"}


def _chosen(visible: Sequence[Entry], query: Mapping[str, str]) -> list[Entry]:
    evidence, pattern = query.get("evidence", "user_name"), query.get("pattern", "")
    wanted = query.get("find", "").casefold().split()
    found = [
        one
        for one in visible
        if evidence in {"all", one.evidence}
        and pattern in {"", one.pattern}
        and all(word in one.label.casefold() for word in wanted)
    ]
    table, _, order = query.get("sort", "").partition(":")
    name = ORDERS.get(order.removeprefix("-"))
    if table == "programs" and name:
        found.sort(key=lambda one: _order(getattr(one, name)), reverse=order.startswith("-"))
    return found


ORDERS = {
    "program": "label",
    "user": "uid",
    "pattern": "pattern",
    "chunk": "chunk_bytes",
    "processes": "nprocs",
    "written": "write_bytes",
    "read": "read_bytes",
    "io_share": "io_share",
    "confidence": "confidence",
    "runs": "runs",
}
"""What a column is sorted by: before the page is cut out, not after."""


def _order(value: str | float | None) -> tuple[int, float, str]:
    if value is None:
        return 0, 0.0, ""
    return (2, 0.0, value) if isinstance(value, str) else (1, float(value), "")


RUNS = (
    Column("started", "Run", moment, lambda run: run.log.start),
    Column("job", "Job", job_cell, lambda run: run.log.jobid),
    Column("program", "Program", of=lambda run: program_name(run.log.exe or "")),
    Column("pattern", "Pattern", of=lambda run: run.profile.pattern),
    Column("confidence", "Confidence", SHARE, lambda run: run.profile.confidence),
    Column("written", "Written", BYTES, lambda run: run.profile.numbers.get("write_bytes")),
    Column("read", "Read", BYTES, lambda run: run.profile.numbers.get("read_bytes")),
    Column("chunk", "Chunk", BYTES, lambda run: run.profile.numbers.get("chunk_bytes")),
    Column("processes", "Processes", number, lambda run: run.log.nprocs),
    Column("log", "Darshan log", of=lambda run: Path(run.log.path).name),
)


def program_page(site: Site, store: Store, reader: Reader, application: int) -> Page:
    """Show one program: its profile and the runs behind it; raises UnknownJobError."""
    one = entry(site, store, reader, application)
    profile = profile_of(site, one)
    runs = [run for run in store.models.runs_behind(application) if reader.viewer.sees(run.log.uid)]
    return Page(
        name="programs",
        title=name_of(one),
        facts={
            "program": facts_of(one),
            "profile": profile,
            "runs": [
                {
                    "started": run.log.start,
                    "job_id": run.log.jobid,
                    "exe": run.log.exe,
                    "pattern": run.profile.pattern,
                    "confidence": run.profile.confidence,
                    "numbers": run.profile.numbers,
                    "path": run.log.path,
                }
                for run in runs
            ],
        },
        sentences=[_grounds(one)],
        subject=subject_of(store, site.now, one) if reader.is_operator else None,
        tables=[
            _profile_table(profile),
            Table.of("runs", "The latest runs behind it", RUNS, runs),
        ],
    )


def _grounds(one: Entry) -> str:
    by = "" if one.uid is None else f" by {user_text(one.uid)}"
    return (
        f"Based on {count_text(one.runs, 'earlier run')} ({sentence('evidence', one.evidence)})"
        f"{by}. Pattern {one.pattern}, {share_text(one.confidence)} certain."
    )


NUMBERS = (
    ("write_bytes", "Written", bytes_text),
    ("read_bytes", "Read", bytes_text),
    ("chunk_bytes", "Chunk", bytes_text),
    ("read_chunk_bytes", "Bytes a read", bytes_text),
    ("read_sequential_share", "Read in order", share_text),
    ("read_cached_share", "Read from the cache", share_text),
    ("nprocs", "Processes", "{:.0f}".format),
    ("files", "Files", "{:.0f}".format),
    ("rate", "Rate alone", rate_text),
    ("metadata_rate", "Metadata a second", "{:.3g}".format),
    ("io_share", "I/O share of the run time", share_text),
    ("burst_seconds", "Bursts of", duration_text),
    ("period_seconds", "every", duration_text),
    ("runtime_seconds", "Run time", duration_text),
    ("bytes_per_flush", "Bytes per flush", bytes_text),
)


def _profile_table(profile: Facts) -> Table:
    between = intervals(profile) if profile else {}
    return Table(
        "profile",
        "Prediction of its next run",
        (
            Head("what", "What"),
            Head("value", "Expected", is_number=True),
            Head("low", "nine in ten from", is_number=True),
            Head("high", "to", is_number=True),
        ),
        [
            [
                words(title),
                number(profile[name], text),
                *(number(end, text) for end in between.get(name) or (None, None)),
            ]
            for name, title, text in NUMBERS
            if profile.get(name) is not None
        ],
        is_headed=True,
    )
