"""Reads Lustre's per-job statistics, as `lctl get_param obdfilter.*.job_stats` prints them.

Servers count what each job moved and how often it opened, created or removed; several targets and
servers in one text are added up. What an entry is called is the site's to choose (`jobid_name`:
%j is the job, %u the user, %h and %H the host, %e the program, %g the group, %p the process). The
job in it comes from the environment of a process, so any user can name another job there; the user
comes from the kernel.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


DATA = {"write_bytes", "read_bytes"}
METADATA = {
    *("open", "close", "mknod", "link", "unlink", "mkdir", "rmdir", "rename"),
    *("getattr", "setattr", "getxattr", "setxattr", "samedir_rename", "crossdir_rename"),
}
MAX_COUNT = 1 << 62  # what SQLite holds
PLAIN = "%j"
SEPARATORS = ".:@,_-"
MAX_PREFIXES = 8  # the commonest, that are tried
CODES = {
    "j": r"(?P<job>[1-9]\d{0,17})(?:_(?P<task>\d{1,9})|\+(?P<component>\d{1,9}))?",
    "u": r"(?P<uid>\d{1,10})",
    "g": r"\d{1,10}",
    "p": r"\d{1,10}",
    "h": r"[\w.-]+",
    "H": r"[\w-]+",
    "e": r".+",
    "%": "%",
}
"""What stands for each code of a form."""

_JOB = re.compile(r"^\s*-?\s*job_id:\s*(.*?)\s*$")
_SNAPSHOT = re.compile(r"^\s*snapshot_time:\s*(\d+)")
_COUNTER = re.compile(r"^\s*(\w+):\s*\{(\s*samples:.*\bunit:.*)\}\s*$")
_NUMBER = re.compile(r"(\w+):\s*(\d+)")
_NAME = re.compile(r"^\s*jobid_name=(.+?)\s*$")
_PREFIX = re.compile(r"[A-Za-z][\w-]*")
_BEFORE_DIGITS = re.compile(r"(?<=[^\d\s])(?=\d)")


class JobStatsError(Exception):
    """The text is not what Lustre prints; the message names line and remedy."""


@dataclass(slots=True)
class JobStats:
    """What the servers counted for one job, so far."""

    job_id: int
    array_task: int = -1
    uid: int | None = None
    """By the kernel of the client; None: the entry does not name the user."""
    seen: int = 0
    """UTC seconds of the newest snapshot; 0: not said."""
    write_bytes: int = 0
    read_bytes: int = 0
    metadata_operations: int = 0


@dataclass(slots=True)
class _Entry:
    """All entries of one name."""

    seen: int = 0
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class ParsedStats:
    jobs: list[JobStats]
    form: str
    """How the entries are named."""
    is_guessed: bool
    others: int
    """Entries that are of no job by this form."""
    example: str | None
    """The name of one of them."""


def parse_job_stats(
    lines: Iterable[str], *, name: str, form: str | None = None, told: str | None = None
) -> ParsedStats:
    """Return the sums by job.

    form: how the site names the entries. Without it, told: what a client answers for
    `jobid_name`; a line `jobid_name=` of the text goes before. Where that fits nothing, the form
    that most entries fit. Raises JobStatsError.
    """
    entries: dict[str, _Entry] = {}
    heading = False
    current: _Entry | None = None
    for line in lines:
        heading = heading or "job_stats:" in line
        job, setting = _JOB.match(line), _NAME.match(line)
        if job:
            current = entries.setdefault(job[1].strip("\"'"), _Entry())
        elif setting:
            told = setting[1]
        elif current is not None:
            _add(current, line)
    if not heading:
        raise JobStatsError(
            f"{name}: no `job_stats:` in it; print it with "
            "`lctl get_param obdfilter.*.job_stats mdt.*.job_stats`"
        )
    chosen = form or _told(told, entries)
    is_guessed = chosen is None
    return _by_job(entries, chosen or _guess(entries), is_guessed=is_guessed)


def _add(entry: _Entry, line: str) -> None:
    snapshot = _SNAPSHOT.match(line)
    if snapshot:
        entry.seen = max(entry.seen, int(snapshot[1][:18]))
    counter = _COUNTER.match(line)
    if counter is None:
        return
    name, numbers = counter[1], dict(_numbers(counter[2]))
    if name in DATA:
        entry.counts[name] += numbers.get("sum", 0)
    elif name in METADATA:
        entry.counts["metadata_operations"] += numbers.get("samples", 0)


def _numbers(text: str) -> Iterator[tuple[str, int]]:
    for name, number in _NUMBER.findall(text):
        yield name, int(number) if len(number) < len(str(MAX_COUNT)) else MAX_COUNT


def pattern_of(form: str) -> re.Pattern[str]:
    """Return what names of this form look like; raises JobStatsError."""
    parts = re.split(r"%(.)", form)
    unknown = [code for code in parts[1::2] if code not in CODES]
    if unknown or parts[1::2].count("j") != 1 or parts[1::2].count("u") > 1:
        raise JobStatsError(
            f"no form of a job_id: {form!r}; it has %j once, and may have %u, %h, %H, %e, %g and "
            "%p, as `lctl get_param jobid_name` shows it"
        )
    shape = "".join(CODES[part] if i % 2 else re.escape(part) for i, part in enumerate(parts))
    return re.compile(shape + (r"(?:\.\w+)?" if form == PLAIN else ""))  # and a step


def _told(form: str | None, entries: Iterable[str]) -> str | None:
    """Return the form that a client answered, where it names jobs at all."""
    if form is None:
        return None
    try:
        pattern = pattern_of(form)
    except JobStatsError:  # Lustre uses no jobid_name without %j where jobid_var names a job
        return None
    return form if any(map(pattern.fullmatch, entries)) else None


def _guess(entries: Iterable[str]) -> str:
    """Return the form that most entries fit, with as many different jobs as possible.

    Programs outside of jobs are called `program.uid`: no form is tried that these fit.
    """
    names = list(entries)
    shapes = [
        PLAIN,
        *(f"%j{separator}%u{separator}%h" for separator in SEPARATORS),
        *(f"%j{separator}%h" for separator in SEPARATORS if separator != "."),
        "%h:%j",
    ]
    prefixes = Counter(name[: at.start()] for name in names for at in _BEFORE_DIGITS.finditer(name))
    shapes += [
        prefix + shape
        for prefix, _ in prefixes.most_common(MAX_PREFIXES)
        if _PREFIX.fullmatch(prefix)
        for shape in shapes[:-1]
    ]
    best, most = PLAIN, (len(names) // 2, 0)
    for shape in shapes:
        fits = list(filter(None, map(pattern_of(shape).fullmatch, names)))
        found = len(fits), len({fit.group("job", "task", "component") for fit in fits})
        if found[0] > len(names) // 2 and found > most:
            best, most = shape, found
    return best


def _by_job(entries: dict[str, _Entry], form: str, *, is_guessed: bool) -> ParsedStats:
    pattern = pattern_of(form)
    jobs: dict[tuple[int, int, int | None], JobStats] = {}
    others = []
    for name, entry in entries.items():
        fit = pattern.fullmatch(name)
        if fit is None:
            others.append(name)
            continue
        groups = fit.groupdict()
        # the components of a heterogeneous job have successive ids
        job_id = int(groups["job"]) + int(groups["component"] or 0)
        task = int(groups["task"]) if groups["task"] else -1
        uid = int(groups["uid"]) if groups.get("uid") else None
        job = jobs.setdefault((job_id, task, uid), JobStats(job_id, task, uid))
        job.seen = max(job.seen, entry.seen)
        for counter, count in entry.counts.items():
            setattr(job, counter, min(getattr(job, counter) + count, MAX_COUNT))
    return ParsedStats(
        list(jobs.values()), form, is_guessed, len(others), others[0] if others else None
    )
