"""Programs and applications, as the interference model describes them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.policies import core

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray


class CalibrationError(Exception):
    """A plan, a target or a measurement that cannot be."""


class TasksError(CalibrationError):
    """--srun starts another number of probes than --tasks says: it cannot be gone on with."""


class LateStartError(CalibrationError):
    """A probe was not ready at the instant at which all were to begin."""


KIB = 1 << 10
MIB = 1 << 20

PATTERNS = ("owc", "ws", "aw", "read", "metadata")
WRITES = ("owc", "ws", "aw")
READ = "read"
FLUSHING = ("owc", "ws")
SYNCS = ("none", "close", "each")
MOSTLY = 0.9
"""Least share of writing of an application that the law is fitted to: the law would take reads and
metadata for rewriting."""
ENDLESS = 1 << 40
"""Bytes: what a program that never flushes writes, as far as the model is concerned."""

READS = {"read_sequential_share": 1.0, "read_cached_share": 0.0}
"""Numbers of the profile of a program that reads: past the cache, one file after the other."""
DIRECT_BYTES = 4 * KIB
"""Divisor of every chunk of direct I/O."""

_SIZE = re.compile(r"([0-9]{1,15})([KMG]?)", re.IGNORECASE)
_PROCESSES = re.compile(r"0*[1-9][0-9]{0,8}")
_UNITS = {"": 1, "K": KIB, "M": MIB, "G": 1 << 30}


def size_text(count: int) -> str:
    """Write bytes as sluice-probe takes them: 4096, 64K, 1M."""
    for unit in ("G", "M", "K"):
        if count % _UNITS[unit] == 0:
            return f"{count // _UNITS[unit]}{unit}"
    return str(count)


def parse_size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if not match or int(match[1]) == 0:
        raise CalibrationError(f"{text}: not a number of bytes like 4096, 64K or 1M")
    return int(match[1]) * _UNITS[match[2].upper()]


@dataclass(frozen=True, slots=True, order=True)
class Program:
    """A program as sluice-probe runs it; its text is `owc:1M:2`, or `aw:1M:2:each:direct`."""

    pattern: str
    """Patterns of sluice-probe, joined by + when its processes differ."""
    chunk_bytes: int
    processes: int = 2
    sync: str = ""
    """Its flushes; empty: as the pattern has them in the paper."""
    direct: bool = False

    def __str__(self) -> str:
        parts = [self.pattern, size_text(self.chunk_bytes), str(self.processes)]
        if self.sync or self.direct:
            parts.append(self.sync)
        if self.direct:
            parts.append("direct")
        return ":".join(parts)

    @classmethod
    def parse(cls, text: str) -> Program:
        """Raise CalibrationError for what is no program."""
        pattern, *rest = text.split(":")
        chunk, processes, sync, direct = [*rest, "", "", "", ""][:4]
        if (
            len(rest) > 4
            or any(part not in PATTERNS for part in pattern.split("+"))
            or sync not in ("", *SYNCS)
            or direct not in ("", "direct")
            or not _PROCESSES.fullmatch(processes or "1")
        ):
            raise CalibrationError(
                f"{text}: not a program like owc:1M:2 (PATTERN:CHUNK:PROCESSES[:SYNC[:direct]], "
                f"patterns {', '.join(PATTERNS)}, sync {', '.join(SYNCS)})"
            )
        return cls(
            pattern,
            parse_size(chunk) if chunk else MIB,
            int(processes) if processes else 2,
            sync,
            direct == "direct",
        )

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.pattern.split("+"))

    @property
    def writes(self) -> float:
        """Share of its processes that write."""
        return _share(part in WRITES for part in self.parts)

    @property
    def is_writer(self) -> bool:
        """Return whether all its processes write."""
        return self.writes == 1

    @property
    def is_reader(self) -> bool:
        """Return whether all its processes read."""
        return set(self.parts) == {READ}

    @property
    def waits(self) -> bool:
        """Whether every write is on the storage before the next one begins."""
        return self.direct or all(self.sync_of(part) == "each" for part in self.parts)

    def sync_of(self, part: str) -> str:
        if self.sync:
            return self.sync
        return "each" if part in FLUSHING else "none"

    def options(self) -> list[str]:
        """Return sluice-probe's options for it."""
        words = ["--pattern", self.pattern, "--chunk", size_text(self.chunk_bytes)]
        words += ["--processes", str(self.processes)]
        if self.sync:
            words += ["--sync", self.sync]
        if self.direct:
            words.append("--direct")
        return words

    def profile(self, rate: float | None = None) -> dict[str, Any]:
        """Members of struct sluice_profile: its physical numbers; rate in B/s, alone."""
        parts = self.parts
        writes = [part for part in parts if part in WRITES]
        reads = parts.count(READ)
        creating = _share(part == "owc" for part in writes)
        streaming = 0.0 if self.direct else _share(self.sync_of(p) != "each" for p in writes)
        # Of a mix, the bytes between two flushes of all processes together.
        flush = self.chunk_bytes / (1 - streaming) if streaming < 1 else float(ENDLESS)
        return {
            "pattern": parts[0] if len(set(parts)) == 1 else "mixed",
            "share": {part: parts.count(part) / len(parts) for part in set(parts)},
            "chunk_bytes": float(self.chunk_bytes),
            "nprocs": float(self.processes),
            "write_bytes": float(ENDLESS) if writes else 0.0,
            "read_bytes": ENDLESS * reads / (len(writes) or 1),
            **(READS | {"read_chunk_bytes": float(self.chunk_bytes)} if reads else {}),
            "rate": rate,
            "bytes_per_flush": flush,
            "unflushed_bytes": ENDLESS / self.processes if streaming == 1 else 0.0,
            "creates_per_mib": creating * MIB / self.chunk_bytes,
            "direct_share": float(self.direct),
            "metadata_rate": None if "metadata" in parts else 0.0,
            "io_share": 1.0,
        }


@dataclass(frozen=True, slots=True, order=True)
class ProductionProgram:
    """A program in production, as far as the history knows it."""

    name: str
    members: Mapping[str, Any] = field(compare=False)
    """Of struct sluice_profile."""

    @property
    def direct(self) -> float:
        """Share of what it writes directly."""
        return float(self.members.get("direct_share") or 0.0)

    @property
    def is_writer(self) -> bool:
        """Return whether it mostly writes."""
        shares = self.members["share"]
        return math.fsum(shares.get(pattern, 0.0) for pattern in WRITES) >= MOSTLY

    def profile(self) -> Mapping[str, Any]:
        """Members of struct sluice_profile while it writes: how often it does is not asked."""
        return {**self.members, "rate": None, "io_share": 1.0}


def _share(flags: Any) -> float:
    values = [bool(flag) for flag in flags]
    return sum(values) / len(values) if values else 0.0


SCALES = (0.8, 0.8, 3.0, 3.0, 0.5)
"""Of streaming share, creating share, log2 chunk, log2 processes, share of reads: how far apart two
kinds of traffic may be and still say much about each other."""


def features(programs: Sequence[Program | ProductionProgram]) -> NDArray[np.float64]:
    """Return (programs, features), as the core computes them."""
    import numpy as np  # noqa: PLC0415 - numpy is large, and sluiced does without

    return np.array([core.traffic_features(program.profile()) for program in programs])


def likeness(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (len(a), len(b)): 1 for the same kind of traffic, towards 0 for unlike ones."""
    import numpy as np  # noqa: PLC0415 - likewise

    apart = (a[:, None, :] - b[None, :, :]) / SCALES
    return np.asarray(np.exp(-0.5 * (apart**2).sum(axis=2)))
