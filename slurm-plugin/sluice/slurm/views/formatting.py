"""Numbers, times and errors as text."""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

NOTHING = "–"
"""What stands for a number that is not known."""
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"


def error_text(error: Exception) -> str:
    """Say what is wrong as our own errors do: the file first."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


def one_line(text: str) -> str:
    """Text from users as one printable line: a job may be called anything."""
    return "".join(c if c.isprintable() else UNPRINTABLE for c in text)


# Numbers in words; None is unknown


def bytes_text(count: float | None) -> str:
    """Bytes in binary units: 4 KiB, 1.5 GiB."""
    if count is None:
        return NOTHING
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024:
            return f"{_short(count)} {unit}"
        count /= 1024
    return f"{_short(count)} PiB"


UNCONFIRMED = (
    "predictions by users' own runs affect no job, as no system counter confirms their I/O"
)
COUNT = (
    "JobAcctGatherType=jobacct_gather/linux in slurm.conf lets Slurm count; see "
    "/usr/share/doc/sluice/guide/ingest.md#what-counters-confirm"
)
"""What to do about it."""


def claims_text(claims: Sequence[tuple[int, float, int]]) -> str:
    """Name jobs, with the bytes that their logs claim and those that Slurm counted."""
    found = ", ".join(
        f"job {job_id} ({bytes_text(claimed)} of {bytes_text(counted)})"
        for job_id, claimed, counted in claims
    )
    return f"logs claim more than Slurm counted, and count for nothing: {found}"


def rate_text(rate: float | None) -> str:
    return NOTHING if rate is None else f"{bytes_text(rate)}/s"


def duration_text(seconds: float | None) -> str:
    """Give a duration in its two largest units: 8 s, 5 min 20 s, 3 h 10 min, 2 d 4 h."""
    if seconds is None:
        return NOTHING
    if seconds < 60:
        return f"{_short(seconds)} s"
    for size, unit, smaller_size, smaller_unit in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= size:
            rest = int(seconds % size // smaller_size)
            return f"{int(seconds // size)} {unit}" + (f" {rest} {smaller_unit}" if rest else "")
    raise AssertionError


def share_text(share: float | None) -> str:
    return NOTHING if share is None else f"{share:.0%}"


def times_text(factor: float) -> str:
    """Write a slowdown as 1.25×."""
    return f"{factor:.2f}×"


def amount_text(amount: float) -> str:
    """Write an amount to two significant digits, and a large one in full."""
    return f"{amount:.0f}" if amount >= 99.5 or amount == 0 else f"{amount:.2g}"


def count_text(number: int, noun: str) -> str:
    """Write how many there are: 1 job, 2 jobs."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def time_text(seconds: int | None) -> str:
    """Local time of UTC seconds; nothing for None and 0."""
    if not seconds:
        return NOTHING
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


WIDEST = 100.0
"""Upper over lower end of the interval of a number: a wider one, more than ten times up or down,
tells no size at all, and the number counts as not known."""


def tells_size(spread: float | None) -> bool:
    """Whether a number is known whose logarithm deviates so much; None: by how much is not said."""
    from sluice.policies.core import Z90  # noqa: PLC0415 - texts are there before the core

    return spread is None or 2 * Z90 * spread <= math.log(WIDEST)


def known(profile: Mapping[str, Any]) -> dict[str, Any]:
    """Return a profile in which a number is None unless its interval tells its size."""
    unknown = (name for name, spread in profile["spread"].items() if not tells_size(spread))
    return {**profile, **dict.fromkeys(unknown)}


def intervals(profile: Mapping[str, Any]) -> dict[str, list[float] | None]:
    """Return between which two values nine in ten runs are expected, by number.

    None: not known.
    """
    from sluice.policies.core import Z90  # noqa: PLC0415 - texts are there before the core

    found: dict[str, list[float] | None] = {}
    for name, spread in profile["spread"].items():
        value = known(profile)[name]
        found[name] = None
        if value is not None:
            factor = math.exp(Z90 * spread)
            most = value * factor
            found[name] = [value / factor, min(most, 1.0) if name.endswith("_share") else most]
    return found


def with_range(profile: Mapping[str, Any], name: str, text: Callable[[float | None], str]) -> str:
    """Write a number of a profile with the interval of nine in ten runs, where that is known."""
    value, ends = known(profile)[name], intervals(profile).get(name)
    if not value or ends is None:
        return text(value)
    return f"{text(value)} ({text(ends[0])} to {text(ends[1])})"


def _short(number: float) -> str:
    """At most three digits, without a fraction that says nothing."""
    return f"{number:.0f}" if number >= 100 or number == int(number) else f"{number:.3g}"
