"""Darshan logs into the history: those that lie there, and those that arrive.

Logs that arrive are found by polling: Darshan's directories lie on shared file systems, where
inotify does not tell of what other machines do. A directory whose modification time has not changed
has no new names in it, so a poll costs one stat a directory and a listing of today's. Darshan
writes a log under another name and renames it when it is whole; a symbolic link is not its work,
and would vouch for a file that its owner never put there.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.history_db.records import Log, LogKey
from sluice.ingest.trust import Doubt, doubt
from sluice.ingest.workers import Failure, read_profiles
from sluice.patterns.profile import Reading, modified_ns, path_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sluice.history_db.records import Profile
    from sluice.history_db.store import Store


SUFFIX = ".darshan"
# as archives have them, and as Darshan 1 and 2 named theirs: read to say what is to be done
PACKED = tuple(f"{SUFFIX}{packed}" for packed in (".gz", ".bz2", ".xz", ".zst", ".lz4"))
BATCH = 500  # logs in a transaction: what an interruption can cost
AT_ONCE = 10_000  # logs that are read again in one poll
UNREADABLE = "cannot be read"
UNBELIEVED = ("waits for", "not believed")


@dataclass(slots=True)
class Summary:
    """What became of everything that was offered."""

    read: int = 0
    known: int = 0
    """Skipped: ingested before, or the same log under another name."""
    known_quarantined: int = 0
    """Those of them that are in quarantine and have not changed."""
    quarantined: list[Failure] = field(default_factory=list)
    other_files: int = 0
    """In directories, not named *.darshan."""
    unlisted: list[str] = field(default_factory=list)
    """Directories that cannot be read, with the reason."""
    not_counted: Counter[str] = field(default_factory=Counter)
    """Logs that were read, by a counter of theirs that cannot be true."""
    waiting: int = 0
    """Read, and trusted once the accounting tells of their jobs."""


@dataclass(frozen=True, slots=True)
class Unbelieved:
    """A log that was read and is not trusted, or not yet."""

    reading: Reading
    doubt: Doubt


Result = Reading | Failure | Unbelieved


@dataclass(frozen=True, slots=True)
class _Found:
    path: Path
    key: LogKey


def count_logs(paths: Iterable[Path]) -> int:
    return sum(1 for _ in _walk(paths, Summary()))


def ingest(
    store: Store,
    paths: Iterable[Path],
    *,
    workers: int = 1,
    retry: bool = False,
    quarantined: Callable[[Failure], None] = lambda _: None,
    advance: Callable[[int], None] = lambda _: None,
) -> Summary:
    """Read logs into the history, and believe what they say.

    Files are read whatever they are called, directories for *.darshan, packed or not, recursively.
    `retry` reads again what is in quarantine although it has not changed. `quarantined` is told of
    each damaged log at once, `advance` of the number of files dealt with. Raises HistoryError.
    """
    summary = Summary()
    files = _walk(paths, summary)
    new = _unknown(store, files, summary, worth_it=_again(retry=retry), advance=advance)
    read = partial(read_profiles, workers=workers)
    for batch in _batches(iter(read(new))):
        _keep(store, batch, summary)
        _tell(batch, quarantined)
        advance(len(batch))
    store.jobs.link_logs()
    store.jobs.update_coverage()
    return summary


def ingest_checked(
    store: Store,
    paths: Iterable[Path],
    *,
    now: float,
    workers: int = 1,
    quarantined: Callable[[Failure], None] = lambda _: None,
) -> Summary:
    """Read log files of which any user may have made any; see `trust.doubt`.

    Those whose jobs have become known since are read again first. now is in UTC seconds.
    """
    summary = Summary()
    read = partial(read_profiles, workers=workers)
    new = _unknown(store, iter(paths), summary, worth_it=_unreadable_before)
    for paths_to_read in (_believable(store, now), new):
        results = read(paths_to_read)
        for batch in _batches(_checked(store, result, now) for result in results):
            _keep(store, batch, summary)
            _tell(batch, quarantined)
    store.jobs.give_up_waiting(now=now)
    store.jobs.link_logs()
    store.jobs.update_coverage()
    return summary


def _believable(store: Store, now: float) -> Iterator[Path]:
    return (Path(path) for path in store.jobs.believable_logs(AT_ONCE, now=now))


def _batches(results: Iterator[Result]) -> Iterator[list[Result]]:
    while batch := list(islice(results, BATCH)):
        yield batch


def _checked(store: Store, result: Reading | Failure, now: float) -> Result:
    if isinstance(result, Failure):
        return result
    found = doubt(result, store.jobs.jobs_with_id(result.log.jobid or 0), now=now)
    return result if found is None else Unbelieved(result, found)


def _tell(batch: Iterable[Result], quarantined: Callable[[Failure], None]) -> None:
    for result in batch:
        failure = _failure(result)
        if failure is not None:
            quarantined(failure)


def _failure(result: Result) -> Failure | None:
    """Return what people should be told of a log; nothing of one that merely waits."""
    if isinstance(result, Failure):
        return result
    if isinstance(result, Unbelieved) and not result.doubt.waits:
        log = result.reading.log
        return Failure(Path(log.path), result.doubt.reason, log.digest)
    return None


def _walk(paths: Iterable[Path], summary: Summary) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from _walk_directory(path, summary)
        else:
            yield path


def _walk_directory(top: Path, summary: Summary) -> Iterator[Path]:
    def unlisted(error: OSError) -> None:
        summary.unlisted.append(f"{error.filename}: {error.strerror}")

    for directory, subdirectories, names in os.walk(top, onerror=unlisted):
        subdirectories.sort()
        for name in sorted(names):
            if name.endswith((SUFFIX, *PACKED)):
                yield top.__class__(directory, name)
            else:
                summary.other_files += 1


def _unknown(
    store: Store,
    paths: Iterator[Path],
    summary: Summary,
    *,
    worth_it: Callable[[Path, str], bool],
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[Path]:
    """Pass on the files that were not ingested before, or have changed since.

    What is in quarantine is looked at again where it is worth it: told path and reason.
    """
    while batch := [_Found(path, _key(path)) for path in islice(paths, BATCH)]:
        known = store.runs.known_files(found.key for found in batch)
        for found in batch:
            reason = known.get(found.key)
            if found.key not in known or (reason is not None and worth_it(found.path, reason)):
                yield found.path
                continue
            summary.known += 1
            summary.known_quarantined += known[found.key] is not None
            advance(1)


def _key(path: Path) -> LogKey:
    try:
        status = path.stat()
    except OSError:  # a dangling link; reading it will say so
        return LogKey(path_text(path), 0, 0)
    return LogKey(path_text(path), status.st_size, modified_ns(status))


def _unreadable_before(path: Path, reason: str) -> bool:
    """Permissions change without a trace in size and time."""
    return reason.startswith(UNREADABLE) and os.access(path, os.R_OK)


def _again(*, retry: bool) -> Callable[[Path, str], bool]:
    """Whether a log in quarantine is read again when it is named by hand."""
    return lambda path, reason: (
        retry or reason.startswith(UNBELIEVED) or _unreadable_before(path, reason)
    )


def _keep(store: Store, results: Sequence[Result], summary: Summary) -> None:
    added = store.runs.add_logs([_entry(result) for result in results])
    for result, is_new in zip(results, added, strict=True):
        failure = _failure(result)
        if failure is not None:
            summary.quarantined.append(failure)
        elif isinstance(result, Unbelieved):
            summary.waiting += 1
        elif is_new and isinstance(result, Reading):
            summary.read += 1
            summary.not_counted.update(result.not_counted)
        else:
            summary.known += 1


def _entry(result: Result) -> tuple[Log, Profile | None, bytes]:
    if isinstance(result, Reading):
        return result.log, result.profile, result.features
    if isinstance(result, Unbelieved):
        log = result.reading.log
        # in another user's file no word is worth a second look
        jobid = log.jobid if result.reading.owner == log.uid else None
        digest = log.digest if result.doubt.waits else _digest_here(log.path, log.digest)
        return replace(log, digest=digest, reason=result.doubt.reason, jobid=jobid), None, b""
    return _quarantined_log(result), None, b""


def _digest_here(path: str, digest: bytes | None) -> bytes:
    """Return what a refused file is known by, so that a copy of another log is refused once."""
    return hashlib.blake2b(path.encode() + b"\0" + (digest or b""), digest_size=16).digest()


def _quarantined_log(failure: Failure) -> Log:
    key = _key(failure.path)
    return Log(
        digest=_digest_here(key.path, failure.digest),
        path=key.path,
        size=key.size,
        mtime_ns=key.mtime_ns,
        reason=failure.reason,
        jobid=None,
        uid=None,
        exe=None,
        start=None,
        end=None,
        nprocs=None,
        partial=False,
        format=None,
    )


UNSETTLED = 10.0  # seconds: coarse or foreign clocks may hide a second change within them
EVERYTHING = 3600.0  # seconds after which unchanged directories are listed too


@dataclass(slots=True)
class _Directory:
    changed: float
    """Modification time when it was listed."""
    listed: float
    below: list[Path] = field(default_factory=list)


class Tree:
    """The directories below some tops. Remembers directories, not files."""

    def __init__(self, tops: Sequence[Path]) -> None:
        self._tops = tops
        self._known: dict[Path, _Directory] = {}
        self.unlisted: dict[Path, str] = {}
        """Directories that could not be read at the last poll, with the reason."""

    def files(self, now: float) -> Iterator[Path]:
        """Yield the logs in directories that changed since the last poll, if not more."""
        self.unlisted = {}
        seen: set[Path] = set()
        todo = list(reversed(self._tops))
        while todo:
            path = todo.pop()
            if path in seen:
                continue
            seen.add(path)
            try:
                yield from self._poll(path, now)
            except OSError as error:
                self.unlisted[path] = error.strerror or str(error)
                self._known.pop(path, None)
            else:
                todo += reversed(self._known[path].below)
        self._known = {path: self._known[path] for path in seen if path in self._known}

    def _poll(self, path: Path, now: float) -> Iterator[Path]:
        changed = path.stat().st_mtime
        known = self._known.get(path)
        if known is not None and known.changed == changed and not _worth_listing(known, now):
            return
        directory = _Directory(changed, now)
        names = []
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    directory.below.append(Path(entry.path))
                elif entry.name.endswith(SUFFIX) and not entry.is_symlink():
                    names.append(entry.name)
        directory.below.sort()
        self._known[path] = directory
        yield from (path / name for name in sorted(names))


def _worth_listing(known: _Directory, now: float) -> bool:
    return known.listed - known.changed < UNSETTLED or now - known.listed > EVERYTHING
