"""How policies without a model tell jobs apart, by what is predicted of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sluice.sim._engine import ffi, lib
from sluice.sim.storage.mean_field import fill_profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sluice.sim.trace.profiles import Profiles

HEAVY_IO = 0.02
"""I/O share from which a job counts as I/O-heavy: MinIoShare's default."""
STREAMING = 0.5
"""Share of the chunks that nobody waits for, from which a program streams."""


def is_heavy(profiles: Profiles) -> NDArray[np.bool_]:
    """Whether each job does I/O that matters."""
    writes = np.array([kind.get("pattern") not in ("none", "unknown") for kind in profiles.kinds])
    return writes[profiles.kind] & (profiles.io_share >= HEAVY_IO)


def streams(profiles: Profiles) -> NDArray[np.bool_]:
    """Whether each job waits for few of its writes."""
    struct = ffi.new("struct sluice_profile *")
    answers = []
    for kind in profiles.kinds:
        fill_profile(struct, kind)
        answers.append(lib.sluice_profile_streaming_share(struct) >= STREAMING)
    return np.array(answers)[profiles.kind]


def decades(profiles: Profiles) -> NDArray[np.int64]:
    """Return the power of ten next below each job's period in seconds; 0 where it has none."""
    periods = np.nan_to_num(profiles.periods, nan=1.0)
    return np.floor(np.log10(np.maximum(periods, 1.0))).astype(np.int64)
