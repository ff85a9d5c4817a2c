"""Patterns by rules alone: the baseline a trained classifier has to beat, and weak labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST = 0.7  # share of the data from which one pattern names the run
CERTAIN = 0.97  # share from which a rule's answer may teach


def pattern_by_rules(shares: Mapping[str, float]) -> tuple[str, float]:
    """Return the pattern that the shares (behaviour.PATTERNS) amount to, and how clear it is."""
    for name in ("none", "metadata"):
        if shares.get(name, 0.0) > 0.5:
            return name, shares[name]
    data = {name: shares.get(name, 0.0) for name in ("owc", "ws", "aw", "read")}
    total = sum(data.values())
    name = max(sorted(data), key=data.__getitem__)
    clear = data[name] / total
    if clear >= MOST:
        return name, data[name]
    return "mixed", 1 - clear
