"""What the pattern classifier learns from, and the rules that it has to beat."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sluice.darshan.features import FEATURES, measure
from sluice.darshan.log import DarshanLogError, read_log
from sluice.policies.core import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from sluice.darshan.features import Measurement
    from sluice.darshan.log import DarshanLog


MOST = 0.7  # share of the data from which one pattern names the run


def pattern_by_rules(shares: Mapping[str, float]) -> tuple[str, float]:
    """Return the pattern that the shares (features.PATTERNS) amount to, and how clear it is."""
    for name in ("none", "metadata"):
        if shares.get(name, 0.0) > 0.5:
            return name, shares[name]
    data = {name: shares.get(name, 0.0) for name in ("owc", "ws", "aw", "read")}
    total = sum(data.values())
    name = max(sorted(data), key=data.__getitem__)
    clear = data[name] / total
    if clear >= MOST:
        return name, data[name]
    return "mixed", 1 - clear


PACKAGED = Path(__file__).parents[1] / "data" / "synthesised.npz"
"""`make patterns` writes it."""
COLUMNS = ("features", "pattern", "application", "by_rules", "chunk_octaves")
LABELLED, SYNTHESISED = "labelled", "synthesised"
WEIGHTS = {LABELLED: 3.0, SYNTHESISED: 1.0}
"""How much one log of each kind counts."""
WITH_CHUNK = {"owc", "ws", "aw", "read"}


@dataclass(frozen=True, slots=True)
class Example:
    """One log with its pattern."""

    features: NDArray[np.float32]
    pattern: str
    application: str
    kind: str = LABELLED
    by_rules: str = UNKNOWN
    """What the rules alone say."""
    chunk_octaves: float | None = None
    """log2 of the chunk found over the true one; None: there is no true one, or none was found."""

    @property
    def library(self) -> str:
        return library_of(self.features)


def library_of(features: NDArray[np.float32]) -> str:
    """Return the library that wrote most bytes."""
    values = dict(zip(FEATURES, features.tolist(), strict=True))
    if values["mpiio_share"] > 0.5:
        return "mpiio"
    if values["stdio_share"] > 0.5:
        return "stdio"
    return "iostream" if values["streamed_share"] > 0.5 else "posix"


def example_of(
    measurement: Measurement,
    pattern: str,
    application: str,
    *,
    kind: str = LABELLED,
    chunk_bytes: float = 0.0,
) -> Example:
    found = measurement.numbers.get("chunk_bytes", 0.0)
    octaves = float(np.log2(found / chunk_bytes)) if found and chunk_bytes > 1 else None
    return Example(
        features=measurement.features,
        pattern=pattern,
        application=application,
        kind=kind,
        by_rules=pattern_by_rules(measurement.shares)[0],
        chunk_octaves=octaves,
    )


LABELS = {
    **{name: name for name in ("owc", "ws", "aw", "read", "metadata", "mixed", "none")},
    "meta": "metadata",
}
CERTAIN = "clean"


@dataclass(frozen=True, slots=True)
class LabelRow:
    """One row of a CSV of labels."""

    file: str
    pattern: str
    application: str
    """By which logs are held out together; the file's name where the CSV does not tell."""
    certain: bool
    """Whether label_quality begins with `clean`, or is missing."""
    chunk_bytes: float
    """Of the operation that moves most bytes; 0: not known."""


def read_labels(lines: Iterable[str]) -> Iterator[LabelRow]:
    """Read a CSV of labels.

    Columns: `file`, `pattern`; where there are any: `app`, `label_quality`, `chunk_bytes`.
    """
    for row in csv.DictReader(lines):
        yield LabelRow(
            file=row["file"],
            pattern=LABELS[row["pattern"].strip().lower()],
            application=row.get("app") or row["file"].rpartition("/")[2],
            certain=(row.get("label_quality") or CERTAIN).startswith(CERTAIN),
            chunk_bytes=float(row.get("chunk_bytes") or 0),
        )


def labelled_examples(folder: Path, labels: Iterable[LabelRow]) -> list[Example]:
    """Read the logs that labels name, below a folder.

    Raises DarshanLogError or OSError with the log's name.
    """
    return [
        example_of(
            measure(_read(folder / row.file)),
            row.pattern,
            row.application,
            chunk_bytes=row.chunk_bytes if row.pattern in WITH_CHUNK else 0.0,
        )
        for row in labels
    ]


def _read(path: Path) -> DarshanLog:
    try:
        return read_log(path)
    except DarshanLogError as error:
        raise DarshanLogError(f"{path}: {error}") from error


def synthesised_examples(count: int) -> list[Example]:
    """Return `count` logs of each pattern, of those that were synthesised and measured."""
    with np.load(PACKAGED) as table:
        rows = zip(*(table[name] for name in COLUMNS), strict=True)
        patterns = len(set(table["pattern"]))  # which come in turn
        return [
            Example(features, str(pattern), str(application), SYNTHESISED, str(by_rules), octaves)
            for features, pattern, application, by_rules, number in islice(rows, count * patterns)
            for octaves in [None if np.isnan(number) else float(number)]
        ]


def shares_of(examples: Iterable[Example]) -> Mapping[str, int]:
    """Count the examples by kind."""
    return dict(sorted(Counter(example.kind for example in examples).items()))
