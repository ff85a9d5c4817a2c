"""The interference model that everything is judged by, and what it is called.

It is that of the published bundle, by which jobs are decided; without one, what the history's
measurements and production teach; without these, the published figures of other file systems.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.interference.production.site import site_evidence
from sluice.interference.site_model import Basis, SiteModel
from sluice.policies.bundle import Bundle, name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.history_db.store import Store
    from sluice.interference.production.site import SiteEvidence
    from sluice.policies.core import Config, View
    from sluice.prediction.jobs import FinishedJob

PUBLISHED_FIGURES = "published figures of other file systems (Shah et al.), none of this site"


@dataclass(frozen=True, slots=True)
class NamedModel:
    """An interference model, and where it comes from."""

    source: str
    """One of bundle, history, published."""
    name: str
    """The same in every output."""
    site: SiteModel
    basis: Basis | None
    """None: the bundle is of a Sluice that did not say."""

    @property
    def struct(self) -> View:
        return self.site.struct()

    def __str__(self) -> str:
        is_told = self.source == "bundle" and self.basis
        return f"{self.name}, from {self.basis}" if is_told else self.name

    def as_json(self) -> dict[str, Any]:
        basis = asdict(self.basis) if self.basis else None
        return {"source": self.source, "name": self.name, "basis": basis}


def default_model(
    store: Store,
    settings: Config,
    *,
    jobs: Sequence[FinishedJob] | None = None,
    evidence: SiteEvidence | None = None,
) -> NamedModel:
    """Return the model of the configuration's bundle, else the history's, else the published one.

    jobs: the latest undisturbed ones, and evidence: what the history has, where they were read
    already. Raises OSError, CoreError.
    """
    path = Path(settings.bundle)
    if path.is_file():
        return _of_bundle(path)
    site = (evidence or site_evidence(store, jobs=jobs)).model()
    if site.basis.count:
        name = f"a fit to the history {store.path}: {site.basis}"
        return NamedModel("history", name, site, site.basis)
    return NamedModel("published", PUBLISHED_FIGURES, site, site.basis)


def _of_bundle(path: Path) -> NamedModel:
    bundle = Bundle.read(path)
    told = _told(bundle.text)
    basis = Basis(**told["basis"]) if "basis" in told else None
    site = SiteModel(bundle.interference.to_dict(), told.get("bandwidth", 0.0), basis or Basis())
    return NamedModel("bundle", name_of(path, bundle.created), site, basis)


def _told(text: str) -> dict[str, Any]:
    """Return what a bundle tells of its interference model, for people."""
    try:
        told: dict[str, Any] = json.loads(text).get("interference", {})
    except (ValueError, AttributeError):
        return {}
    return told
