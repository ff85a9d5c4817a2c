"""Which lanes are slow, as the history has it: looked up now and then, for every snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.interference.calibrate.target_speeds import Lanes, speeds_of_lanes
from sluice.slurm.troubles import log

if TYPE_CHECKING:
    from sluice.history_db.store import Store
    from sluice.policies.core import View

REFRESH_SECONDS = 60


class LaneSpeeds:
    """Speeds of the slow lanes, by name; all others go at full speed."""

    def __init__(self) -> None:
        self.latest: dict[str, float] = {}
        self._asked: int | None = None

    def refresh(self, store: Store, config: View, now: int) -> None:
        """Ask the history again, if that was long ago. If that fails, no lane is slow."""
        if self._asked is not None and 0 <= now - self._asked < REFRESH_SECONDS:
            return
        before, self.latest = self.latest, {}
        self._asked = now
        found = speeds_of_lanes(store, Lanes.of(config), now, was_slow=before.keys())
        speeds = {one.target: one.published_after(was_slow=one.target in before) for one in found}
        self.latest = {lane: speed for lane, speed in speeds.items() if speed < 1}
        for lane in sorted(self.latest.keys() - before.keys()):
            log.info("lane %s is slow: %.0f %% of its peers", lane, 100 * self.latest[lane])
        for lane in sorted(before.keys() - self.latest.keys()):
            log.info("lane %s is slow no longer", lane)
