"""Facts of a site for `sluice init`: its Slurm, storage targets and Darshan's log directories.

It only reads. A storage system that has no command here, or whose command fails, has no lanes;
lfs and beegfs-ctl cannot run where this is tested, so their output is as their manuals show it.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.darshan.log import DarshanLibraryError, load_library
from sluice.policies.core import MAX_TARGETS
from sluice.slurm.doctor.controller import preflight
from sluice.slurm.doctor.controller import slurm as slurm_findings
from sluice.slurm.doctor.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sluice.policies.core import Config
    from sluice.slurm.doctor.findings import Site

TIMEOUT = 20.0
"""Seconds: these commands hang while a server of the file system is away."""
MOST_LANES = 8
KEEP_DAYS = 400
"""A year, and what is late of it."""
MOUNTS = Path("/proc/self/mounts")
LOG_PLACES = ("/var/log/darshan", "/var/log/darshan-logs", "/darshan-logs", "/scratch/darshan-logs")
"""Where sites let Darshan write, unless darshan-config says so."""


@dataclass(frozen=True, slots=True)
class FoundLane:
    """A set of storage targets that the file system can confine files to."""

    name: str
    targets: int
    osts: str = ""
    """Lustre's targets, as LaneOsts wants them."""
    bandwidth: str = ""


@dataclass(frozen=True, slots=True)
class Storage:
    """The lanes of one file system, and what they are there."""

    source: str
    lanes: tuple[FoundLane, ...]


def storage(mounts: Path = MOUNTS) -> list[Storage]:
    """Return what has at least two sets of targets that share none; where that is not so, nothing.

    One undivided file system needs no lane.
    """
    found = []
    for line in mounts.read_text(errors="replace").splitlines():
        device, place, kind = line.split()[:3]
        where = place.replace("\\040", " ")
        for means in READERS:
            lanes = means(device, where, kind)
            if len(lanes) > 1:
                found.append(Storage(f"{kind} on {where}", named(lanes)))
    return found


def named(lanes: Sequence[FoundLane]) -> tuple[FoundLane, ...]:
    """Give them the short names that licences are made of."""
    return tuple(replace(lane, name=f"sl{i}") for i, lane in enumerate(lanes[:MOST_LANES]))


def own_allocator(mounts: Path = MOUNTS) -> str:
    """Return the name of a file system that spreads new files by itself; empty: none is alone."""
    kinds = {line.split()[2] for line in mounts.read_text(errors="replace").splitlines()}
    others = kinds & {"lustre", "beegfs", "gpfs"}
    return "MooseFS" if kinds & MOOSEFS and not others else ""


def directories(places: Sequence[Path]) -> Storage:
    """Return a lane for each directory. Raises OSError or ValueError where that cannot be."""
    devices = [place.stat().st_dev for place in places]
    for place, device in zip(places, devices, strict=True):
        if devices.count(device) > 1:
            raise ValueError(f"{place} shares its device with another directory: it is no lane")
    lanes = [FoundLane(str(place), targets=1) for place in places]
    return Storage("directories on devices of their own", named(lanes))


def of_lustre(_device: str, place: str, kind: str) -> list[FoundLane]:
    """Return the pools of `lfs`, or else two halves of its targets."""
    if kind != "lustre":
        return []
    indices = re.findall(r"^(\d+):\s+\S+\s+ACTIVE", answer("lfs", "osts", place), re.MULTILINE)
    targets = [int(index) for index in indices]
    pools = [
        [int(index, 16) for index in re.findall(r"-OST([0-9a-fA-F]{4})", answer("lfs", *words))]
        for pool in re.findall(r"(?m)^(\S+\.\S+)$", answer("lfs", "pool_list", place))
        for words in [("pool_list", pool)]
    ]
    half = len(targets) // 2
    sets = disjoint(pools) or [part for part in (targets[:half], targets[half:]) if half]
    return [FoundLane("", len(one), osts=spans(one)) for one in sets]


def of_beegfs(_device: str, place: str, kind: str) -> list[FoundLane]:
    """Return the storage pools of `beegfs-ctl`."""
    if kind != "beegfs":
        return []
    text = answer("beegfs-ctl", f"--mount={place}", "--liststoragepools")
    rows = re.findall(r"(?m)^\s*\d+\s+\S.*?\s+(\d+(?:,\d+)*)\s*(?:\S+\s*)?$", text)
    return [
        FoundLane("", len(one)) for one in disjoint([list(map(int, r.split(","))) for r in rows])
    ]


def of_moosefs(_device: str, place: str, kind: str) -> list[FoundLane]:
    """Return the storage classes of `mfsscadmin` that a site made: each counts as one target."""
    if kind not in MOOSEFS and not _device.startswith("mfs"):
        return []
    names = answer("mfsscadmin", place, "list").split()
    return [FoundLane(name, targets=1) for name in names if not name.isdigit()]


MOOSEFS = frozenset({"fuse.mfs", "fuse.moosefs"})
READERS: tuple[Callable[[str, str, str], list[FoundLane]], ...] = (of_lustre, of_beegfs, of_moosefs)


def disjoint(sets: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the sets if there are two or more and no target is in two of them, else none."""
    members = [member for one in sets for member in one]
    is_apart = len(members) == len(set(members)) and all(sets)
    return [sorted(one) for one in sets] if is_apart and len(sets) > 1 else []


def spans(numbers: Sequence[int]) -> str:
    """Write sorted numbers as in 0-3,8."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)


POOL_NAME = 15
"""Characters that Lustre lets a pool's name have."""


def pools(told: str) -> tuple[list[str], list[str]]:
    """Return the commands that make a pool for each block of a lane, and those that remove them.

    told is FSNAME.NAME:OSTS, the OSTs in the order of the lane's targets. Raises ValueError.
    """
    match = re.fullmatch(r"(\w+)\.([\w.-]+):(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)", told)
    if match is None:
        raise ValueError("write FSNAME.NAME:OSTS, as in scratch.scr:0-127")
    fsname, name, listed = match.groups()
    osts: list[int] = []
    for span in listed.split(","):
        first, _, last = span.partition("-")
        osts += range(int(first), min(int(last or first), int(first) + MAX_TARGETS) + 1)
    if len(set(osts)) != len(osts) or not 1 < len(osts) <= MAX_TARGETS:
        raise ValueError(f"name 2 to {MAX_TARGETS} OSTs, each once")
    blocks = {name: osts} | {
        f"{name}-{first}-{count}": osts[first : first + count]
        for count in (2**i for i in range((len(osts) // 2).bit_length()))
        for first in range(0, len(osts) - count + 1, count)
    }
    if long := next((pool for pool in blocks if len(pool) > POOL_NAME), None):
        raise ValueError(f"{long} has more than {POOL_NAME} characters; use a shorter NAME")
    made, removed = [], []
    for pool, members in blocks.items():
        words = f"{fsname}.{pool} {' '.join(f'{fsname}-OST{ost:04x}' for ost in members)}"
        made += [f"lctl pool_new {fsname}.{pool}", f"lctl pool_add {words}"]
        removed += [f"lctl pool_remove {words}", f"lctl pool_destroy {fsname}.{pool}"]
    return made, removed


def darshan_logs() -> Path | None:
    """Return the directory that Darshan writes to, by its own word or by habit."""
    told = answer("darshan-config", "--log-path").strip()
    places = [Path(place) for place in (told, *LOG_PLACES) if place]
    return next((place for place in places if place.is_dir()), None)


def answer(*command: str) -> str:
    """Return what a command prints; nothing where it is missing, fails or hangs."""
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=TIMEOUT,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def settings(logs: Path | None, found: Storage | None) -> str:
    """Write the text of sluice.conf for observe."""
    lines = [
        "# Written by `sluice init`; `sluice config explain` says what each setting means.",
        "Mode=observe  # predict and record, touch no job",
    ]
    lines.append(f"DarshanLogs={logs}" if logs else "#DarshanLogs=/var/log/darshan")
    lines.append(f"KeepDays={KEEP_DAYS}  # what the history remembers")
    lanes = found.lanes if found else ()
    if found:
        lines.append(f"# {found.source}")
    for lane in lanes:
        rate = f" Bandwidth={lane.bandwidth}" if lane.bandwidth else ""
        lines.append(f"Lane={lane.name} Targets={lane.targets}{rate}")
    osts = ",".join(f"{lane.name}:{lane.osts}" for lane in lanes if lane.osts)
    if osts:
        lines.append(f"LaneOsts={osts}")
    return "\n".join(lines) + "\n"


def check(site: Site, config: Config, mounts: Path = MOUNTS) -> Iterator[Finding]:
    """Compare the configuration of a site with what there is."""
    yield _logs(config)
    yield _lanes(config, storage(mounts))
    yield from _places(config)
    yield from slurm_findings(site)
    yield from preflight(site)


def _logs(config: Config) -> Finding:
    if not config.darshan_logs:
        found = darshan_logs()
        remedy = f"DarshanLogs={found or '/var/log/darshan'} in sluice.conf"
        return Finding(
            "WARN",
            "Darshan's logs",
            "sluice-learn is told of none, so sluiced does not start it",
            remedy,
        )
    missing = [place for place in config.darshan_logs.split(",") if not Path(place).is_dir()]
    if missing:
        text = f"DarshanLogs={missing[0]} is no directory, or this user may not see it"
        return Finding("FAIL", "Darshan's logs", text, "mount it here, or name where they lie")
    try:
        load_library()
    except DarshanLibraryError as error:
        return Finding("FAIL", "Darshan's logs", "cannot be read", str(error))
    return Finding("OK", "Darshan's logs", config.darshan_logs)


def _lanes(config: Config, found: Sequence[Storage]) -> Finding:
    sizes = [lane.targets for lane in config.policy.lanes]
    shown = ", ".join(f"{lane.name} of {lane.targets}" for lane in config.policy.lanes)
    shown = shown or "no lanes configured" + (", none detected" if not found else "")
    if not found or any(sizes == [lane.targets for lane in one.lanes] for one in found):
        return Finding("OK", "lanes", shown)
    seen = "; ".join(
        f"{one.source}: {', '.join(str(lane.targets) for lane in one.lanes)}" for one in found
    )
    remedy = "`sluice init --output FILE` writes lanes as they are now; compare the two"
    return Finding("WARN", "lanes", f"{shown}; found targets, {seen}", remedy)


def _places(config: Config) -> Iterator[Finding]:
    """Name what lies outside the two directories that the units may write to."""
    for key, path in (("History", config.history), ("Bundle", config.bundle)):
        if not path.startswith(("/var/lib/sluice/", "/run/sluice/")):
            yield Finding(
                "WARN",
                "units",
                f"{key}={path} lies where sluiced.service may not write",
                f"`systemctl edit sluiced`, with ReadWritePaths={Path(path).parent}",
            )
