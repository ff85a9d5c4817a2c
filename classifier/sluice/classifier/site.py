"""The pattern classifier of a site: its own where it trained one, else the one that ships."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.classifier.patterns import PatternClassifier, packaged_classifier

if TYPE_CHECKING:
    from sluice.history_db.store import Store


def site_classifier(store: Store) -> PatternClassifier:
    content = store.classifier()
    return PatternClassifier.from_bytes(content) if content else packaged_classifier()
