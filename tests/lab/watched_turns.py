"""Watches turns in either storage model: each call of the core, and the same call made again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import core_turns as turns

from sluice.policies._core import ffi as core_ffi
from sluice.sim._engine import ffi


@dataclass(frozen=True)
class Decided:
    """The bytes of one call of the core: what went in, and what came out."""

    settings: bytes
    storage: bytes
    jobs: bytes
    check: bytes
    clock: float
    out: bytes
    again: float

    @property
    def described(self) -> Any:
        """The bursts that went in, as an array of struct sluice_turns_job."""
        return _in_core(self.jobs, "job")

    def reasons(self) -> set[str]:
        """Decide again from the same state, with the same outcome; return why, of all verdicts."""
        state = _in_core(self.settings, "settings"), _in_core(self.storage, "storage")
        verdicts = turns.decide(*state, self.described, clock=self.clock)
        check = turns.Check.of(self.check)
        verdicts = check.check(*state, self.described, verdicts, clock=self.clock)
        assert verdicts.content() == self.out
        assert verdicts.again == self.again
        return {verdicts[i].reason for i in range(len(verdicts))}


def watcher() -> tuple[Any, list[Decided]]:
    """Return a sluice_turns_watch, and the list that it adds each call of the core to."""
    seen: list[Decided] = []

    def note(_watcher: Any, found: Any) -> None:
        jobs = found.count * ffi.sizeof("struct sluice_turns_job")
        out = found.count * ffi.sizeof("struct sluice_turn")
        seen.append(
            Decided(
                settings=bytes(ffi.buffer(found.settings)),
                storage=bytes(ffi.buffer(found.storage)),
                jobs=bytes(ffi.buffer(found.jobs, jobs)),
                check=bytes(ffi.buffer(found.check)),
                clock=found.clock,
                out=bytes(ffi.buffer(found.turns, out)),
                again=found.again,
            )
        )

    return ffi.callback("sluice_turns_watch *", note), seen


def _in_core(content: bytes, kind: str) -> Any:
    """Take an array of the engine's library over into the core's."""
    struct = f"struct sluice_turns_{kind}"
    array = core_ffi.new(f"{struct}[]", len(content) // core_ffi.sizeof(struct))
    core_ffi.buffer(array)[:] = content
    return array
