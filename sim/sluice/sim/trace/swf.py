"""Reads the Standard Workload Format of the Parallel Workloads Archive, plain or gzipped.

The numbers are read in C (sim/engine/trace/swf.h): a million lines take about a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.sim._engine import ffi, lib
from sluice.sim.errors import TraceError
from sluice.sim.trace.jobs import BadLine, JobEnd, Trace, numbered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

FIELDS: int = lib.SLUICE_SWF_FIELDS
NAMED_PROBLEMS = 1000
"""So many broken lines are named; all are counted."""

_FAULTS = {
    lib.SLUICE_SWF_NO_NUMBER: "field {field} is no number",
    lib.SLUICE_SWF_TOO_FEW_FIELDS: "has {field} fields instead of 18",
    lib.SLUICE_SWF_TOO_MANY_FIELDS: "has {field} fields, more than the first job",
}
_OUTCOMES = np.array(
    [
        JobEnd.FAILED,
        JobEnd.COMPLETED,
        *(JobEnd.PARTIAL,) * 3,
        JobEnd.CANCELLED,
        JobEnd.UNKNOWN,  # -1, as the last element
    ],
    np.int8,
)


def read_swf(name: str, text: bytes) -> Trace:
    """Read the text of a trace; name is the file's."""
    rows, problems, problem_count = _rows(text)
    if not len(rows):
        where = f"; line {problems[0].number} {problems[0].reason}" if problems else ""
        raise TraceError(
            f"{name}: no job in it{where}; give a trace in the Standard Workload Format, "
            "18 numbers a line"
        )
    header = read_header(text)
    users, user_names = numbered(rows[:, 11])
    groups, group_names = numbered(rows[:, 12])
    partitions, partition_names = numbered(rows[:, 15])
    wait = rows[:, 2]
    asked, given = rows[:, 7], rows[:, 4]
    status = rows[:, 10]
    known = (status >= 0) & (status < len(_OUTCOMES) - 1)
    return Trace(
        name=name,
        job_id=_whole(rows[:, 0]),
        submit=_known(rows[:, 1]),
        start=_known(rows[:, 1]) + _known(wait),
        runtime=_known(rows[:, 3]),
        limit=_known(rows[:, 8]),
        slots=_whole(np.where(asked > 0, asked, given)),
        outcome=_OUTCOMES[np.where(known, status, -1).astype(np.int64)],
        user=users,
        users=user_names,
        account=groups,
        accounts=group_names,
        partition=partitions,
        partitions=partition_names,
        after=_whole(rows[:, 16]),
        think_time=np.maximum(rows[:, 17], 0),
        epoch=header_number(header, "UnixStartTime", 0.0),
        machine_slots=int(
            header_number(header, "MaxProcs", 0) or header_number(header, "MaxNodes", 0)
        ),
        max_limit=header_number(header, "MaxRuntime", np.nan),
        header=header,
        bad_lines=problems,
        bad_line_count=problem_count,
    )


def read_header(text: bytes) -> dict[str, tuple[str, ...]]:
    """Return the fields of the comments at the beginning: `; MaxProcs: 100`, some repeated.

    A comment that begins with blanks alone goes on with the field before it.
    """
    fields: dict[str, list[str]] = {}
    last = ""
    position = 0
    while text.startswith(b";", position):
        end = text.find(b"\n", position)
        end = end if end >= 0 else len(text)
        comment = text[position:end].lstrip(b"; \t").rstrip().decode(errors="replace")
        name, colon, value = comment.partition(":")
        if colon and name.isidentifier() and not value.startswith("//"):
            fields.setdefault(name, []).append(value.strip())
            last = name
        elif comment and last:
            fields[last].append(comment)
        position = end + 1
    return {name: tuple(values) for name, values in fields.items()}


def header_number(header: Mapping[str, tuple[str, ...]], name: str, fallback: float) -> float:
    """Return the number that a field of the header begins with, where it is above 0."""
    for value in header.get(name, ()):
        try:
            number = float(value.split()[0])
        except (IndexError, ValueError):
            continue
        if 0 < number < np.inf:
            return number
    return fallback


def _rows(text: bytes) -> tuple[NDArray[np.float64], tuple[BadLine, ...], int]:
    buffer = ffi.from_buffer(text)
    rows = np.empty((lib.sluice_swf_lines(buffer, len(text)), FIELDS))
    problems = ffi.new("struct sluice_swf_problem[]", NAMED_PROBLEMS)
    reader: Any = ffi.new("struct sluice_swf_reader *")
    reader.text, reader.size = buffer, len(text)
    reader.rows, reader.row_capacity = ffi.cast("double *", rows.ctypes.data), len(rows)
    reader.problems, reader.problem_capacity = problems, NAMED_PROBLEMS
    lib.sluice_swf_read(reader)
    named = tuple(
        BadLine(one.line, _FAULTS[one.fault].format(field=one.field))
        for one in problems[0 : min(reader.problem_count, NAMED_PROBLEMS)]
    )
    return rows[: reader.row_count], named, reader.problem_count


def _known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values with those that are not known as NaN."""
    return np.where(values >= 0, values, np.nan)


def _whole(values: NDArray[np.float64]) -> NDArray[np.int64]:
    return values.astype(np.int64)
