"""Turns on either storage model: settings and errors of control (engine/storage/bursts.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.sim._engine import ffi
from sluice.sim.engine import StorageModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTINGS = tuple(name for name, _ in ffi.typeof("struct sluice_turns_settings").fields)
ERRORS = ("demand_error", "noise")


def take_turns(config: Any, values: Mapping[str, float]) -> None:
    """Switch a struct sluice_turns_config on; what is not given keeps its default."""
    config.is_on = 1
    for name, value in values.items():
        if name not in SETTINGS + ERRORS:
            raise StorageModelError(f"turns have no {name}; give {', '.join(SETTINGS + ERRORS)}")
        setattr(config if name in ERRORS else config.settings, name, value)
