"""Which calibrations tell of the site's storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.interference.observations import Observation, observations, valid

if TYPE_CHECKING:
    from sluice.history_db.records import Calibration, CoRun
    from sluice.history_db.store import Store


def has_rates(store: Store, calibration: Calibration) -> bool:
    """Return whether it measured what programs keep; delta-graphs do not, nor one stopped early."""
    return bool(valid(store.coruns([calibration.id])))


def site_coruns(store: Store) -> list[CoRun]:
    """Return what all calibrations measured of the site.

    That is the one of which a calibration last found what the interference model can learn.
    """
    known = store.calibrations()
    for latest in reversed(known):
        if of_writers(store.coruns([latest.id])):
            return store.coruns([one.id for one in known if one.site == latest.site])
    return []


def of_writers(coruns: list[CoRun]) -> list[Observation]:
    """Return what the interference model can learn from them."""
    return [item for item in observations(coruns) if item.is_of_writers]
