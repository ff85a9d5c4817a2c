"""What a history knows of its site's storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.calibrate.observations import observations
from sluice.calibrate.site_model import SiteModel, fit

if TYPE_CHECKING:
    from sluice.history_db.records import Calibration, Encounter
    from sluice.history_db.store import Store


def site_calibrations(store: Store) -> list[Calibration]:
    """Return all calibrations of the site that was measured last."""
    known = store.calibrations()
    return [c for c in known if c.site == known[-1].site]


def site_encounters(store: Store) -> list[Encounter]:
    return store.encounters([c.id for c in site_calibrations(store)])


def site_model(store: Store) -> SiteModel:
    """Return the interference model of the site; the published one where nobody measured."""
    return fit(observations(site_encounters(store)))
