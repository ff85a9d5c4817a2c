"""Jobs as a trace tells them, and the Standard Workload Format.

Nothing is repaired here: what a trace does not say is NaN, -1 or UNKNOWN. repairs.py makes a
workload of it.

Reads the Standard Workload Format of the Parallel Workloads Archive, plain or gzipped. The numbers
are read in C (sim/engine/trace/swf.h): a million lines take about a second.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.sim._engine import ffi, lib
from sluice.sim.engine import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray


class JobEnd(IntEnum):
    """How a job ended, as the trace says."""

    UNKNOWN = -1
    FAILED = 0
    COMPLETED = 1
    PARTIAL = 2
    """A piece of a job that another line tells whole (SWF status 2 to 4)."""
    CANCELLED = 5
    TIMEOUT = 6


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of the file that was passed over."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Trace:
    """Columns of equal length, in the order of the file."""

    name: str
    """Of the file, for messages."""
    job_id: NDArray[np.int64]
    submit: NDArray[np.float64]
    """Seconds since `epoch`, like begin and start."""
    runtime: NDArray[np.float64]
    limit: NDArray[np.float64]
    """Seconds asked for."""
    slots: NDArray[np.int64]
    """Processors, or nodes: what `slot` says."""
    slot: str = "processor"
    begin: NDArray[np.float64] | None = None
    """When it became eligible."""
    start: NDArray[np.float64] | None = None
    """When it really started."""
    outcome: NDArray[np.int8] | None = None
    """JobEnd."""
    user: NDArray[np.int64] | None = None
    """Index into users; -1: unknown. So account and partition."""
    account: NDArray[np.int64] | None = None
    partition: NDArray[np.int64] | None = None
    users: Sequence[str] = ()
    accounts: Sequence[str] = ()
    partitions: Sequence[str] = ()
    after: NDArray[np.int64] | None = None
    """Id of a job that must end before this one is submitted; -1: none."""
    think_time: NDArray[np.float64] | None = None
    """Seconds from that end."""
    epoch: float = 0.0
    """UTC seconds of time 0."""
    machine_slots: int = 0
    """What the machine had, as the trace says; 0: it does not."""
    slots_per_node: float = 1.0
    """Processors of a node where slots are processors; 1 where the trace does not say."""
    max_limit: float = np.nan
    """The longest run time that was allowed, in seconds."""
    header: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the file says of itself, by field."""
    bad_lines: tuple[BadLine, ...] = ()
    bad_line_count: int = 0

    def __len__(self) -> int:
        return len(self.job_id)


def codes(names: Iterable[str | None]) -> tuple[NDArray[np.int64], list[str]]:
    """Return a number for each name, and the names; None and the empty name are -1."""
    known: dict[str, int] = {}
    numbers = [known.setdefault(name, len(known)) if name else -1 for name in names]
    return np.array(numbers, np.int64), list(known)


def numbered(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], list[str]]:
    """Return the same for numbers that stand for names; negative ones are unknown."""
    known, index = np.unique(values[values >= 0], return_inverse=True)
    numbers = np.full(len(values), -1, np.int64)
    numbers[values >= 0] = index
    return numbers, [f"{name:g}" for name in known]


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
        slots_per_node=_processors_of_a_node(header),
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


def _processors_of_a_node(header: Mapping[str, tuple[str, ...]]) -> float:
    nodes = header_number(header, "MaxNodes", 0)
    return max(1.0, header_number(header, "MaxProcs", 0) / nodes) if nodes else 1.0


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
