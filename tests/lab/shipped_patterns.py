"""Trains the classifier that ships: `make patterns`.

The logs lie next to the labels; only those whose label is certain count. The first file teaches,
together with synthesised logs, whose measurements ship too, for sites that train their own. The
other files, real programs, tell how sure an answer may be. The same logs always give the same
files.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from synthetic.corpus import PATTERNS, synthesise

from sluice.darshan.features import measure
from sluice.darshan.log import read_log
from sluice.history_db.intake import read_labels
from sluice.patterns import classifier, examples
from sluice.patterns.examples import Example, example_of, labelled_examples
from sluice.patterns.fit import SEED
from sluice.patterns.training import SYNTHESISED_PER_PATTERN, train_patterns


def main() -> None:
    place = Path(classifier.__file__).parent
    write_examples(made_examples(SYNTHESISED_PER_PATTERN), place / examples.PACKAGED)
    teaching, *others = (certain_examples(Path(name)) for name in sys.argv[1:])
    trained = train_patterns(teaching, calibrating=[each for part in others for each in part])
    (place / classifier.PACKAGED).write_bytes(trained.to_bytes())


def certain_examples(labels: Path) -> list[Example]:
    """Read the logs next to a file of labels whose label is certain."""
    with labels.open() as file:
        rows = [row for row in read_labels(file, name=str(labels)) if row.certain]
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
