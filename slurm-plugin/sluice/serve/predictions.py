"""The pages of predictions: the programs that the bundle knows, the runs behind one, the matrix.

The worst pairs read the newest 50,000 logs, which takes a minute: they are those that were computed
last, by a process of their own, and say when.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.history_db.records import program_name
from sluice.interference.cost import default_model
from sluice.interference.observations import alone_rates, site_coruns
from sluice.interference.programs import WRITES, Program, size_text
from sluice.policies.core import PATTERNS, sentence
from sluice.serve.tables import (
    AMOUNT,
    BYTES,
    SHARE,
    Cell,
    Column,
    Field,
    Page,
    Subject,
    Table,
    any_of,
    job_cell,
    links_from,
    moment,
    number,
    start_of,
    words,
)
from sluice.slurm.formatting import (
    bytes_text,
    duration_text,
    intervals,
    rate_text,
    share_text,
    time_text,
)
from sluice.slurm.records import UnknownJobError
from sluice.slurm.reviews import jobs_of_program, selector_text
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.history_db.store import Store
    from sluice.serve.access import Who
    from sluice.serve.site import Site

Facts = dict[str, Any]

SHOWN = 100
"""Programs on a page."""
CHUNKS = (1 << 16, 1 << 20, 1 << 24)
"""Of the matrix."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A program as the bundle's table knows it; numbers are those of its usual run."""

    place: int
    """In the bundle's table."""
    id: int
    evidence: str
    label: str
    uid: int | None
    """None: of several users."""
    runs: int
    pattern: str
    confidence: float
    chunk_bytes: float | None
    nprocs: float | None
    write_bytes: float | None
    io_share: float | None


def entries(site: Site, store: Store) -> list[Entry]:
    """Return what the published bundle knows, those that write most first."""
    return site.latest.of(Path(site.config.bundle), "entries", lambda: _entries(site, store))


def _entries(site: Site, store: Store) -> list[Entry]:
    bundle = site.bundle
    if bundle is None:
        return []
    known = {one.id: one for one in store.known_applications(store.model_in_use())}
    found = []
    for place, one in enumerate(bundle.applications()):
        label, profile = known.get(one.id), one.profile
        if label is None:
            continue  # of a model that the history does not keep any more
        found.append(
            Entry(
                place=place,
                id=label.id,
                evidence=label.evidence,
                label=label.label,
                uid=label.uid if label.evidence.startswith("user_") else None,
                runs=label.runs,
                pattern=profile.pattern,
                confidence=profile.confidence,
                chunk_bytes=profile.chunk_bytes,
                nprocs=profile.nprocs,
                write_bytes=profile.write_bytes,
                io_share=profile.io_share,
            )
        )
    return sorted(found, key=lambda one: -(one.write_bytes or 0.0))


COLUMNS = (
    Column(
        "program",
        "Program",
        of=lambda one: Cell(words(_name(one)).text, None, f"/predictions/{one['application']}"),
    ),
    Column("user", "User"),
    Column("pattern", "Pattern"),
    Column("chunk", "Chunk", BYTES, "chunk_bytes"),
    Column("processes", "Processes", number, "nprocs"),
    Column("written", "Written a run", BYTES, "write_bytes"),
    Column("io_share", "I/O share", SHARE),
    Column("confidence", "Confidence", SHARE, "confidence_cell"),
    Column("runs", "Runs", number),
)


def page(site: Site, store: Store, who: Who, query: Mapping[str, str]) -> Page:
    """List programs, as many as fit on a page; `find`, `pattern` and `evidence` choose."""
    visible = [one for one in entries(site, store) if _is_visible(one, who)]
    chosen = _chosen(visible, query)
    start = start_of(query, len(chosen))
    shown = chosen[start : start + SHOWN]
    return Page(
        name="predictions",
        title="Predictions",
        facts={
            "programs": [_facts(one) for one in shown],
            "first": start + 1 if shown else 0,
            "chosen": len(chosen),
            "known": len(visible),
        },
        sentences=[ABOUT.format(share_text(site.policy.min_confidence))],
        fields=(
            Field("find", "Find", query.get("find", "")),
            Field("pattern", "Pattern", query.get("pattern", ""), any_of(PATTERNS)),
            Field("evidence", "Known by", query.get("evidence", "user_name"), _evidences()),
        ),
        tables=[
            Table.of(
                "programs",
                f"Programs {start + 1} to {start + len(shown)} of {len(chosen)}",
                COLUMNS,
                [_row(one, site) for one in shown],
                empty="No program of this kind is known.",
                sorted_by=query.get("sort", "programs:-written").partition(":")[2],
                is_headed=True,
            )
        ],
        links=links_from(start, SHOWN, len(chosen)),
    )


ABOUT = (
    "What the next run of each program will do to storage, as its earlier runs let expect. "
    "Below MinConfidence ({}) Sluice abstains."
)
EVIDENCE = ("user_name", "user_script", "user_arguments", "name", "account", "site")


def _evidences() -> dict[str, str]:
    return {name: sentence("evidence", name) for name in EVIDENCE} | {"all": "any of these"}


def _is_visible(one: Entry, who: Who) -> bool:
    return who.viewer.sees_all or (one.uid is not None and who.viewer.sees(one.uid))


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
    "io_share": "io_share",
    "confidence": "confidence",
    "runs": "runs",
}
"""What a column is sorted by: before the page is cut out, not after."""


def _order(value: str | float | None) -> tuple[int, float, str]:
    if value is None:
        return 0, 0.0, ""
    return (2, 0.0, value) if isinstance(value, str) else (1, float(value), "")


def _facts(one: Entry) -> Facts:
    return {
        "application": one.id,
        "evidence": one.evidence,
        "label": one.label,
        "uid": one.uid,
        "user": None if one.uid is None else user_text(one.uid),
        "runs": one.runs,
        "pattern": one.pattern,
        "confidence": one.confidence,
        "chunk_bytes": one.chunk_bytes,
        "nprocs": one.nprocs,
        "write_bytes": one.write_bytes,
        "io_share": one.io_share,
    }


def _row(one: Entry, site: Site) -> Facts:
    """Return the facts, and how sure they are below MinConfidence."""
    tone = "" if one.confidence >= site.policy.min_confidence else "dim"
    return _facts(one) | {"confidence_cell": SHARE(one.confidence, tone=tone, share=one.confidence)}


def _name(facts: Facts) -> str:
    """Return the label without the user, who has a column."""
    return str(facts["label"].replace(f" of user {facts['uid']}", ""))


RUNS = (
    Column("started", "Run", moment, lambda run: run.log.start),
    Column("job", "Job", job_cell, lambda run: run.log.jobid),
    Column("program", "Program", of=lambda run: program_name(run.log.exe or "")),
    Column("pattern", "Pattern", of=lambda run: run.profile.pattern),
    Column("confidence", "Confidence", SHARE, lambda run: run.profile.confidence),
    Column("written", "Written", BYTES, lambda run: run.profile.numbers.get("write_bytes")),
    Column("chunk", "Chunk", BYTES, lambda run: run.profile.numbers.get("chunk_bytes")),
    Column("processes", "Processes", number, lambda run: run.log.nprocs),
    Column("log", "Darshan log", of=lambda run: Path(run.log.path).name),
)


def entry(site: Site, store: Store, who: Who, application: int) -> Entry:
    """Return a program that the viewer may see; raises UnknownJobError."""
    one = next((one for one in entries(site, store) if one.id == application), None)
    if one is None or not _is_visible(one, who):
        raise UnknownJobError(f"no program {application} is in the bundle in use")
    return one


def number_of(site: Site, store: Store, uid: int, name: str) -> int | None:
    """Return the program that the bundle knows by a user and a job name, without its numbers."""

    def by_label() -> dict[str, int]:
        known = (one for one in entries(site, store)[::-1] if one.evidence == "user_name")
        return {one.label: one.id for one in known}

    found = site.latest.of(Path(site.config.bundle), "by_label", by_label)
    return found.get(f"{name} of user {uid}")


def _profile(site: Site, one: Entry) -> Facts:
    bundle = site.bundle
    return bundle.application(one.place).profile.to_dict() if bundle else {}


def _subject(store: Store, *sides: Entry) -> Subject | None:
    """Return what is ruled on where these programs are shown; None: nobody can say which jobs."""
    jobs = [jobs_of_program(store, one.id) for one in sides]
    if not all(jobs):
        return None
    fields = zip(("program", "with_program"), sides, strict=False)
    return Subject(
        " and ".join(map(selector_text, jobs)).capitalize(),
        {name: str(one.id) for name, one in fields},
    )


def program_page(site: Site, store: Store, who: Who, application: int) -> Page:
    """Show one program: its profile and the runs behind it; raises UnknownJobError."""
    one = entry(site, store, who, application)
    profile = _profile(site, one)
    runs = [run for run in store.runs_behind(application) if who.viewer.sees(run.log.uid)]
    return Page(
        name="predictions",
        title=_name(_facts(one)),
        facts={
            "program": _facts(one),
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
        subject=_subject(store, one),
        tables=[
            _profile_table(profile),
            Table.of("runs", "The latest runs behind it", RUNS, runs),
        ],
    )


def _grounds(one: Entry) -> str:
    whose = "" if one.uid is None else f" of {user_text(one.uid)}"
    return (
        f"Known by {sentence('evidence', one.evidence)}{whose}: {one.runs} runs. Pattern "
        f"{one.pattern}, {share_text(one.confidence)} certain of the pattern."
    )


NUMBERS = (
    ("write_bytes", "Written", bytes_text),
    ("read_bytes", "Read", bytes_text),
    ("chunk_bytes", "Chunk", bytes_text),
    ("nprocs", "Writing processes", "{:.0f}".format),
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
        "What its next run will do",
        (
            Column("what", "What"),
            Column("value", "Expected", number),
            Column("low", "nine in ten from", number),
            Column("high", "to", number),
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


ABOUT_MATRIX = (
    "The share of its rate that the program of a row loses while that of a column writes all the "
    "time, {} processes each. By {}."
)


def matrix_page(site: Site, store: Store, who: Who) -> Page:
    """Show who loses how much alongside whom, and which pairs cost most."""
    programs = [Program(pattern, chunk) for pattern in WRITES for chunk in CHUNKS]
    titles = [f"{one.pattern} {size_text(one.chunk_bytes)}" for one in programs]
    facts: Facts = {"programs": titles, "loss": [], "interference_model": None}
    sentences = ["No bundle is published: `sluice model publish` makes one."]
    if site.bundle is not None:
        model = default_model(store, site.config)
        facts["loss"] = site.latest.of(
            Path(site.config.bundle),
            "matrix",
            lambda: model.site.losses(programs, alone_rates(site_coruns(store))),
        )
        facts["interference_model"] = model.as_json()
        sentences = [ABOUT_MATRIX.format(programs[0].processes, model)]
    pairs = _pairs(site, store, who)
    return Page(
        name="interference",
        title="Interference",
        facts=facts | {"worst_pairs": pairs},
        sentences=sentences,
        tables=[_matrix_table(titles, facts["loss"]), *_pair_tables(pairs)],
    )


def _matrix_table(titles: Sequence[str], losses: Sequence[Sequence[float]]) -> Table:
    return Table(
        "matrix",
        "Who loses how much alongside whom",
        (
            Column("loses", "Loses"),
            *(Column(title.replace(" ", "_"), title, number) for title in titles),
        ),
        [
            [words(title), *(number(loss, share_text, tone=_heat(loss)) for loss in row)]
            for title, row in zip(titles, losses, strict=False)
        ],
        is_headed=True,
    )


def _heat(loss: float) -> str:
    return f"heat{max(0, min(9, int(10 * loss)))}"


def _pairs(site: Site, store: Store, who: Who) -> Facts | None:
    """Return the worst pairs as computed last, with the names that the viewer may see."""
    found = site.rankings
    if found is None:
        return None
    rows = []
    for row in found["pairs"]:
        sides = [who.viewer.sees(row[f"{side}_uid"]) for side in SIDES]
        programs = {
            f"{side}_program": number_of(site, store, row[f"{side}_uid"], row[side])
            for side in SIDES
        }
        if any(sides):
            rows.append(
                row
                | programs
                | {
                    name: None
                    for side, seen in zip(SIDES, sides, strict=True)
                    if not seen
                    for name in (side, f"{side}_uid", f"{side}_user", f"{side}_program")
                }
            )
    return {"computed": found["computed"], "failed": who.told(found["failed"]), "rows": rows}


SIDES = ("victim", "aggressor")


PAIRS = (
    Column("victim_user", "User", of=lambda row: _user(row, "victim")),
    Column("victim", "Application", of=lambda row: row["victim"] or ANOTHER),
    Column("aggressor_user", "Alongside user", of=lambda row: _user(row, "aggressor")),
    Column("aggressor", "Application", of=lambda row: row["aggressor"] or ANOTHER),
    Column("lost", "Lost node-hours", AMOUNT),
    Column("look", "Look at", of=lambda r: pair_cell(r["victim_program"], r["aggressor_program"])),
)
ANOTHER = "another user's"


def _pair_tables(pairs: Facts | None) -> list[Table]:
    note = (
        "They are being computed, from the newest 50,000 logs; come back in a minute."
        if pairs is None
        else f"They could not be computed: {pairs['failed']}"
        if pairs["failed"]
        else f"Computed {time_text(pairs['computed'])}, from the newest 50,000 logs."
    )
    return [
        Table.of(
            "pairs",
            "Pairs that cost most",
            PAIRS,
            (pairs or {"rows": []})["rows"],
            empty="None that is known.",
            note=note,
        )
    ]


def pair_cell(one: int | None, other: int | None) -> Cell:
    """Return a link to the page of a pair, where the bundle knows both."""
    known = one is not None and other is not None
    return words("the two", href=f"/interference/{one}/{other}") if known else words(None)


ABOUT_PAIR = (
    "What each of the two loses of its rate while the other writes, on the same targets. By {}."
)
SIDE_COLUMNS = (
    *COLUMNS,
    Column("loses", "Loses to the other", lambda loss: number(loss, share_text, tone=_heat(loss))),
)


def pair_page(site: Site, store: Store, who: Who, one: int, other: int) -> Page:
    """Show two programs and what they do to each other; raises UnknownJobError."""
    sides = [entry(site, store, who, number_) for number_ in (one, other)]
    profiles = [_profile(site, side) for side in sides]
    model = default_model(store, site.config)
    losses = [
        1 - model.site.profile_share(own, [others])
        for own, others in (profiles, reversed(profiles))
    ]
    return Page(
        name="interference",
        title=" and ".join(_name(_facts(side)) for side in sides),
        facts={
            "programs": [
                _facts(side) | {"loses": loss} for side, loss in zip(sides, losses, strict=True)
            ],
            "interference_model": model.as_json(),
        },
        sentences=[ABOUT_PAIR.format(model)],
        subject=_subject(store, *sides),
        tables=[
            Table.of(
                "programs",
                "The two programs",
                SIDE_COLUMNS,
                [
                    _row(side, site) | {"loses": loss}
                    for side, loss in zip(sides, losses, strict=True)
                ],
                is_headed=True,
            )
        ],
    )


def _user(row: Facts, side: str) -> str:
    uid = row[f"{side}_uid"]
    return row[f"{side}_user"] or (ANOTHER if uid is None else user_text(uid))
