"""Names and places of Darshan's counters, as libdarshan-util knows them."""

from __future__ import annotations

from functools import cache

from darshan.backend import cffi_backend


@cache
def counter_index(module: str) -> dict[str, int]:
    """Map the names of a module's counters, without its prefix, to their places."""
    return _index(cffi_backend.counter_names(module))


@cache
def time_index(module: str) -> dict[str, int]:
    """Map the names of a module's floating-point counters likewise."""
    return _index(cffi_backend.fcounter_names(module))


def _index(names: list[str]) -> dict[str, int]:
    return {name.split("_", 1)[1]: place for place, name in enumerate(names)}
