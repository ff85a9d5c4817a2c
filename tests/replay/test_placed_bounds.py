"""What placement recovers of the loss by chance on 128 targets: the bounds of `make placement`."""

import sys
from collections import defaultdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))

import placement_replays  # found through the line above

UNMET = {"blocks and turns, load 20%: 85% of the loss"}
"""With verdicts after a second; docs/evidence/placement.md says so."""


@pytest.mark.acceptance
def test_blocks_of_the_core_recover_what_the_evidence_says():
    """In replays the core itself chooses them, from predictions right and wrong."""
    found = defaultdict(list)
    for way, load, seed, hours in placement_replays.asked(placement_replays.DRAWS):
        found[way.name, load].append(placement_replays.replayed(way, load, seed, hours))
    held = {name: is_held for name, _, is_held in placement_replays.judged(found)}
    assert len(held) == 17
    assert {name for name in held if not held[name]} <= UNMET
