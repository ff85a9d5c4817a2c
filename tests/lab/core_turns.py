"""Turns: which bursts go at full speed now, by the core (policies/core/turns.h)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from sluice.policies._core import ffi, lib
from sluice.policies.structs import checked, new

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXEMPT: int = lib.SLUICE_TURNS_EXEMPT
STATIONS = ("bytes", "operations", "links", "metadata")
"""In the order of enum sluice_station."""
REASONS = tuple(
    ffi.string(lib.sluice_turn_reason_name(i)).decode() for i in range(lib.SLUICE_TURN_REASON_COUNT)
)
FOREVER = float("inf")
_targets: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()
"""Of an array of jobs, what its members point to."""


def settings(**values: float) -> Any:
    """Make a struct sluice_turns_settings: the defaults but for these."""
    struct = new("struct sluice_turns_settings", values)
    error = ffi.new("struct sluice_error *")
    checked(lib.sluice_turns_settings_check(struct, error), error)
    return struct


def demand(**profile: float) -> dict[str, float]:
    """Return what is predicted that bursts of a profile take of each station."""
    out = ffi.new("double[]", len(STATIONS))
    lib.sluice_turns_demand(new("struct sluice_profile", profile), out)
    return dict(zip(STATIONS, out, strict=True))


def respite(settings: Any) -> float:
    return float(lib.sluice_turns_respite(settings))


def passed(
    respite: float, share: float, seconds: float, state: tuple[float, float]
) -> tuple[float, float]:
    """What so many seconds make of the `stretch` and `went` of a job."""
    stretch, went = ffi.new("double *", state[0]), ffi.new("double *", state[1])
    lib.sluice_turns_pass(respite, share, seconds, stretch, went)
    return stretch[0], went[0]


def storage(lanes: Sequence[Mapping[str, float]], *, metadata: float = 0.0) -> Any:
    """Make a struct sluice_turns_storage of lanes by the members of struct sluice_turns_lane."""
    values = [{"targets": 1.0, **lane} for lane in lanes]
    return new("struct sluice_turns_storage", {"metadata": metadata, "lanes": values})


def jobs_of(values: Sequence[Mapping[str, Any]]) -> Any:
    """Make an array of struct sluice_turns_job by its members.

    demand by the names of STATIONS; targets as numbers of its lane's, none: evenly on all.
    """
    array = ffi.new("struct sluice_turns_job[]", len(values))
    _targets[array] = kept = []
    for i, value in enumerate(values):
        demand = [value["demand"].get(station, 0.0) for station in STATIONS]
        members = {"most_held": FOREVER, "nodes": 1.0, **value, "demand": demand}
        if "targets" in members:
            bits = sum(1 << target for target in members["targets"])
            words = [bits >> 64 * word & (1 << 64) - 1 for word in range(8)]
            kept.append(ffi.new("uint64_t[8]", words))
            members["targets"] = kept[-1]
        array[i] = new("struct sluice_turns_job", members)[0]
    return array


@dataclass(frozen=True, slots=True)
class Turn:
    """The verdict on a job; the members of struct sluice_turn, with words for its enums."""

    reason: str
    index: float
    share: float
    until: float
    first: int | None
    saving: float | None

    @property
    def action(self) -> str:
        """Whether it goes, goes slower, or is held."""
        return "go" if self.share >= 1 else "slow" if self.share > 0 else "hold"


@dataclass(frozen=True, slots=True)
class Verdicts:
    """On all bursts, in the order of the jobs."""

    struct: Any
    again: float
    """Clock at which to decide again if nothing happens before."""

    def __getitem__(self, place: int) -> Turn:
        turn = self.struct[place]
        return Turn(
            REASONS[turn.reason],
            turn.index,
            turn.share,
            turn.until,
            None if turn.first == lib.SLUICE_TURN_NO_BURST else turn.first,
            None if math.isnan(turn.saving) else turn.saving,
        )

    def __len__(self) -> int:
        return len(self.struct)

    def by_key(self, jobs: Sequence[Mapping[str, Any]]) -> dict[int, Turn]:
        """Return the verdicts by the keys of the jobs, `first` being a key as well."""
        keys = [job["key"] for job in jobs]
        turns = [self[i] for i in range(len(keys))]
        firsts = [None if turn.first is None else keys[turn.first] for turn in turns]
        return {
            key: replace(turn, first=first)
            for key, turn, first in zip(keys, turns, firsts, strict=True)
        }

    def content(self) -> bytes:
        """Return the bytes of all verdicts."""
        return bytes(ffi.buffer(self.struct))


def decide(settings: Any, storage: Any, jobs: Any, *, clock: float) -> Verdicts:
    """Decide on all jobs that are in a burst."""
    count = len(jobs)
    out = ffi.new("struct sluice_turn[]", count)
    scratch = ffi.new("uint32_t[]", count)
    again = lib.sluice_turns_decide(settings, storage, jobs, count, clock, scratch, out)
    return Verdicts(out, again)


class Memory:
    """What is known of each station from how bursts went; nothing at first."""

    def __init__(self) -> None:
        self.struct = ffi.new("struct sluice_turns_memory *")
        lib.sluice_turns_memory_init(self.struct)

    def learn(self, settings: Any, storage: Any, jobs: Any, *, clock: float) -> tuple[Any, float]:
        """Return the storage to decide for, and the clock at which to learn again."""
        out = ffi.new("struct sluice_turns_storage *")
        again = lib.sluice_turns_learn(settings, storage, jobs, len(jobs), clock, self.struct, out)
        return out, float(again)


class Check:
    """Whether holds help, from trials (policies/core/turns_check.h); nothing is known at first."""

    def __init__(self, lag: float = 0.0) -> None:
        self.struct = ffi.new("struct sluice_turns_check *")
        lib.sluice_turns_check_init(self.struct, lag)

    @classmethod
    def of(cls, content: bytes) -> Check:
        """Make one of its bytes."""
        check = cls()
        ffi.buffer(check.struct)[:] = content
        return check

    def check(
        self, settings: Any, storage: Any, jobs: Any, verdicts: Verdicts, *, clock: float
    ) -> Verdicts:
        """Return the verdicts less the holds that do not help, and without that on trial."""
        out = ffi.new("struct sluice_turn[]", len(jobs))
        ffi.buffer(out)[:] = verdicts.content()
        again = lib.sluice_turns_check(settings, storage, jobs, len(jobs), clock, self.struct, out)
        return Verdicts(out, min(verdicts.again, float(again)))

    def content(self) -> bytes:
        """Return the bytes of all that is known."""
        return bytes(ffi.buffer(self.struct))

    @property
    def trials(self) -> float:
        """How many there were, less those that have faded."""
        return float(sum(pair.evidence.trials for pair in self.struct.pairs))


def pair_share(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Return what an order of bursts leaves of what two lose by sharing; of (nodes, burst) each."""
    parties = [ffi.new("struct sluice_turns_party *", one)[0] for one in (a, b)]
    return float(lib.sluice_turns_pair_share(*parties))
