"""What the pattern classifier learns from, and the rules that it has to beat."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from sluice.darshan.features import FEATURES, SIGNIFICANT_BYTES, measure
from sluice.darshan.log import DarshanLogError, read_log
from sluice.policies.core import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from sluice.darshan.features import Measurement
    from sluice.darshan.log import DarshanLog
    from sluice.history_db.intake import LabelRow
    from sluice.history_db.store import Store


MOST = 0.7  # share of the data from which one pattern names the run
CERTAIN = 0.97  # share from which a rule's answer may teach


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


PACKAGED = "synthesised.npz"
"""Next to this module; `make patterns` writes it."""
COLUMNS = ("features", "pattern", "application", "by_rules", "chunk_octaves")
LABELLED, SYNTHESISED, WEAK = "labelled", "synthesised", "weak"
WEIGHTS = {LABELLED: 3.0, SYNTHESISED: 1.0, WEAK: 0.3}
"""How much one log of each kind counts."""
WITH_CHUNK = {"owc", "ws", "aw", "read"}
MOST_WEAK = 500  # of one pattern: the commonest of a site must not drown the rest
WEAK_COVERAGE = 0.95


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
    """Return `count` logs of each pattern, of those that were synthesised and ship measured."""
    with files(__package__).joinpath(PACKAGED).open("rb") as file, np.load(file) as table:
        rows = zip(*(table[name] for name in COLUMNS), strict=True)
        patterns = len(set(table["pattern"]))  # which come in turn
        return [
            Example(features, str(pattern), str(application), SYNTHESISED, str(by_rules), octaves)
            for features, pattern, application, by_rules, number in islice(rows, count * patterns)
            for octaves in [None if np.isnan(number) else float(number)]
        ]


def history_examples(store: Store, *, weak_labels: bool) -> list[Example]:
    """Return the labelled logs of a history, and if wished others that the rules are sure of."""
    labels = {label.log_id: label for label in store.runs.labels()}
    width = 4 * len(FEATURES)  # runs that another version measured have others
    examples, weak = [], Counter[str]()
    for run in store.runs.runs():
        if len(run.features) != width:
            continue
        features = np.frombuffer(run.features, dtype="<f4").astype(np.float32)
        said, clear = pattern_by_rules(run.profile.shares)
        if run.log_id in labels:
            label = labels[run.log_id]
            examples.append(Example(features, label.pattern, label.application, by_rules=said))
        elif weak_labels and _is_certain(features, said, clear) and weak[said] < MOST_WEAK:
            weak[said] += 1
            examples.append(Example(features, said, "", WEAK, said))
    return examples


def _is_certain(features: NDArray[np.float32], said: str, clear: float) -> bool:
    """Whether the rules' answer may teach: one pattern alone, all recorded, enough of it."""
    values = dict(zip(FEATURES, features.tolist(), strict=True))
    seen = values["coverage"] >= WEAK_COVERAGE and not values["mapped"]
    enough = values["log2_bytes"] >= np.log2(10 * SIGNIFICANT_BYTES) or said in {"none", "metadata"}
    return said != "mixed" and clear >= CERTAIN and seen and bool(enough)


def shares_of(examples: Iterable[Example]) -> Mapping[str, int]:
    """Count the examples by kind."""
    return dict(sorted(Counter(example.kind for example in examples).items()))
