"""Reads what Slurm accounts for of jobs, as sacct prints it.

sacct escapes nothing: a job's name, submit line or comment may hold the separator, line ends and
whole rows of other jobs. Fields are told apart safely where the separator holds a random word,
drawn when sacct was asked, or where no field is written by users. `parse_answers` reads what Sluice
asks itself in this way.

A file with plain separators cannot be safe. `parse_sacct` leaves out rows that a user's text may
have made: whose fields can be told apart in two ways, that are out of the order of job ids, or that
contradict another row.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

from sluice.history_db.records import Job

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


SEPARATOR = "|"
RANDOM_SEPARATOR = re.compile(r"\|[0-9A-Fa-f-]{16,64}\|")
"""What no text can hold that was written before it was drawn."""
LINE_ENDS = "\r\n\ufeff"
"""With what some programs write before the first line."""
MAX_STRAY_SEPARATORS = 256
MAX_ROW = 4 << 20  # characters, of several lines
MIN_FOLLOWING = 2  # rows in order, from which an id may be ahead of them
MANY_FOLLOWING = 1000  # such rows, more than the texts of one job hold
FAR = 10  # times the ids from the row before to the last one
REMEDY = (
    'print it with `sacct --parsable2 --delimiter="|$(cat /proc/sys/kernel/random/uuid)|" '
    "--allusers --format ALL`"
)

_TIME = r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([+-]\d\d:?\d\d|Z)?|\d{9,}|Unknown|None|N/A)?"
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
    r"[^\s|]+": "Cluster",
    r"[^\s|]*": "Account Group Partition QOS User",
    r"[^|\n]*": (
        "AveCPUFreq BlockID Flags Layout MaxDiskReadNode MaxDiskReadTask MaxDiskWriteNode "
        "MaxDiskWriteTask MaxPagesNode MaxPagesTask MaxRSSNode MaxRSSTask MaxVMSizeNode "
        "MaxVMSizeTask MinCPUNode MinCPUTask NodeList ReqCPUFreq ReqCPUFreqMin ReqCPUFreqMax "
        "ReqCPUFreqGov"
    ),
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

USER_WRITTEN = {"account"}
"""Looks like a name, but holds any text where Slurm does not enforce associations."""

IDENTITY = {"jobid", "jobidraw", "cluster", "user", "uid", "submit", "start", "end"}

UNKNOWN_FIELD = 9  # as unlikely as that
EMPTY = 5  # nothing in a field that is no free text

STEPS_OF_SLURM = {"batch", "extern", "interactive"}
MAX_COUNT = 1 << 62


class SacctError(Exception):
    """The text is not what sacct prints; the message names line and remedy."""


@dataclass(frozen=True, slots=True)
class BrokenLine:
    """A line that cannot be understood."""

    number: int
    reason: str
    head: tuple[str, int] | None = None
    """Cluster and id of the job, where what stands before the texts of users tells."""


Row = dict[str, str]


def _is_typed(field: str) -> bool:
    """Whether no user can write any text into a field."""
    return field in SHAPES and field not in USER_WRITTEN


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a text of sacct is laid out, by its heading."""

    heading: str
    fields: tuple[str, ...]
    separator: str
    is_closed: bool
    """Whether each line ends with a separator (--parsable)."""

    @property
    def is_safe(self) -> bool:
        """Whether no user's text can pass for other fields or rows."""
        return self.separator != SEPARATOR or all(map(_is_typed, self.fields))

    @property
    def may_end_later(self) -> bool:
        """Whether a row may go on in the next line when it has all its separators."""
        is_random = self.separator != SEPARATOR
        return is_random and not self.is_closed and not _is_typed(self.fields[-1])


def parse_sacct(
    lines: Iterable[str],
    *,
    zone: tzinfo | None = None,
    cluster: str = "",
    name: str = "sacct",
    is_trace: bool = False,
) -> Iterator[Job | BrokenLine]:
    """Yield a job for every line about one, and what is wrong with the others.

    zone is the time zone sacct ran in (None: this machine's), cluster what to call the cluster
    where there is no such field. Lines about steps add the number
    of tasks and the bytes moved to their job; the heading may come again, as in files put together.
    Rows of a trace may have any order.
    Raises SacctError when the first line is no heading.
    """
    numbered = enumerate(lines, start=1)
    layout = _layout(numbered, name)
    jobs = _jobs(_fields(numbered, layout), zone, cluster)
    if not (is_trace or layout.is_safe):
        jobs = _undoubted(jobs)
    for _, job in jobs:
        yield job


TYPED_FIELDS = (
    *("JobIDRaw", "JobID", "Cluster", "User", "UID", "Partition", "QOS"),
    *("Submit", "Start", "End", "State", "ExitCode", "NNodes", "NTasks", "NCPUS"),
    *("TimelimitRaw", "Restarts", "TRESUsageInTot", "TRESUsageOutTot"),
)
"""Fields of `sacct` that say which job did what. None holds a text of users."""
TEXT_FIELDS = ("JobIDRaw", "Cluster", "Submit", "Account", "JobName", "SubmitLine")
"""The texts of users, and by what they find their job."""


def parse_answers(typed: str, texts: str) -> Iterator[Job | BrokenLine]:
    """Yield the jobs of two answers of sacct in UTC: TYPED_FIELDS by lines, and TEXT_FIELDS.

    The second has a random separator. Whatever it holds, it only adds texts to jobs of the first,
    and none where two of its rows disagree. Raises SacctError.
    """
    numbered = enumerate(_lines(typed), start=1)
    layout = _layout(numbered, "sacct")
    if not layout.is_safe:
        raise SacctError(f"sacct: not the fields that were asked for: {layout.heading[:200]}")
    for _, job in _jobs(_with_texts(_fields(numbered, layout), _texts(texts)), UTC, ""):
        yield job


def _with_texts(
    rows: Iterator[tuple[int, Row | BrokenLine]], texts: Mapping[tuple[str, ...], Row | None]
) -> Iterator[tuple[int, Row | BrokenLine]]:
    for number, row in rows:
        yield number, row if isinstance(row, BrokenLine) else (texts.get(_key(row)) or {}) | row


def _texts(answer: str) -> dict[tuple[str, ...], Row | None]:
    """Return the texts of each job; None where rows disagree."""
    numbered = enumerate(_lines(answer), start=1)
    layout = _layout(numbered, "sacct")
    if layout.separator == SEPARATOR:
        raise SacctError("sacct: it knows no --delimiter")
    found: dict[tuple[str, ...], Row | None] = {}
    for _, row in _fields(numbered, layout):
        if isinstance(row, dict):
            found[_key(row)] = row if found.get(_key(row), row) == row else None
    return found


def _lines(answer: str) -> list[str]:
    return answer.removesuffix("\n").split("\n")


def _key(row: Row) -> tuple[str, ...]:
    return tuple(row.get(field, "") for field in ("cluster", "jobidraw", "submit"))


def _fields(
    numbered: Iterator[tuple[int, str]], layout: _Layout
) -> Iterator[tuple[int, Row | BrokenLine]]:
    """Yield the fields of each row by their names, or what is wrong with it."""
    for number, text in _rows(numbered, layout):
        if text == layout.heading:
            continue
        values = _values(text.removesuffix(layout.separator) if layout.is_closed else text, layout)
        if isinstance(values, str):
            yield number, BrokenLine(number, values, _head(text, layout))
        else:
            yield number, dict(zip(layout.fields, values, strict=True))


def _head(text: str, layout: _Layout) -> tuple[str, int] | None:
    """Return cluster and id of the job of a broken row, if it is whole up to the users' texts."""
    row = {}
    for field, token in zip(layout.fields, text.split(layout.separator), strict=False):
        if not _is_typed(field):
            break
        if not SHAPES[field].fullmatch(token):
            return None
        row[field] = token
    else:
        return None
    try:
        job_id, task = _identity(row)
    except ValueError:
        return None
    return (row.get("cluster", ""), job_id) if task < 0 else None


def _jobs(
    rows: Iterator[tuple[int, Row | BrokenLine]], zone: tzinfo | None, cluster: str
) -> Iterator[tuple[int, Job | BrokenLine]]:
    """Yield the jobs of rows, with the number of their first line."""
    job: Job | None = None
    first, parent = 0, Row()
    for number, row in rows:
        if isinstance(row, BrokenLine):
            if job is not None:
                yield first, job
                job = None
            yield number, row
            continue
        step = _step(row)
        if step is not None:
            if job is not None and _is_of(row, parent):
                job = _with_step(job, step, row)
            continue
        if job is not None:
            yield first, job
        job, first, parent = None, number, row
        try:
            job = _job(row, zone, cluster)
        except ValueError as error:
            yield number, BrokenLine(number, str(error))
    if job is not None:
        yield first, job


@dataclass(slots=True)
class _Order:
    """The order of a cluster's jobs: by id in older versions of Slurm, by submission in later ones.

    Later ones print arrays last of those that were submitted in a second.
    """

    submit: int = 0
    before: int = 0
    """The largest id of those submitted earlier, of an array its own."""
    latest: int = 0
    last_task: int = 0

    def admits(self, job: Job) -> bool:
        """Whether a job may come next; a requeued one may not, as nothing tells it apart."""
        if job.array_task >= 0:  # no JobIDRaw: the number of the array says nothing
            return True
        if job.array_job is None:
            return job.job_id >= self.latest
        least = self.before if job.submit and job.submit == self.submit else self.latest
        by_id = job.job_id >= max(self.latest, self.last_task)
        return job.job_id >= job.array_job and (job.array_job >= least or by_id)

    def add(self, submit: int, job_id: int, task: int = 0) -> None:
        if submit != self.submit:
            self.submit, self.before = submit, self.latest
        self.latest = max(self.latest, job_id)
        self.last_task = max(self.last_task, task)


def _undoubted(
    jobs: Iterator[tuple[int, Job | BrokenLine]],
) -> Iterator[tuple[int, Job | BrokenLine]]:
    """Leave out jobs that may be a user's text: out of order, or contradicted by another row.

    A user's text stands in that user's row: what it says of an earlier job comes too late. What it
    says of a job of a larger id is known by the rows that follow.
    """
    rows = list(jobs)
    ahead = _ahead(rows)
    orders: defaultdict[str, _Order] = defaultdict(_Order)
    same: list[tuple[int, Job]] = []
    for number, job in rows:
        if isinstance(job, Job) and number in ahead:
            why = f"job {job.job_id} comes before jobs of smaller ids, as in a text of a user"
            yield number, BrokenLine(number, why)
            continue
        if isinstance(job, BrokenLine):
            if job.head and number not in ahead:
                order = orders[job.head[0]]
                order.add(order.submit, job.head[1])
            yield number, job
            continue
        order = orders[job.cluster]
        if not order.admits(job):
            why = f"job {job.job_id} comes after job {order.latest}, as in a text of a user"
            yield number, BrokenLine(number, why)
            continue
        if job.array_task < 0:
            order.add(job.submit, job.array_job or job.job_id, job.job_id)
        if same and _name_of(same[0][1]) != _name_of(job):
            yield from _agreeing(same)
            same = []
        same.append((number, job))
    yield from _agreeing(same)


def _ahead(rows: Sequence[tuple[int, Job | BrokenLine]]) -> set[int]:
    """Return the lines of jobs whose id is larger than all that follow in the longest order.

    A text of a user may hold some rows in order, too: where few follow, an id counts as ahead only
    if it is so far from those before and after it that Slurm cannot have given it between them.
    """
    seen: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    arrays: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, job in rows:
        if isinstance(job, BrokenLine):
            if job.head:
                seen[job.head[0]].append((number, job.head[1]))
        elif job.array_job is not None:  # printed after others that were submitted in a second
            arrays[job.cluster].append((number, job.array_job))
        elif job.array_task < 0:
            seen[job.cluster].append((number, job.job_id))
    ahead = set()
    for cluster, jobs in seen.items():
        ordered = _longest_ordered(jobs)
        lines = [number for number, _ in ordered]
        for number, job_id in set(jobs) - set(ordered) | set(arrays[cluster]):
            place = bisect_right(lines, number)
            before, following = ordered[place - 1][1] if place else 0, len(ordered) - place
            last = ordered[-1][1]
            if following < MIN_FOLLOWING or job_id <= last:
                continue
            if following >= MANY_FOLLOWING or job_id - before > FAR * (last - before):
                ahead.add(number)
    return ahead


def _longest_ordered(jobs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the most jobs (line, id) whose ids never fall; of as many, those that come first."""
    ends: list[int] = []  # of the best order of each length, from behind: its id, negated
    places: list[int] = []
    best = []
    for place in range(len(jobs) - 1, -1, -1):
        length = bisect_right(ends, -jobs[place][1])
        ends[length : length + 1] = [-jobs[place][1]]
        places[length : length + 1] = [place]
        best.append(places[length - 1] if length else -1)
    best.reverse()
    found, place = [], places[-1] if places else -1
    while place >= 0:
        found.append(jobs[place])
        place = best[place]
    return found


def _name_of(job: Job) -> tuple[str, int, int]:
    return job.cluster, job.job_id, job.array_task


def _agreeing(rows: list[tuple[int, Job]]) -> Iterator[tuple[int, Job | BrokenLine]]:
    """Yield the rows of one job id, but none that another contradicts."""
    for number, job in rows:
        other = next((line for line, one in rows if one != job and _contradicts(one, job)), None)
        if other is None:
            yield number, job
            continue
        yield number, BrokenLine(number, f"contradicts line {other} on job {job.job_id}")


def _contradicts(one: Job, other: Job) -> bool:
    """Whether two jobs of one id cannot both have been: of two users, and at the same time.

    Ids come again, later.
    """
    if (one.uid, one.user) == (other.uid, other.user):
        return False
    earlier, later = sorted((one, other), key=lambda job: job.start or job.submit)
    return earlier.end is None or earlier.end > (later.start or later.submit)


def _layout(numbered: Iterator[tuple[int, str]], name: str) -> _Layout:
    for number, line in numbered:
        text = line.strip(LINE_ENDS)
        random = RANDOM_SEPARATOR.search(text)
        separator = random[0] if random else SEPARATOR
        fields = [field.strip().lower() for field in text.split(separator)]
        if not any(fields):
            continue
        is_closed = fields[-1] == ""
        if not {"jobid", "jobidraw"} & set(fields):
            raise SacctError(
                f"{name}:{number}: no heading with a field JobID separated by `|`; {REMEDY}"
            )
        return _Layout(text, tuple(fields[: len(fields) - is_closed]), separator, is_closed)
    raise SacctError(f"{name}: empty; {REMEDY}")


def _rows(numbered: Iterator[tuple[int, str]], layout: _Layout) -> Iterator[tuple[int, str]]:
    """Put together the lines of each row: names and submit lines may hold line ends.

    A row goes on until it has all its separators; where these are random and the last field is a
    text, until the next one comes.
    """
    separators = layout.heading.count(layout.separator)
    is_random = layout.separator != SEPARATOR
    parts: list[str] = []
    first = seen = size = 0
    for number, line in numbered:
        text = line.strip(LINE_ENDS)
        count = text.count(layout.separator)
        size += len(text) or 1
        is_next = count >= separators if not is_random else seen >= separators and count > 0
        if parts and (is_next or size > MAX_ROW):
            yield first, "\n".join(parts)
            parts = []
        if not parts:
            first, seen, size = number, 0, len(text)
            if not text.strip():
                continue
        parts.append(text)
        seen += count
        if seen >= separators and not layout.may_end_later:
            yield first, "\n".join(parts)
            parts = []
    if parts:
        yield first, "\n".join(parts)


def _values(text: str, layout: _Layout) -> list[str] | str:
    """Return the value of each field of the heading, or what is wrong with the line."""
    tokens = text.split(layout.separator)
    stray = len(tokens) - len(layout.fields)
    if stray == 0 and (layout.separator != SEPARATOR or "\n" not in text):
        return tokens
    wrong = f"has {len(tokens)} fields where the heading has {len(layout.fields)}"
    if stray < 0 or stray > MAX_STRAY_SEPARATORS or layout.separator != SEPARATOR:
        return wrong
    return _align(tokens, layout.fields) or f"{wrong}, and they cannot be told apart"


def _align(tokens: list[str], heading: Sequence[str]) -> list[str] | None:
    """Give each field its tokens: one, or several where a free text holds the separator.

    Of the ways in which every other field looks as it must, the most likely one is taken, if all
    give the same job. best[s] is the cheapest way to fill the fields so far with s stray
    separators.
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
    return values if _is_only_way(tokens, heading, values) else None


def _is_only_way(tokens: list[str], heading: Sequence[str], values: list[str]) -> bool:
    """Whether each way to fill the fields gives the job these values of IDENTITY, or none.

    ways[s] tells of the ways with s stray separators so far whether any differs, and any does not.
    """
    stray = len(tokens) - len(heading)
    ways: list[set[bool]] = [{False}, *(set[bool]() for _ in range(stray))]
    for column, name in enumerate(heading):
        shape = SHAPES.get(name)
        if shape is None:
            for used in range(1, stray + 1):
                ways[used] = ways[used] | ways[used - 1]
            continue
        for used, differs in enumerate(ways):
            token = tokens[column + used]
            if not shape.fullmatch(token):
                ways[used] = set()
            elif name in IDENTITY and token not in {values[column], ""}:
                ways[used] = {True} if differs else set()
    return True not in ways[stray]


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


def _is_of(step: Row, job: Row) -> bool:
    """Whether a row of a step belongs to a row of a job."""
    return any(
        job.get(field) and step.get(field, "").partition(".")[0] == job[field]
        for field in ("jobid", "jobidraw")
    )


def _with_step(job: Job, step: str, row: Mapping[str, str]) -> Job:
    """Add what only steps tell: the number of tasks, and the bytes that were moved."""
    tasks = None if step in STEPS_OF_SLURM else count_of(row.get("ntasks"))
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
    lustre = count_of(usage.get("fs/lustre"))
    return lustre or count_of(usage.get("fs/disk"))


def count_of(text: str | None) -> int | None:
    """Read a number, plain or as Slurm shortens it in steps of 1024: 4K, 1.17K, 12.50M."""
    match = re.fullmatch(
        r"(\d{1,18}(?:\.\d{1,6})?)([KMGTPE]?)", (text or "").strip(), re.IGNORECASE
    )
    if match is None:
        return None
    if match[1].isdigit():
        return min(int(match[1]) << 10 * " KMGTPE".index(match[2].upper() or " "), MAX_COUNT)
    return min(int(float(match[1]) * 1024 ** " KMGTPE".index(match[2].upper() or " ")), MAX_COUNT)


def _job(row: Mapping[str, str], zone: tzinfo | None, cluster: str) -> Job:
    """Make a record of a line; raises ValueError when it is not clear which job this is."""
    job_id, array_task = _identity(row)
    start, end = _span(row, zone)
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
        start=start,
        end=end,
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
        value = count_of(row.get(name))
        if value:
            return value
    return None


def _minutes(row: Mapping[str, str]) -> int | None:
    """Return the time limit; None when there is none, or only the partition's."""
    raw = _integer(row.get("timelimitraw"))
    if raw is not None:
        return raw
    limit = _duration(row.get("timelimit"))
    return None if limit is None else limit // 60 + (1 if limit % 60 else 0)


def _duration(text: str | None) -> int | None:
    """Return the seconds of [days-]hours:minutes:seconds."""
    match = re.fullmatch(r"(?:(\d{1,9})-)?(\d{1,9}):(\d\d):(\d\d)", text or "")
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _span(row: Mapping[str, str], zone: tzinfo | None) -> tuple[int | None, int | None]:
    """Return start and end in UTC seconds.

    An hour comes twice when summer time ends: how long the job ran tells which of the two it was.
    Slurm subtracts what it was suspended.
    """
    submit, start, end = (_seconds(row.get(field), zone) for field in ("submit", "start", "end"))
    elapsed = _integer(row.get("elapsedraw"))
    elapsed = _duration(row.get("elapsed")) if elapsed is None else elapsed
    if start is None or end is None or elapsed is None:
        return start, end
    ran = elapsed + (_duration(row.get("suspended")) or 0)
    starts, ends = (
        [_seconds(row[field], zone, fold=fold) for fold in (0, 1)] for field in ("start", "end")
    )
    fitting = [
        (one, other)
        for one in starts
        for other in ends
        if one is not None and other is not None and other - one == ran and one >= (submit or 0)
    ]
    if fitting:
        return fitting[0]
    return start, max(end, start + ran)


def _seconds(text: str | None, zone: tzinfo | None, *, fold: int = 0) -> int | None:
    """Return UTC seconds of a local time; None where Slurm does not know.

    fold is 1 for the second of two hours of one name.
    """
    text = (text or "").strip()
    number = _integer(text)
    if number is not None:  # SLURM_TIME_FORMAT=%s
        return number
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(fold=fold)
            time = time.replace(tzinfo=zone) if zone else time.astimezone()
        return int(time.astimezone(UTC).timestamp())
    except (ValueError, OverflowError, OSError):
        return None
