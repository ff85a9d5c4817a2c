"""The physical features in which the interference model measures how alike programs are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sluice.policies import core

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sluice.interference.programs import ProductionProgram, Program

SCALES = (0.8, 0.8, 3.0, 3.0)
"""Of streaming share, creating share, log2 chunk, log2 processes: how far apart two kinds of
traffic may be and still say much about each other."""


def features(programs: Sequence[Program | ProductionProgram]) -> NDArray[np.float64]:
    """Return (programs, features), as the core computes them."""
    return np.array([core.traffic_features(program.profile()) for program in programs])


def likeness(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (len(a), len(b)): 1 for the same kind of traffic, towards 0 for unlike ones."""
    return core.likeness(SCALES, a, b)
