"""Functions of the core that only tests call by themselves, and bundles in files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.policies._core import ffi, lib
from sluice.policies.bundle import Bundle
from sluice.policies.bundle_writer import pack_bundle
from sluice.policies.container import write_atomically
from sluice.policies.core import CLASSES
from sluice.policies.record import strip
from sluice.policies.structs import View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

UNKNOWN_RATE = float(lib.sluice_unknown_rate_spread)
"""Spread of the rate alone beyond which the core calls no job harmless."""


def submission_size(submission: View) -> float:
    """Return the processes as far as the user said: tasks, else nodes, else 0."""
    return float(lib.sluice_submission_size(submission.struct))


def slowed_down(pressure: View, speed: float) -> View:
    """Return the pressure on lanes of which the slowest gives this share of its peers' rate."""
    out = ffi.new("struct sluice_pressure *", pressure.struct[0])
    lib.sluice_pressure_slow_down(out, speed)
    return View(out)


def overlap(victim: View, other: View, model: View, z: float = 0.0) -> float:
    """Share of the victim's stretched I/O time in which other is active."""
    return float(lib.sluice_overlap(victim.struct, other.struct, model.struct, z))


def join_lanes(policy: View, other: View) -> View:
    """Return the policy with the other's lanes behind its own: what users may not write."""
    joined = ffi.new("struct sluice_policy *", policy.struct[0])
    lib.sluice_policy_join_lanes(joined, other.struct)
    return View(joined)


def strip_request(
    policy: View, request: Mapping[str, str | int | None]
) -> dict[str, str | int | None]:
    """Take lane tokens off what a user asked for (struct sluice_request), as the plugin does."""
    result = dict(request)
    for member, for_tasks in (("licenses", False), ("tres_per_task", True)):
        text = result.get(member)
        if isinstance(text, str):
            result[member] = strip(policy, text, for_tasks=for_tasks).text or None
    return result


@dataclass(frozen=True, slots=True)
class Gates:
    """Tokens that a lane lets out, by class."""

    tokens: dict[str, int]


def gates(
    running: Sequence[tuple[str, View]],
    waiting: Sequence[tuple[str, View]],
    background: Sequence[View],
    *,
    model: View,
    policy: View,
    limit: int,
) -> Gates:
    """Size the gates of a lane for jobs given as (class, pressure on the lane).

    They stay sound while running jobs end.
    """
    out = ffi.new("struct sluice_gates *")
    lib.sluice_gates_keep(
        _members([*running, *waiting]),
        len(running),
        len(waiting),
        _pressures(background),
        len(background),
        model.struct,
        policy.struct,
        limit,
        out,
    )
    return Gates(dict(zip(CLASSES, out.tokens, strict=True)))


def _members(jobs: Sequence[tuple[str, View]]) -> Any:
    array = ffi.new("struct sluice_member[]", len(jobs))
    for member, (klass, pressure) in zip(array, jobs, strict=True):
        member.klass = CLASSES.index(klass)
        member.pressure = pressure.struct[0]
    return array


def _pressures(pressures: Sequence[View]) -> Any:
    return ffi.new("struct sluice_pressure[]", [item.struct[0] for item in pressures])


def write_bundle(path: Path, **content: Any) -> bytes:
    """Write a bundle of what pack_bundle takes, atomically, and return its content."""
    packed = pack_bundle(**content)
    Bundle.parse(packed)  # what the plugin would refuse fails here
    write_atomically(path, packed)
    return packed
