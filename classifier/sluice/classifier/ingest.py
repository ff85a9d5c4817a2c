"""Darshan logs into the history: find them, skip what is known, read the rest, keep all."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from sluice.classifier.profile import Reading, path_text
from sluice.classifier.workers import Failure, read_profiles
from sluice.history_db.records import Log, LogKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from sluice.classifier.patterns import PatternClassifier
    from sluice.history_db.store import Store

SUFFIX = ".darshan"
BATCH = 500  # logs in a transaction: what an interruption can cost
UNREADABLE = "cannot be read"


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
    classifier: PatternClassifier | None = None,
    quarantined: Callable[[Failure], None] = lambda _: None,
    advance: Callable[[int], None] = lambda _: None,
) -> Summary:
    """Read logs into the history.

    Files are read whatever they are called, directories for *.darshan, recursively. `retry`
    reads again what is in quarantine although it has not changed. `quarantined` is told of each
    damaged log at once, `advance` of the number of files dealt with. Raises HistoryError.
    """
    summary = Summary()
    new = _unknown(store, _walk(paths, summary), summary, retry=retry, advance=advance)
    results = read_profiles((found.path for found in new), workers=workers, classifier=classifier)
    while batch := list(islice(results, BATCH)):
        _keep(store, batch, summary)
        for result in batch:
            if isinstance(result, Failure):
                quarantined(result)
        advance(len(batch))
    store.link_logs()
    return summary


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
            if name.endswith(SUFFIX):
                yield top.__class__(directory, name)
            else:
                summary.other_files += 1


def _unknown(
    store: Store,
    paths: Iterator[Path],
    summary: Summary,
    *,
    retry: bool,
    advance: Callable[[int], None],
) -> Iterator[_Found]:
    """Pass on the files that were not ingested before, or have changed since."""
    while batch := [_Found(path, _key(path)) for path in islice(paths, BATCH)]:
        known = store.known_files(found.key for found in batch)
        for found in batch:
            if found.key not in known or _again(found.path, known[found.key], retry=retry):
                yield found
                continue
            summary.known += 1
            summary.known_quarantined += known[found.key] is not None
            advance(1)


def _key(path: Path) -> LogKey:
    try:
        status = path.stat()
    except OSError:  # a dangling link; reading it will say so
        return LogKey(path_text(path), 0, 0)
    return LogKey(path_text(path), status.st_size, status.st_mtime_ns)


def _again(path: Path, reason: str | None, *, retry: bool) -> bool:
    """Whether a known file is worth another look: permissions change without a trace."""
    if reason is None:
        return False
    return retry or (reason.startswith(UNREADABLE) and os.access(path, os.R_OK))


def _keep(store: Store, results: list[Reading | Failure], summary: Summary) -> None:
    added = store.add_logs(
        [
            (result.log, result.profile, result.features)
            if isinstance(result, Reading)
            else (_quarantined_log(result), None, b"")
            for result in results
        ]
    )
    for result, is_new in zip(results, added, strict=True):
        if isinstance(result, Failure):
            summary.quarantined.append(result)
        elif is_new:
            summary.read += 1
        else:
            summary.known += 1


def _quarantined_log(failure: Failure) -> Log:
    key = _key(failure.path)
    # Without the bytes, the name has to do: the path is all that is known of the log.
    digest = failure.digest or hashlib.blake2b(key.path.encode(), digest_size=16).digest()
    return Log(
        digest=digest,
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
