"""Synthesised logs: genuine, of a known pattern, the same for the same seed."""

import csv
import hashlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pattern_examples import pattern_by_rules, read_labels, synthesised_examples
from pattern_training import SYNTHESISED_PER_PATTERN
from shipped_patterns import made_examples
from synthetic.corpus import PATTERNS, synthesise, write_labels

from sluice.darshan.features import measure
from sluice.darshan.log import read_log


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*.darshan"))
    }


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    return folder, list(synthesise(folder, 210, seed=7))


def test_a_seed_gives_the_same_bytes_in_any_order(tmp_path, corpus):
    folder, truths = corpus
    later = list(synthesise(tmp_path, 5, seed=7, first=20))
    assert later == truths[20:25]
    whole = digests(folder)
    assert digests(tmp_path).items() <= whole.items()


def test_another_seed_gives_other_logs(tmp_path, corpus):
    list(synthesise(tmp_path, 5, seed=8))
    assert not digests(tmp_path).items() & digests(corpus[0]).items()


def test_every_log_is_read_with_the_processes_it_had(corpus):
    folder, truths = corpus
    for truth in truths:
        assert read_log(folder / truth.file).nprocs == truth.nprocs


def test_all_patterns_come_in_turn_from_several_programs(corpus):
    truths = corpus[1]
    assert [truth.pattern for truth in truths[:7]] == list(PATTERNS)
    for pattern in ("owc", "ws", "aw", "read", "metadata"):
        assert len({truth.app for truth in truths if truth.pattern == pattern}) > 1


def test_chunks_are_found_within_a_factor_of_two(corpus):
    folder, truths = corpus
    found = [
        measure(read_log(folder / truth.file)).numbers.get("chunk_bytes", 0) / truth.chunk_bytes
        for truth in truths
        if truth.chunk_bytes
    ]
    assert sum(0.5 <= ratio <= 2 for ratio in found) > 0.93 * len(found)


def test_the_rules_recognise_most_of_what_was_meant(corpus):
    folder, truths = corpus
    said = [pattern_by_rules(measure(read_log(folder / t.file)).shares)[0] for t in truths]
    right = sum(one == truth.pattern for one, truth in zip(said, truths, strict=True))
    assert right > 0.8 * len(truths)


def test_labels_are_what_ingest_and_evaluate_read(tmp_path):
    file = tmp_path / "labels.csv"
    assert write_labels(synthesise(tmp_path, 7, seed=1), file) == 7
    with file.open() as lines:
        rows = list(read_labels(lines))
    assert [row.pattern for row in rows] == list(PATTERNS)
    assert all(row.certain for row in rows)
    with file.open() as lines:
        assert {row["app"] for row in csv.DictReader(lines)} == {row.application for row in rows}


def test_what_ships_measured_is_what_is_synthesised():
    for made, shipped in zip(made_examples(2), synthesised_examples(2), strict=True):
        assert made.features.tobytes() == shipped.features.tobytes()
        assert replace(made, features=None) == replace(shipped, features=None)


def test_as_many_logs_of_each_pattern_ship_as_training_takes():
    counts = Counter(one.pattern for one in synthesised_examples(SYNTHESISED_PER_PATTERN))
    assert counts == dict.fromkeys(PATTERNS, SYNTHESISED_PER_PATTERN)
