"""Darshan logs of real runs where there is no Darshan: made of what strace saw (trace.sh).

They hold when each process wrote and read how much of which file, in which sizes and order, and
what it flushed, as the runtime would have counted it; a process with MPI leaves a log of its own.
"""

import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from made_logs import MadeLog, bucket_of
from synthetic.run import RECORD_CAP, Run, bins

CALL = re.compile(
    r"(?P<pid>\d+) +(?P<time>[\d.]+) (?P<name>\w+)\((?P<arguments>.*)\)\s+= (?P<result>\d+)"
    r"(?:<(?P<opened>[^>]*)>)? ?.*<(?P<seconds>[\d.]+)>$"
)
UNFINISHED, RESUMED = " <unfinished ...>", re.compile(r"<\.\.\. \w+ resumed>")
FILE = re.compile(r"\d+<(/[^>]*)>")
OUTSIDE = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/lib", "/run/")  # as Darshan's own
OPENS, FLUSHES = {"open", "openat", "creat"}, {"fsync", "fdatasync"}
COMMONEST = 4  # sizes of accesses that a record names


@dataclass
class _File:
    """What was done to one file."""

    counters: dict[str, float] = field(default_factory=Counter)
    sizes: dict[str, Counter[int]] = field(
        default_factory=lambda: {"WRITE": Counter(), "READ": Counter()}
    )
    ends: dict[str, int] = field(default_factory=lambda: {"WRITE": 0, "READ": 0})
    position: int = 0


def log_of(calls: Path, logs: Path, *, uid: int, jobid: int) -> Path | None:
    """Write the log of one traced program as the user's; None where it did nothing to a file."""
    seen = list(_calls(calls))
    if not seen:
        return None
    start = seen[0][0]
    run = Run(random=np.random.default_rng(jobid), nprocs=1)
    files: dict[str, _File] = {}
    for time, name, arguments, result, opened, seconds in seen:
        _count(run, files, (time - start, name, arguments, result, opened, seconds))
    made = MadeLog(
        uid=uid,
        jobid=jobid,
        start=int(start),
        end=max(int(start) + 1, math.ceil(seen[-1][0])),
        exe=calls.with_suffix(".cmd").read_text().strip(),
    )
    run.clock = max(0.1, seen[-1][0] - start)
    for id_, (path, one) in enumerate(list(files.items())[:RECORD_CAP], start=1):
        made.names[id_] = path
        made.add("POSIX", file=id_, rank=0, counters=_finished(one))
    made.add_heatmap(*bins(run))
    draft = logs / f"{jobid}-{calls.stem}.part"
    made.write(draft, partial=("POSIX",) if len(files) > RECORD_CAP else ())
    os.chown(draft, uid, -1)
    return draft.rename(draft.with_suffix(".darshan"))


def _calls(path: Path) -> Iterator[tuple[float, str, str, int, str, float]]:
    """Yield time, name, arguments, result, file opened and seconds of calls that worked."""
    begun: dict[str, str] = {}
    for line in path.read_text(errors="replace").splitlines():
        text, pid = line, line.partition(" ")[0]
        if text.endswith(UNFINISHED):
            begun[pid] = text.removesuffix(UNFINISHED)
            continue
        if (resumed := RESUMED.search(text)) and pid in begun:
            text = begun.pop(pid) + text[resumed.end() :]
        if call := CALL.match(text):
            yield (
                float(call["time"]), call["name"], call["arguments"], int(call["result"]),
                call["opened"] or "", float(call["seconds"]),
            )  # fmt: skip


def _count(
    run: Run, files: dict[str, _File], call: tuple[float, str, str, int, str, float]
) -> None:
    begin, name, arguments, result, opened, seconds = call
    found = FILE.match(arguments)
    path = opened if name in OPENS else found[1] if found else ""
    if not path.startswith("/") or path.startswith(OUTSIDE):
        return
    file = files.setdefault(path, _File())
    if name in OPENS:
        file.counters["OPENS"] += 1
        file.counters["F_META_TIME"] += seconds
        file.counters.setdefault("F_OPEN_START_TIMESTAMP", begin)
        file.position = 0
    elif name in FLUSHES:
        file.counters["FSYNCS" if name == "fsync" else "FDSYNCS"] += 1
        file.counters["F_WRITE_TIME"] += seconds
    elif result > 0:
        verb = "WRITE" if "write" in name else "READ"
        at = int(arguments.rpartition(", ")[2]) if name.startswith("p") else file.position
        _move(file, verb, at, result)
        file.counters.setdefault(f"F_{verb}_START_TIMESTAMP", begin)
        file.counters[f"F_{verb}_END_TIMESTAMP"] = begin + seconds
        file.counters[f"F_{verb}_TIME"] += seconds
        moved = (float(result), 0.0) if verb == "WRITE" else (0.0, float(result))
        run.moved.append((begin, begin + seconds, *moved))


def _move(file: _File, verb: str, at: int, size: int) -> None:
    counters, past = file.counters, "WRITTEN" if verb == "WRITE" else "READ"
    counters[f"{verb}S"] += 1
    counters[f"BYTES_{past}"] += size
    if file.sizes[verb].total():
        counters[f"SEQ_{verb}S"] += at >= file.ends[verb]
        counters[f"CONSEC_{verb}S"] += at == file.ends[verb]
    counters[f"MAX_BYTE_{past}"] = max(counters[f"MAX_BYTE_{past}"], at + size - 1)
    file.sizes[verb][size] += 1
    file.ends[verb] = file.position = at + size


def _finished(file: _File) -> dict[str, float]:
    counters = dict(file.counters)
    for verb, sizes in file.sizes.items():
        for size, count in sizes.items():
            name = f"SIZE_{verb}_{bucket_of(size)}"
            counters[name] = counters.get(name, 0) + count
    both = file.sizes["WRITE"] + file.sizes["READ"]
    for place, (size, count) in enumerate(both.most_common(COMMONEST), start=1):
        counters |= {f"ACCESS{place}_ACCESS": size, f"ACCESS{place}_COUNT": count}
    return counters
