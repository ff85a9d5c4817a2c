"""Trains the classifier that ships: `python -m sluice.classifier.shipped LABELS.csv`.

The logs lie beside the labels; only those whose label is certain teach. The same logs always
give the same file.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sluice.classifier.examples import labelled_examples
from sluice.classifier.pattern_training import train_patterns
from sluice.classifier.patterns import PACKAGED
from sluice.history_db.labels import read_labels


def main() -> None:
    labels = Path(sys.argv[1])
    with labels.open() as file:
        rows = [row for row in read_labels(file, name=str(labels)) if row.certain]
    classifier = train_patterns(labelled_examples(labels.parent, rows))
    Path(__file__).with_name(PACKAGED).write_bytes(classifier.to_bytes())


if __name__ == "__main__":
    main()
