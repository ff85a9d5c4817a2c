"""Trains the classifier that ships: `python -m sluice.patterns.shipped LABELS.csv [OTHERS.csv…]`.

The logs lie beside the labels; only those whose label is certain count. The first file teaches;
the others, real programs, tell how sure an answer may be. The same logs always give the same
file.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sluice.history_db.labels import read_labels
from sluice.patterns.classifier import PACKAGED
from sluice.patterns.examples import Example, labelled_examples
from sluice.patterns.training import train_patterns


def main() -> None:
    teaching, *others = (certain_examples(Path(name)) for name in sys.argv[1:])
    classifier = train_patterns(teaching, calibrating=[each for part in others for each in part])
    Path(__file__).with_name(PACKAGED).write_bytes(classifier.to_bytes())


def certain_examples(labels: Path) -> list[Example]:
    """Read the logs beside a file of labels whose label is certain."""
    with labels.open() as file:
        rows = [row for row in read_labels(file, name=str(labels)) if row.certain]
    return labelled_examples(labels.parent, rows)


if __name__ == "__main__":
    main()
