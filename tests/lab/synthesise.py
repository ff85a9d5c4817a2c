"""Makes Darshan logs of known patterns, for tests and load: `synthesise.py DIR --logs 1000`.

Genuine logs of the format 3.41, over patterns, programs, libraries, layouts, processes, chunks
and noise; DIR/labels.csv says what each one is, as `tests/bench/pattern_cards.py` reads it. Log
number i of a seed has the same bytes whenever it is made, and by whom.
"""

import argparse
from pathlib import Path

from synthetic.corpus import PATTERNS, synthesise, write_labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--logs", type=int, default=100, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="which corpus")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--pattern", dest="patterns", nargs="+", choices=PATTERNS, default=PATTERNS)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    made = synthesise(
        asked.folder, asked.logs, seed=asked.seed, first=asked.first, patterns=tuple(asked.patterns)
    )
    print(f"made {write_labels(made, asked.folder / 'labels.csv')} logs")


if __name__ == "__main__":
    main()
