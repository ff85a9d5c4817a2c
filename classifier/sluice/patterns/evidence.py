"""Why a log is called what it is called, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sluice.darshan.behaviour import FILLED, REWRITTEN
from sluice.darshan.features import FEATURES
from sluice.darshan.totals import METADATA_OPERATIONS, SILENT_COVERAGE, UNSEEN_COVERAGE
from sluice.policies.core import UNKNOWN

if TYPE_CHECKING:
    from sluice.history_db.records import Profile


def evidence(profile: Profile, features: bytes) -> list[str]:
    """Return the signals in a log that speak for its pattern, each a clause."""
    values = dict(zip(FEATURES, np.frombuffer(features, dtype="<f4").tolist(), strict=True))
    signals = [
        *_volume(values),
        *_writing(values, profile),
        *_flushing(values, profile.numbers),
    ]
    if values["coverage"] < 0.95:
        signals.append(_what_is_missing(values))
    if profile.pattern == UNKNOWN:
        signals.append("none of this is certain enough to name a pattern")
    return signals


def _what_is_missing(values: dict[str, float]) -> str:
    """Say why the confidence is lower than the classifier's."""
    if values["mapped"]:
        return "writes a file through memory, where Darshan cannot see it"
    if not values["log2_bytes"] and values["log2_operations"]:
        return "opens files of whose data Darshan saw nothing"
    if values["coverage"] == SILENT_COVERAGE:
        return "opens streams of whose data Darshan saw nothing, so that it may write much"
    if values["coverage"] == UNSEEN_COVERAGE:
        return "Darshan ran out of records: of the files after the first ones it saw nothing"
    return f"Darshan kept records for only {values['coverage']:.0%} of the bytes"


def _volume(values: dict[str, float]) -> list[str]:
    signals = []
    if values["significance"] == 0:
        signals.append("moves too few bytes to matter")
    elif values["read_ratio"] > 0.05:
        fed = ", most of them its input" if values["supplied_share"] > 0.5 else ""
        signals.append(f"{values['read_ratio']:.0%} of its bytes are reads{fed}")
    operations = _count(values["log2_operations"])
    if operations >= METADATA_OPERATIONS:
        each = _count(values["log2_bytes_per_operation"])
        signals.append(f"opens and looks at files {operations:.0f} times, {each:.0f} B each")
    return signals


def _writing(values: dict[str, float], profile: Profile) -> list[str]:
    if not profile.numbers.get("write_bytes"):
        return []
    signals = []
    successive = _count(values["log2_successive_files"])
    overwrite = _count(values["log2_overwrite"])
    if overwrite > REWRITTEN:
        how = "emptying it each time" if values["truncated_share"] > 0.5 else "in place"
        signals.append(f"writes the same bytes of a file {overwrite:.1f} times, {how}")
    if successive >= 2.5:
        signals.append(f"writes {successive:.0f} files alike one after the other")
    if values["random_share"] > 0.5:
        signals.append("writes in no order")
    elif overwrite < FILLED and profile.shares.get("ws", 0) > 0.5:
        signals.append("leaves gaps in a file, which was there before")
    elif overwrite <= REWRITTEN and successive < 2.5:
        writes = _count(values["log2_writes_per_open"])
        signals.append(f"appends to a file, {max(1.0, writes):.0f} writes for each open")
    if values["stdio_share"] > 0.5:
        signals.append("through buffered streams (STDIO)")
    elif values["streamed_share"] > 0.5:
        signals.append("through C++ streams")
    if values["mpiio_share"] > 0.5:
        signals.append("through MPI-IO")
    return signals


def _flushing(values: dict[str, float], numbers: dict[str, float]) -> list[str]:
    if not numbers.get("write_bytes") or "bytes_per_flush" not in numbers:
        return []
    if values["flushes_per_write"] == 0:
        return ["never flushes"]
    if values["flushes_per_write"] >= 0.9:
        return ["flushes every write"]
    return [f"flushes once in {1 / values['flushes_per_write']:.0f} writes"]


def _count(log2: float) -> float:
    """Undo log2 (1 + n)."""
    return float(2**log2 - 1)
