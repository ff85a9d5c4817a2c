"""Trains the classifier that ships: `make patterns`.

The logs lie next to the labels; only those whose label is certain count. The first file teaches,
together with synthesised logs. The other files, real programs, tell how sure an answer may be. The
same logs always give the same files.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pattern_examples as examples
from pattern_examples import Example, example_of, labelled_examples, read_labels
from pattern_fit import SEED
from pattern_training import SYNTHESISED_PER_PATTERN, to_bytes, train_patterns
from synthetic.corpus import PATTERNS, synthesise

from sluice.darshan.features import measure
from sluice.darshan.log import read_log
from sluice.patterns import classifier


def main() -> None:
    write_examples(made_examples(SYNTHESISED_PER_PATTERN), examples.PACKAGED)
    teaching, *others = (certain_examples(Path(name)) for name in sys.argv[1:])
    trained = train_patterns(teaching, calibrating=[each for part in others for each in part])
    (Path(classifier.__file__).parent / classifier.PACKAGED).write_bytes(to_bytes(trained))


def certain_examples(labels: Path) -> list[Example]:
    """Read the logs next to a file of labels whose label is certain."""
    with labels.open() as file:
        rows = [row for row in read_labels(file) if row.certain]
    return labelled_examples(labels.parent, rows)


def made_examples(count: int) -> list[Example]:
    """Write and read genuine logs; `count` of each pattern."""
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        return [
            example_of(
                measure(read_log(Path(folder) / truth.file)),
                truth.pattern,
                truth.app,
                kind=examples.SYNTHESISED,
                chunk_bytes=truth.chunk_bytes,
            )
            for truth in synthesise(Path(folder), count * len(PATTERNS), seed=SEED)
        ]


def write_examples(made: list[Example], path: Path) -> None:
    """Write them as `synthesised_examples` reads them."""
    columns = {name: [getattr(one, name) for one in made] for name in examples.COLUMNS}
    octaves = np.array(columns.pop("chunk_octaves"), dtype=float)  # None becomes NaN
    np.savez_compressed(path, chunk_octaves=octaves, **columns)


if __name__ == "__main__":
    main()
