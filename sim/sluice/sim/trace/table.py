"""Reads a trace from CSV, by a map of its columns."""

from __future__ import annotations

import csv
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from sluice.sim.errors import TraceError
from sluice.sim.trace.accounting import OUTCOMES
from sluice.sim.trace.jobs import BadLine, JobEnd, Trace, codes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

COLUMNS = {
    "job": "number of the job; without: the line",
    "submit": "submission: UTC seconds, or a date and time in UTC",
    "begin": "when it became eligible",
    "start": "when it started",
    "end": "when it ended",
    "runtime": "how long it ran: seconds, or days-hours:minutes:seconds; without: end - start",
    "limit": "how long it may, likewise",
    "slots": "nodes or processors",
    "user": "who",
    "account": "for whom",
    "partition": "where",
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

    def numbers(key: str) -> NDArray[np.float64]:
        return np.array([_number(word) for word in words(key)], np.float64)

    start, end = numbers("start"), numbers("end")
    slots = np.nan_to_num(numbers("slots"), nan=-1.0)
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
            f"{name}: no column for {', '.join(missing)}; name it, e.g. "
            f"--column {missing[0].split()[0]}=TITLE (titles: {', '.join(heading)[:200]})"
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
