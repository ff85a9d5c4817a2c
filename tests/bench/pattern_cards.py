"""Judges the pattern classifier on labelled logs: docs/evidence/rounds.md.

pattern_cards.py LABELS.csv [--logs DIR] [--as-is]: trains one without each application and one
without each library, and asks them about those; with --as-is it asks the classifier that ships,
whose training must not have had the logs.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "lab"))

from pattern_card import as_is, cross_examined
from pattern_examples import labelled_examples, read_labels, synthesised_examples
from pattern_training import SYNTHESISED_PER_PATTERN

from sluice.patterns.classifier import packaged_classifier


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--logs", type=Path, help="default: next to the labels")
    parser.add_argument("--as-is", action="store_true")
    words = parser.parse_args()
    with words.labels.open(newline="", encoding="utf-8-sig") as file:
        rows = [row for row in read_labels(file) if row.certain]
    examples = labelled_examples(words.logs or words.labels.parent, rows)
    synthesised = synthesised_examples(SYNTHESISED_PER_PATTERN)
    if words.as_is:
        card = as_is(examples, packaged_classifier(), synthesised)
    else:
        card = cross_examined(examples, synthesised)
    print(json.dumps(card, indent=2))


if __name__ == "__main__":
    main()
