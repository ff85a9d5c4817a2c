"""What a history knows of how programs disturb each other on its site's storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.attribution.production import Pair, pooled, seen_in_production
from sluice.calibrate.site import site_observations
from sluice.calibrate.site_model import SiteModel, fit

if TYPE_CHECKING:
    from sluice.calibrate.observations import Observation, Seen
    from sluice.history_db.store import Store


@dataclass(frozen=True, slots=True)
class SiteEvidence:
    """What calibrations measured and production showed."""

    measured: list[Observation]
    production: list[Seen]
    pairs: list[Pair]
    """All that were tested in production, also of applications that the model cannot place."""

    def model(self) -> SiteModel:
        """Return the interference model of the site; the published one without evidence."""
        return fit(self.measured, self.production)


def site_evidence(store: Store) -> SiteEvidence:
    pairs = pooled(store.observed_interference())
    return SiteEvidence(site_observations(store), seen_in_production(store, pairs), pairs)
