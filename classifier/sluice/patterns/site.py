"""The pattern classifier of a site: its own where it trained one, else the one that ships."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.patterns.classifier import ClassifierError, PatternClassifier, packaged_classifier

if TYPE_CHECKING:
    from sluice.history_db.store import Store


def site_classifier(store: Store) -> PatternClassifier:
    content = store.classifier()
    if content is None:
        return packaged_classifier()
    try:
        return PatternClassifier.from_bytes(content)
    except ClassifierError:  # trained by another version, on features that are no longer made
        return packaged_classifier()
