"""Opens a trace, whatever its format: accounting, CSV, SWF, a history.

Reads Slurm's accounting as a trace: what sacct printed, and the history. Tasks of an
array are jobs of their own there; begin times, dependencies and licences are not in it, so a replay
submits each job at its submission.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from sluice.history_db.errors import HistoryError
from sluice.history_db.sacct import BrokenLine, SacctError, count_of, parse_sacct
from sluice.history_db.store import Store
from sluice.sim.engine import TraceError
from sluice.sim.trace.jobs import FIELDS, BadLine, JobEnd, Trace, codes, read_swf

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sluice.history_db.records import Job


OUTCOMES = {
    "COMPLETED": JobEnd.COMPLETED,
    "CANCELLED": JobEnd.CANCELLED,
    "TIMEOUT": JobEnd.TIMEOUT,
    "DEADLINE": JobEnd.TIMEOUT,
    "FAILED": JobEnd.FAILED,
    "NODE_FAIL": JobEnd.FAILED,
    "BOOT_FAIL": JobEnd.FAILED,
    "OUT_OF_MEMORY": JobEnd.FAILED,
    "PREEMPTED": JobEnd.FAILED,
}
"""By Slurm's name of the state; others are unknown, like jobs that run or wait."""
SHARED = 0.9
"""Jobs that took less of the processors of their nodes shared these with others."""


def trace_of_jobs(
    name: str,
    jobs: Sequence[Job],
    *,
    bad_lines: Sequence[BadLine] = (),
    slot: str | None = None,
    cluster: str | None = None,
) -> Trace:
    """Make a trace of accounting records.

    slot: what is counted, `node` or `processor`; None: processors where jobs shared nodes.
    cluster: of which jobs are read; None: the only one.
    """
    if not jobs:
        raise TraceError(f"{name}: no job in it")
    jobs = _of_cluster(name, jobs, cluster)
    slot = slot or ("processor" if _shared_nodes(jobs) else "node")
    start, end = (_column([getattr(job, what) for job in jobs]) for what in ("start", "end"))
    users, user_names = codes(job.user or (str(job.uid) if job.uid else None) for job in jobs)
    accounts, account_names = codes(job.account for job in jobs)
    partitions, partition_names = codes(job.partition for job in jobs)
    size = "nodes" if slot == "node" else "cpus"
    return Trace(
        name=name,
        slot=slot,
        slots_per_node=_processors_of_a_node(jobs) if slot == "processor" else 1.0,
        job_id=np.array([job.job_id for job in jobs], np.int64),
        submit=_column([job.submit or None for job in jobs]),
        start=start,
        runtime=end - start,
        limit=_column([job.time_limit for job in jobs]) * 60,
        slots=np.array([getattr(job, size) or -1 for job in jobs], np.int64),
        outcome=np.array([OUTCOMES.get(job.state or "", JobEnd.UNKNOWN) for job in jobs], np.int8),
        user=users,
        users=user_names,
        account=accounts,
        accounts=account_names,
        partition=partitions,
        partitions=partition_names,
        bad_lines=tuple(bad_lines),
        bad_line_count=len(bad_lines),
    )


def _of_cluster(name: str, jobs: Sequence[Job], cluster: str | None) -> Sequence[Job]:
    clusters = sorted({job.cluster for job in jobs})
    if cluster is None and len(clusters) == 1:
        return jobs
    if cluster not in clusters:
        raise TraceError(
            f"{name}: its jobs are of the clusters {', '.join(clusters)}; choose one by `cluster` "
            "in [trace] of a --scenario"
        )
    return [job for job in jobs if job.cluster == cluster]


def _shared_nodes(jobs: Sequence[Job]) -> bool:
    """Whether jobs left processors of their nodes to others; unknown counts as no.

    A node of a partition has as many as any job took of one.
    """
    ran = [job for job in jobs if job.start is not None and job.end is not None]
    if not all(job.nodes and job.cpus for job in ran):
        return False
    of_node = np.array([(job.cpus or 0) / (job.nodes or 1) for job in ran])
    node_seconds = [(job.nodes or 0) * ((job.end or 0) - (job.start or 0)) for job in ran]
    partition = np.unique([job.partition or "" for job in ran], return_inverse=True)[1]
    most = np.zeros(len(ran) + 1)
    np.maximum.at(most, partition, of_node)
    return bool(of_node @ node_seconds < SHARED * (most[partition] @ node_seconds))


def _processors_of_a_node(jobs: Sequence[Job]) -> float:
    """Return the most that a job took of a node; 1: none says."""
    return max((job.cpus / job.nodes for job in jobs if job.cpus and job.nodes), default=1.0)


def _column(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def read_sacct(
    name: str, text: str, *, slot: str | None = None, cluster: str | None = None
) -> Trace:
    """Read what `sacct --parsable2` printed, in this machine's time zone."""
    jobs: list[Job] = []
    bad: list[BadLine] = []
    try:
        for one in parse_sacct(text.split("\n"), name=name, is_trace=True):
            if isinstance(one, BrokenLine):
                bad.append(BadLine(one.number, one.reason))
            else:
                jobs.append(one)
    except (SacctError, HistoryError) as error:
        raise TraceError(str(error)) from error
    return trace_of_jobs(name, jobs, bad_lines=bad, slot=slot, cluster=cluster)


COLUMNS = {
    "job": "number of the job; without: the line",
    "submit": "submission: UTC seconds, or a date and time in UTC",
    "begin": "when it became eligible",
    "start": "when it started",
    "end": "when it ended",
    "runtime": "how long it ran: seconds, or days-hours:minutes:seconds; without: end - start",
    "limit": "how long it may, likewise",
    "slots": "nodes or processors",
    "user": "its user",
    "account": "its account",
    "partition": "its partition",
    "state": "Slurm's name of how it ended",
}
"""What a CSV may hold, each in a column of that name or of a usual one (TITLES) unless the map
says otherwise."""
TITLES = {
    "job": ("jobid", "jobidraw", "jobnumber", "id"),
    "submit": ("submittime", "submitted", "submission", "submissiontime", "qtime"),
    "begin": ("eligible", "eligibletime"),
    "start": ("starttime", "started"),
    "end": ("endtime", "ended"),
    "runtime": ("elapsed", "elapsedraw", "elapsedtime", "duration", "runseconds"),
    "limit": ("timelimit", "wallclockreq", "walltimereq", "reqwalltime", "requestedtime"),
    "slots": (
        *("nodes", "nodesreq", "nnodes", "reqnodes", "allocnodes", "numnodes"),
        *("processors", "procs", "ncpus", "reqcpus", "alloccpus", "cpus", "cores", "coresreq"),
    ),
    "user": ("userid", "uid", "username"),
    "account": ("project", "accountname", "group", "groupid"),
    "partition": ("queue", "queuename"),
    "state": ("jobstate", "status", "exitstatus"),
}
"""Usual titles in accounting, those of sacct among them, without case, blanks and underscores."""
MOST = 1e12
"""Of seconds, of slots, of a job's number."""
SEPARATORS = ",;\t|"
_DURATION = re.compile(r"(?:(?:(\d{1,9})-)?(\d{1,9}):)?(\d{1,9}):(\d\d(?:\.\d+)?)")
"""As Slurm writes it: [[days-]hours:]minutes:seconds."""
_STEP = re.compile(r"[\d_]+\.(batch|extern|interactive|\d+)")
"""sacct's rows of steps have such numbers, and no user."""


def read_csv(name: str, text: str, columns: Mapping[str, str]) -> Trace:
    """Read a CSV with a heading; columns maps a key of COLUMNS to the name in the heading.

    What separates fields is that of SEPARATORS which the heading holds most of.
    """
    for key in columns:
        if key not in COLUMNS:
            raise TraceError(f"{name}: no column {key} in a trace; map {', '.join(COLUMNS)}")
    lines = text.splitlines()
    separator = max(SEPARATORS, key="".join(lines[:1]).count)
    reader = csv.reader(lines, delimiter=separator)
    heading = [_printable(title.strip()) for title in next(reader, [])]
    place = _places(name, heading, columns)
    of_step = _step_test(place)
    rows: list[list[str]] = []
    bad: list[BadLine] = []
    try:
        for row in reader:
            if len(row) == len(heading):
                if not of_step(row):
                    rows.append(row)
            elif row:
                bad.append(
                    BadLine(reader.line_num, f"has {len(row)} fields instead of {len(heading)}")
                )
    except csv.Error as error:
        raise TraceError(f"{name}:{reader.line_num}: {error}") from error
    if not rows:
        raise TraceError(f"{name}: no job in it")
    return _trace(name, place, rows, bad)


def _trace(
    name: str, place: Mapping[str, int], rows: Sequence[Sequence[str]], bad: list[BadLine]
) -> Trace:
    def words(key: str) -> list[str | None]:
        return [row[place[key]].strip() for row in rows] if key in place else [None] * len(rows)

    def counts(key: str) -> NDArray[np.float64]:
        shortened = [count_of(word) for word in words(key)]
        return np.where(np.isnan(numbers(key)), _column(shortened), numbers(key))

    def numbers(key: str) -> NDArray[np.float64]:
        return np.array([_number(word) for word in words(key)], np.float64)

    start, end = numbers("start"), numbers("end")
    slots = np.nan_to_num(counts("slots"), nan=-1.0)
    ids = numbers("job")
    users, user_names = codes(words("user"))
    accounts, account_names = codes(words("account"))
    partitions, partition_names = codes(words("partition"))
    states = [OUTCOMES.get((word or "").split(" ")[0], JobEnd.UNKNOWN) for word in words("state")]
    return Trace(
        name=name,
        slot="slot",
        job_id=np.where(np.isfinite(ids), ids, np.arange(1, len(rows) + 1)).astype(np.int64),
        submit=numbers("submit"),
        begin=numbers("begin") if "begin" in place else None,
        start=start if "start" in place else None,
        runtime=numbers("runtime") if "runtime" in place else end - start,
        limit=numbers("limit"),
        slots=slots.astype(np.int64),
        outcome=np.array(states, np.int8),
        user=users,
        users=user_names,
        account=accounts,
        accounts=account_names,
        partition=partitions,
        partitions=partition_names,
        bad_lines=tuple(bad),
        bad_line_count=len(bad),
    )


def _places(name: str, heading: list[str], columns: Mapping[str, str]) -> dict[str, int]:
    place = {}
    plain = [re.sub(r"[\s_-]", "", title).lower() for title in heading]
    for key in COLUMNS:
        if key in columns:
            if columns[key] not in heading:
                raise TraceError(
                    f"{name}: no column {columns[key]}; there are {', '.join(heading)}"
                )
            place[key] = heading.index(columns[key])
        elif usual := [title for title in (key, *TITLES[key]) if title in plain]:
            place[key] = plain.index(usual[0])
    missing = [key for key in ("submit", "slots") if key not in place]
    if not {"runtime"} <= place.keys() and not {"start", "end"} <= place.keys():
        missing.append("runtime (or start and end)")
    if missing:
        raise TraceError(
            f"{name}: no column for {', '.join(missing)}; name it in [trace.columns] of a "
            f'--scenario: {missing[0].split()[0]} = "TITLE" (titles: {", ".join(heading)[:200]})'
        )
    return place


def _step_test(place: Mapping[str, int]) -> Callable[[Sequence[str]], bool]:
    """Return what tells rows of steps, which sacct prints below their job's."""
    job, user = place.get("job"), place.get("user")
    if job is None or user is None:
        return lambda _: False
    return lambda row: not row[user].strip() and bool(_STEP.fullmatch(row[job].strip()))


def _printable(title: str) -> str:
    """Of a file that is no table at all, errors quote its beginning on a terminal."""
    return "".join(sign if sign.isprintable() else "?" for sign in title)


def _number(word: str | None) -> float:
    """Seconds of a number, a duration, or a date and time; NaN where it is none.

    Numbers below 0 mean that nothing is known, as in the Standard Workload Format; those that no
    job can have mean nothing either.
    """
    if not word:
        return np.nan
    try:
        number = float(word)
    except ValueError:
        pass
    else:
        return number if 0 <= number <= MOST else np.nan
    if duration := _DURATION.fullmatch(word):
        days, hours, minutes, seconds = (float(part or 0) for part in duration.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    try:
        time = datetime.fromisoformat(word)
    except ValueError:
        return np.nan
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


FORMATS = ("swf", "sacct", "csv", "history")
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
    a CSV holds what (table.COLUMNS). Of accounting, slot is what is counted, and cluster which jobs
    (accounting.trace_of_jobs). Of a history, the last `latest` jobs.
    """
    name = str(path)
    if not columns and kind in {None, "history"} and is_history(path):  # may have gigabytes
        return _read_history(path, slot=slot, cluster=cluster, latest=latest)
    text = _content(path)
    if not text.strip():
        raise TraceError(f"{name}: no job in it: the file is empty; was it cut off?")
    kind = kind or ("csv" if columns else guess(text))
    if kind == "history":
        return _read_history(path, slot=slot, cluster=cluster, latest=latest)
    if kind == "swf":
        return read_swf(name, text)
    if kind == "csv":
        return read_csv(name, text.decode(errors="replace"), columns or {})
    return read_sacct(name, text.decode(errors="replace"), slot=slot, cluster=cluster)


def _read_history(
    path: Path, *, slot: str | None, cluster: str | None, latest: int | None
) -> Trace:
    with Store(path, read_only=True) as store:
        jobs = store.jobs.all_jobs(latest=latest)
    if not jobs:
        raise TraceError(
            f"{path}: no job in it; read accounting with `sluice history ingest --sacct`"
        )
    return trace_of_jobs(str(path), jobs, slot=slot, cluster=cluster)


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
    if b"|" in first and b"jobid" in first.lower():
        return "sacct"
    if start.startswith(b";") or (len(first.split()) > 1 and b"," not in first):
        return "swf"
    if len(words := first.split()) > FIELDS and all(map(_is_number, words[:FIELDS])):
        return "swf"  # with further columns, of any form
    return "csv"


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


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
