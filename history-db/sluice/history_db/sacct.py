"""Reads what Slurm accounts for of jobs, as sacct prints it.

sacct escapes nothing: a job's name, submit line or comment may hold the separator or line ends.
Such a row has too many fields, or goes on in the next line; its true fields are found by what the
others must look like.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

from sluice.history_db.records import Job

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


SEPARATOR = "|"
LINE_ENDS = "\r\n\ufeff"
"""With what some programs write before the first line."""
MAX_STRAY_SEPARATORS = 256
MAX_LINES = 1000  # of a row
MAX_ROW = 4 << 20  # characters, of several lines
REMEDY = "print it with `sacct --parsable2 --allusers --format ALL`"

_TIME = r"(\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?([+-]\d\d:?\d\d|Z)?|\d+|Unknown|None|N/A)?"
_SPAN = r"([\d:.-]*|UNLIMITED|Partition_Limit|INVALID)"
_NUMBER = r"([+-]?[\d.]+[KMGTPEkcn]?|UNLIMITED|Partition_Limit|Unknown|16\?)?"
_TRES = r"([\w/:.-]+=[^,]*(,[\w/:.-]+=[^,]*)*)?"
_JOB_ID = r"\d+([_+](\d+|\[[\d,%:-]*\.*\]?))?(\.\w+(\+\d+)?)?"
_LAYOUT = {
    r"(" + _JOB_ID + ")": "JobID JobIDRaw",
    _TIME: "Eligible End Start Submit",
    _SPAN: (
        "CPUTime Elapsed Reserved Planned ResvCPU PlannedCPU Suspended SystemCPU Timelimit "
        "TotalCPU UserCPU AveCPU MinCPU"
    ),
    _NUMBER: (
        "AllocCPUS AllocNodes AssocID CPUTimeRAW DBIndex ElapsedRaw GID NCPUS NNodes NTasks "
        "Priority QOSRAW ReqCPUS ReqNodes ResvCPURAW PlannedCPURAW TimelimitRaw UID WCKeyID "
        "Restarts AveDiskRead AveDiskWrite AvePages AveRSS AveVMSize MaxDiskRead MaxDiskWrite "
        "MaxPages MaxRSS MaxVMSize ConsumedEnergy ConsumedEnergyRaw ReservationId ReqMem"
    ),
    r"[A-Z_]+( by \S+)?\+?": "State",  # never empty
    r"(\d+:\d+)?": "ExitCode DerivedExitCode",
    r"[^\s|]*": "Account Cluster Group Partition QOS User",
    _TRES: (
        "AllocTRES ReqTRES TRESUsageInAve TRESUsageInMax TRESUsageInMaxNode TRESUsageInMaxTask "
        "TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask TRESUsageInTot TRESUsageOutAve "
        "TRESUsageOutMax TRESUsageOutMaxNode TRESUsageOutMaxTask TRESUsageOutMin "
        "TRESUsageOutMinNode TRESUsageOutMinTask TRESUsageOutTot"
    ),
}
SHAPES: Mapping[str, re.Pattern[str]] = {
    name.lower(): re.compile(shape) for shape, names in _LAYOUT.items() for name in names.split()
}
"""What a field looks like, by its name in lower case."""

FREE_TEXT: Mapping[str, int] = {
    "submitline": 1,
    "constraints": 2,
    "comment": 2,
    "admincomment": 2,
    "systemcomment": 2,
    "extra": 2,
    "jobname": 3,
    "workdir": 4,
    "reason": 4,
    "stdin": 4,
    "stdout": 4,
    "stderr": 4,
    "wckey": 5,
    "reservation": 5,
    "licenses": 5,
    "container": 5,
}
"""Fields that may hold the separator, and how unlikely that is."""

UNKNOWN_FIELD = 9  # as unlikely as that
EMPTY = 5  # nothing in a field that is no free text

STEPS_OF_SLURM = {"batch", "extern", "interactive"}
MAX_BYTES = 1 << 62


class SacctError(Exception):
    """The text is not what sacct prints; the message names line and remedy."""


@dataclass(frozen=True, slots=True)
class BrokenLine:
    """A line that cannot be understood."""

    number: int
    reason: str


def parse_sacct(
    lines: Iterable[str], *, zone: tzinfo | None = None, cluster: str = "", name: str = "sacct"
) -> Iterator[Job | BrokenLine]:
    """Yield a job for every line about one, and what is wrong with the others.

    zone is the time zone sacct ran in (None: this machine's), cluster what to call the cluster
    where there is no such field. Lines about steps add the number
    of tasks and the bytes moved to their job; the heading may come again, as in files put together.
    Raises SacctError when the first line is no heading.
    """
    numbered = enumerate(lines, start=1)
    heading, closed, heading_text = _heading(numbered, name)
    job: Job | None = None
    for number, text in _rows(numbered, heading_text.count(SEPARATOR)):
        if text == heading_text:
            continue
        values = _values(text.removesuffix(SEPARATOR) if closed else text, heading)
        if isinstance(values, str):
            yield BrokenLine(number, values)
            continue
        row = dict(zip(heading, values, strict=True))
        step = _step(row)
        if step is not None:
            if job is not None:
                job = _with_step(job, step, row)
            continue
        if job is not None:
            yield job
        try:
            job = _job(row, zone, cluster)
        except ValueError as error:
            job = None
            yield BrokenLine(number, str(error))
    if job is not None:
        yield job


def _heading(numbered: Iterator[tuple[int, str]], name: str) -> tuple[list[str], bool, str]:
    """Return the fields, whether each line ends with a separator (--parsable), and the line."""
    for number, line in numbered:
        text = line.strip(LINE_ENDS)
        fields = [field.strip().lower() for field in text.split(SEPARATOR)]
        if not any(fields):
            continue
        closed = fields[-1] == ""
        if not {"jobid", "jobidraw"} & set(fields):
            raise SacctError(
                f"{name}:{number}: no heading with a field JobID separated by `|`; {REMEDY}"
            )
        return fields[: len(fields) - closed], closed, text
    raise SacctError(f"{name}: empty; {REMEDY}")


def _rows(numbered: Iterator[tuple[int, str]], separators: int) -> Iterator[tuple[int, str]]:
    """Put together the lines of each row: names and submit lines may hold line ends.

    A row goes on until it has all its separators, or a line comes that has them by itself.
    """
    parts: list[str] = []
    first = seen = size = 0
    for number, line in numbered:
        text = line.strip(LINE_ENDS)
        count = text.count(SEPARATOR)
        size += len(text)
        if parts and (count >= separators or len(parts) == MAX_LINES or size > MAX_ROW):
            yield first, "\n".join(parts)
            parts = []
        if not parts:
            first, seen, size = number, 0, len(text)
            if not text.strip():
                continue
        parts.append(text)
        seen += count
        if seen >= separators:
            yield first, "\n".join(parts)
            parts = []
    if parts:
        yield first, "\n".join(parts)


def _values(text: str, heading: list[str]) -> list[str] | str:
    """Return the value of each field of the heading, or what is wrong with the line."""
    tokens = text.split(SEPARATOR)
    stray = len(tokens) - len(heading)
    if stray < 0:
        return f"has {len(tokens)} fields where the heading has {len(heading)}"
    if stray == 0 and "\n" not in text:
        return tokens
    if stray > MAX_STRAY_SEPARATORS:
        return f"has {len(tokens)} fields where the heading has {len(heading)}"
    return _align(tokens, heading) or (
        f"has {len(tokens)} fields where the heading has {len(heading)}, and they cannot be told "
        "apart"
    )


def _align(tokens: list[str], heading: list[str]) -> list[str] | None:
    """Give each field its tokens: one, or several where a free text holds the separator.

    Of the ways in which every other field looks as it must, the most likely one is taken.
    best[s] is the cheapest way to fill the fields so far with s stray separators.
    """
    stray = len(tokens) - len(heading)
    best: list[tuple[int, tuple[int, ...]] | None] = [None] * (stray + 1)
    best[0] = (0, ())
    for column, name in enumerate(heading):
        shape = SHAPES.get(name)
        price = None if shape else FREE_TEXT.get(name, UNKNOWN_FIELD)
        following: list[tuple[int, tuple[int, ...]] | None] = [None] * (stray + 1)
        for used, way in enumerate(best):
            if way is None:
                continue
            cost, takes = way
            if price is None:
                token = tokens[column + used]
                if shape and shape.fullmatch(token):
                    _offer(following, used, cost + (0 if token else EMPTY), (*takes, 1))
                continue
            for more in range(stray - used + 1):
                extra = price * more + (price if more else 0)
                _offer(following, used + more, cost + extra, (*takes, 1 + more))
        best = following
    way = best[stray]
    if way is None:
        return None
    values, start = [], 0
    for take in way[1]:
        values.append(SEPARATOR.join(tokens[start : start + take]))
        start += take
    return values


def _offer(
    ways: list[tuple[int, tuple[int, ...]] | None], used: int, cost: int, takes: tuple[int, ...]
) -> None:
    known = ways[used]
    if known is None or cost < known[0]:
        ways[used] = (cost, takes)


def _step(row: Mapping[str, str]) -> str | None:
    """Return the name of the step that a line is about; None for a job."""
    for field in ("jobid", "jobidraw"):
        _, dot, step = row.get(field, "").partition(".")
        if dot:
            return step
    return None


def _with_step(job: Job, step: str, row: Mapping[str, str]) -> Job:
    """Add what only steps tell: the number of tasks, and the bytes that were moved."""
    tasks = None if step in STEPS_OF_SLURM else _integer(row.get("ntasks"))
    if tasks and tasks > (job.tasks or 0):
        job = replace(job, tasks=tasks)
    return replace(
        job,
        write_bytes=_sum(job.write_bytes, _moved(row, "tresusageouttot")),
        read_bytes=_sum(job.read_bytes, _moved(row, "tresusageintot")),
    )


def _sum(total: int | None, more: int | None) -> int | None:
    return total if more is None else (total or 0) + more


def _moved(row: Mapping[str, str], field: str) -> int | None:
    """Return the bytes of a step in one direction.

    fs/disk counts every read and write of its processes, fs/lustre what reached Lustre: where
    that was accounted for, it is the truth for storage.
    """
    usage = dict(item.partition("=")[::2] for item in (row.get(field) or "").split(","))
    lustre = _bytes(usage.get("fs/lustre"))
    return lustre or _bytes(usage.get("fs/disk"))


def _bytes(text: str | None) -> int | None:
    """Read a number of bytes, plain or as sacct shortens it: 12.50M."""
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,6})?)([KMGTPE]?)", (text or "").strip())
    if match is None:
        return None
    return min(int(float(match[1]) * 1024 ** (" KMGTPE".index(match[2] or " "))), MAX_BYTES)


def _job(row: Mapping[str, str], zone: tzinfo | None, cluster: str) -> Job:
    """Make a record of a line; raises ValueError when it is not clear which job this is."""
    job_id, array_task = _identity(row)
    return Job(
        cluster=row.get("cluster") or cluster,
        job_id=job_id,
        array_task=array_task,
        submit=_seconds(row.get("submit"), zone) or 0,
        restarts=_integer(row.get("restarts")) or 0,
        name=(row.get("jobname") or "").strip(SEPARATOR) or None,
        user=row.get("user") or None,
        uid=_integer(row.get("uid")),
        account=row.get("account") or None,
        partition=row.get("partition") or None,
        qos=row.get("qos") or None,
        nodes=_first_positive(row, "nnodes", "allocnodes", "reqnodes"),
        tasks=_first_positive(row, "ntasks"),
        cpus=_first_positive(row, "ncpus", "alloccpus", "reqcpus"),
        time_limit=_minutes(row),
        start=_seconds(row.get("start"), zone),
        end=_seconds(row.get("end"), zone),
        state=(row.get("state") or "").split(" ")[0].rstrip("+") or None,
        exit_code=row.get("exitcode") or None,
        submit_line=row.get("submitline") or None,
        script_signature=None,
        source="sacct",
        array_job=_array(row)[0],
        array_index=_array(row)[1],
    )


def _identity(row: Mapping[str, str]) -> tuple[int, int]:
    """Return the raw job id, or an array's id and the task where the raw one is not there."""
    raw = _integer(row.get("jobidraw"))
    if raw is not None:
        return raw, -1
    text = row.get("jobid", "").strip()
    match = re.fullmatch(r"(\d+)(?:_(\d+)|_\[.*|\+(\d+))?", text)
    if match is None or len(match[1]) > 18:
        raise ValueError(f"names the job {text[:40]!r}")
    job_id = int(match[1])
    if match[3]:  # the components of a heterogeneous job have successive ids
        return job_id + int(match[3][:9]), -1
    return job_id, int(match[2][:9]) if match[2] else -1


def _array(row: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return the array that a job is a task of, or its tasks that still wait, and which task."""
    array, underscore, task = row.get("jobid", "").partition("_")
    return (_integer(array), _integer(task)) if underscore else (None, None)


def _integer(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _first_positive(row: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        value = _integer(row.get(name))
        if value:
            return value
    return None


def _minutes(row: Mapping[str, str]) -> int | None:
    """Return the time limit; None when there is none, or only the partition's."""
    raw = _integer(row.get("timelimitraw"))
    if raw is not None:
        return raw
    match = re.fullmatch(r"(?:(\d{1,9})-)?(\d{1,9}):(\d\d):(\d\d)", row.get("timelimit") or "")
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return days * 1440 + hours * 60 + minutes + (1 if seconds else 0)


def _seconds(text: str | None, zone: tzinfo | None) -> int | None:
    """Return UTC seconds of a local time; None where Slurm does not know."""
    text = (text or "").strip()
    number = _integer(text)
    if number is not None:  # SLURM_TIME_FORMAT=%s
        return number
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=zone) if zone else time.astimezone()
        return int(time.astimezone(UTC).timestamp())
    except (ValueError, OverflowError, OSError):
        return None
