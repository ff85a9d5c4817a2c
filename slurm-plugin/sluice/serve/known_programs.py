"""The programs that the published bundle knows, with the runs and jobs that stand for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.serve.tables import BYTES, SHARE, Column, Subject, number, words
from sluice.slurm.records import UnknownJobError
from sluice.slurm.views.reviews import forecast, jobs_of_program, selector_text
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from sluice.history_db.store import Store
    from sluice.serve.site import Reader, Site

Facts = dict[str, Any]


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
    read_bytes: float | None
    io_share: float | None


def entries(site: Site, store: Store) -> list[Entry]:
    """Return what the published bundle knows, those that write most first."""
    return site.latest.of(Path(site.config.bundle), "entries", lambda: _entries(site, store))


def _entries(site: Site, store: Store) -> list[Entry]:
    bundle = site.bundle
    if bundle is None:
        return []
    known = {one.id: one for one in store.models.known_applications(store.models.model_in_use())}
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
                read_bytes=profile.read_bytes,
                io_share=profile.io_share,
            )
        )
    return sorted(found, key=lambda one: -(one.write_bytes or 0.0))


COLUMNS = (
    Column(
        "program",
        "Program",
        of=lambda row: words(row["name"], href=f"/programs/{row['application']}"),
    ),
    Column("user", "User"),
    Column("pattern", "Pattern"),
    Column("chunk", "Chunk", BYTES, "chunk_bytes"),
    Column("processes", "Processes", number, "nprocs"),
    Column("written", "Written a run", BYTES, "write_bytes"),
    Column("read", "Read a run", BYTES, "read_bytes"),
    Column("io_share", "I/O share", SHARE),
    Column("confidence", "Confidence", SHARE, "confidence_cell"),
    Column("runs", "Runs", number),
)


def is_visible(one: Entry, reader: Reader) -> bool:
    return reader.viewer.sees_all or (one.uid is not None and reader.viewer.sees(one.uid))


def facts_of(one: Entry) -> Facts:
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
        "read_bytes": one.read_bytes,
        "io_share": one.io_share,
    }


def name_of(one: Entry) -> str:
    """Return the label without the user, which has a column of its own."""
    return one.label.replace(f" of user {one.uid}", "")


def row_of(one: Entry, site: Site) -> Facts:
    """Return the facts, and how sure they are below MinConfidence."""
    tone = "" if one.confidence >= site.policy.min_confidence else "dim"
    return facts_of(one) | {
        "name": name_of(one),
        "confidence_cell": SHARE(one.confidence, tone=tone, share=one.confidence),
    }


def entry(site: Site, store: Store, reader: Reader, application: int) -> Entry:
    """Return a program that the viewer may see; raises UnknownJobError."""
    one = next((one for one in entries(site, store) if one.id == application), None)
    if one is None or not is_visible(one, reader):
        raise UnknownJobError(f"no program {application} is in the bundle in use")
    return one


def number_of(site: Site, store: Store, uid: int, name: str) -> int | None:
    """Return the program that the bundle knows by a user and a job name, without its numbers."""

    def by_label() -> dict[str, int]:
        known = (one for one in entries(site, store)[::-1] if one.evidence == "user_name")
        return {one.label: one.id for one in known}

    found = site.latest.of(Path(site.config.bundle), "by_label", by_label)
    return found.get(f"{name} of user {uid}")


def profile_of(site: Site, one: Entry) -> Facts:
    bundle = site.bundle
    return bundle.application(one.place).profile.to_dict() if bundle else {}


def subject_of(store: Store, now: int, *sides: Entry) -> Subject | None:
    """Return what is ruled on where these programs are shown; None: no jobs are known."""
    jobs = [jobs_of_program(store, one.id) for one in sides]
    if not all(jobs):
        return None
    fields = zip(("program", "with_program"), sides, strict=False)
    return Subject(
        " and ".join(map(selector_text, jobs)).capitalize(),
        {name: str(one.id) for name, one in fields},
        forecast(store, jobs, now),
    )
