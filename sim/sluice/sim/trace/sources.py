"""Opens a trace, whatever its format."""

from __future__ import annotations

import codecs
import gzip
import zlib
from typing import TYPE_CHECKING

from sluice.history_db.store import Store
from sluice.sim.errors import TraceError
from sluice.sim.trace.accounting import read_sacct, read_sacct_json, trace_of_jobs
from sluice.sim.trace.swf import read_swf
from sluice.sim.trace.table import read_csv

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sluice.sim.trace.jobs import Trace

FORMATS = ("swf", "sacct", "sacct-json", "csv", "history")
SQLITE = b"SQLite format 3\0"


def read_trace(
    path: Path,
    *,
    kind: str | None = None,
    columns: Mapping[str, str] | None = None,
    slot: str | None = None,
    cluster: str | None = None,
    latest: int | None = None,
) -> Trace:
    """Read the trace at path, gzipped or not.

    kind is one of FORMATS, by default what the text looks like; columns says which column of
    a CSV holds what (table.COLUMNS). Of accounting, slot is what is counted, and cluster whose jobs
    (accounting.trace_of_jobs). Of a history, the last `latest` jobs.
    """
    name, text = str(path), _content(path)
    if not text.strip():
        raise TraceError(f"{name}: no job in it: the file is empty; was it cut off?")
    kind = kind or ("csv" if columns else guess(text))
    if kind == "history":
        with Store(path, read_only=True) as store:
            jobs = store.all_jobs(latest=latest)
        if not jobs:
            raise TraceError(
                f"{name}: no job in it; read accounting with `sluice history ingest --sacct`"
            )
        return trace_of_jobs(name, jobs, slot=slot, cluster=cluster)
    if kind == "swf":
        return read_swf(name, text)
    if kind == "csv":
        return read_csv(name, text.decode(errors="replace"), columns or {})
    if kind == "sacct-json":
        return read_sacct_json(name, text, slot=slot, cluster=cluster)
    return read_sacct(name, text.decode(errors="replace"), slot=slot, cluster=cluster)


def is_history(path: Path) -> bool:
    """Whether a file is a history of Sluice, or another database like it; a pipe is none."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(SQLITE)) == SQLITE


def guess(text: bytes) -> str:
    """Say which format a text looks like."""
    if text.startswith(SQLITE):
        return "history"
    start = text[:4096].lstrip()
    first = start.split(b"\n", 1)[0]
    if start.startswith(b"{"):
        return "sacct-json"
    if b"|" in first and b"jobid" in first.lower():
        return "sacct"
    if start.startswith(b";") or (len(first.split()) > 1 and b"," not in first):
        return "swf"
    return "csv"


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise TraceError(f"{path}: damaged gzip file ({error}); fetch it again") from error
    return _without_mark(path, content)


def _without_mark(path: Path, content: bytes) -> bytes:
    """Take off what spreadsheets and Windows put before a text; UTF-16 becomes UTF-8."""
    if not content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.removeprefix(codecs.BOM_UTF8)
    try:
        return content.decode("utf-16").encode()
    except UnicodeError as error:
        raise TraceError(f"{path}: damaged UTF-16 text ({error}); fetch it again") from error
