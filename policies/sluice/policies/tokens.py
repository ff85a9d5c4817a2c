"""Tokens: the licences by which Slurm itself makes jobs wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.policies._core import ffi, lib
from sluice.policies.structs import CLASSES, CoreError, View, new

if TYPE_CHECKING:
    from collections.abc import Mapping

LICENSES_SIZE: int = lib.SLUICE_LICENSES_SIZE
"""Bytes that a job's licences may have, with their end."""
MIN_TOTAL: int = lib.SLUICE_MIN_TOTAL
"""With fewer in slurm.conf a token counts as undefined."""
TOTAL_UNKNOWN = 0xFFFFFFFF
"""A total that slurmctld does not tell."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """One token of the class on each lane of the mask."""

    klass: str = "none"
    lane_mask: int = 0


@dataclass(frozen=True, slots=True)
class Stripped:
    """A user's text without the tokens that it names."""

    text: str
    items: int
    """Items taken off."""
    lanes: int
    """Mask of the lanes whose granted token the text names."""


def token_name(policy: View, lane: int, klass: str) -> str:
    """Name the token of a lane and class: `sl0_stream`; lane 0 is `all` where there are none."""
    out = ffi.new("char[]", lib.SLUICE_TOKEN_SIZE)
    lib.sluice_token_name(policy.struct, lane, CLASSES.index(klass), out)
    return str(ffi.string(out).decode())


def token_names(policy: View) -> dict[str, tuple[int, str]]:
    """Map the names of all tokens of a policy to lane and class."""
    return {
        token_name(policy, lane, klass): (lane, klass)
        for lane in range(max(1, policy.lane_count))
        for klass in CLASSES
        if klass != "none"
    }


def append(policy: View, tokens: Tokens, text: str) -> str | None:
    """Add tokens behind a user's licences; None if the result would be too long."""
    raw = text.encode(errors="surrogateescape")
    if len(raw) >= LICENSES_SIZE:
        return None
    out = ffi.new("char[]", raw + bytes(LICENSES_SIZE - len(raw) - 1))
    if lib.sluice_licenses_append(policy.struct, _struct(tokens), out) != 0:
        return None
    return str(ffi.string(out).decode(errors="surrogateescape"))


def strip(policy: View, text: str, granted: Tokens | None = None) -> Stripped:
    """Take lane tokens off a user's own text, except those granted, which may be named."""
    out = ffi.new("char[]", LICENSES_SIZE)
    stripped = ffi.new("struct sluice_stripped *")
    raw = ffi.new("char[]", text.encode(errors="surrogateescape"))
    given = _struct(granted) if granted else ffi.NULL
    if lib.sluice_licenses_strip(policy.struct, ffi.NULL, given, raw, out, stripped) != 0:
        raise CoreError(f"licences of {len(raw) - 1} bytes; Slurm takes {LICENSES_SIZE}")
    result = ffi.string(out).decode(errors="surrogateescape")
    return Stripped(result, stripped.items, stripped.lanes)


def join_lanes(policy: View, other: View) -> View:
    """Return the policy with the other's lanes behind its own: whose tokens users may not write."""
    joined = ffi.new("struct sluice_policy *", policy.struct[0])
    lib.sluice_policy_join_lanes(joined, other.struct)
    return View(joined)


def strip_request(
    policy: View, request: Mapping[str, str | int | None]
) -> dict[str, str | int | None]:
    """Take lane tokens off what a user asked for (struct sluice_request), as the plugin does."""
    result = dict(request)
    for member in ("licenses", "tres_per_task"):
        text = result.get(member)
        if isinstance(text, str) and len(text.encode(errors="surrogateescape")) < LICENSES_SIZE:
            result[member] = strip(policy, text).text or None
    return result


def _struct(tokens: Tokens) -> Any:
    return new("struct sluice_tokens", {"klass": tokens.klass, "lane_mask": tokens.lane_mask})
