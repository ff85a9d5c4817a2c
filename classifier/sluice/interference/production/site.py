"""What a history knows of how programs disturb each other on its site's storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.interference.observations import alone_rates
from sluice.interference.production.pairs import Pair, pooled, seen_in_production
from sluice.interference.site import of_writers, site_coruns
from sluice.interference.site_model import SiteModel, fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.history_db.store import Store
    from sluice.interference.observations import Observation, Seen
    from sluice.interference.programs import Program
    from sluice.prediction.jobs import FinishedJob


@dataclass(frozen=True, slots=True)
class SiteEvidence:
    """What calibrations measured and production showed."""

    measured: list[Observation]
    rates_alone: dict[Program, float]
    """B/s of each program that was measured alone."""
    production: list[Seen]
    pairs: list[Pair]
    """All that were tested in production, also of applications that the model cannot place."""

    @property
    def count(self) -> int:
        """How much the model can learn from."""
        return len(self.measured) + sum(one.is_of_writers for one in self.production)

    def model(self) -> SiteModel:
        """Return the interference model of the site; the published one without evidence."""
        return fit(self.measured, self.production)


def site_evidence(store: Store, *, jobs: Sequence[FinishedJob] | None = None) -> SiteEvidence:
    """Return it; jobs: the latest undisturbed ones, where they were read already."""
    pairs = pooled(store.observed_interference())
    coruns = site_coruns(store)
    return SiteEvidence(
        measured=of_writers(coruns),
        rates_alone=alone_rates(coruns),
        production=seen_in_production(store, pairs, jobs),
        pairs=pairs,
    )
