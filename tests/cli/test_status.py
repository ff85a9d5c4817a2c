"""`sluice status`: one screen that says whether all is well, who waits, and what Sluice did.

Who waits is tested where jobs wait, in tests/slurm/test_gatekeeping.py.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime

import core_cases as storage_models
import pytest
from test_why import HELD, JOB, NOW, Site

from sluice.history_db.records import Release
from sluice.history_db.store import Store


@pytest.fixture
def site(tmp_path) -> Site:
    return Site(tmp_path)


def test_what_is_wrong_comes_first_and_who_waits_is_not_guessed(site):
    lines = site.run("status").splitlines()
    assert lines[0].startswith("problems ")
    assert any("FAIL bundle: " in line for line in lines)
    assert "held for I/O  not known: Slurm cannot be asked" in lines
    facts = json.loads(site.run("status", "--json"))
    assert (facts["is_well"], facts["waiting"]) == (False, None)
    assert {row["level"] for row in facts["findings"]} <= {"FAIL", "WARN"}


def test_what_turns_held_is_added_up(site):
    """Without a coordinator that runs here, of the past alone."""
    with Store(site.history) as store:
        store.gates.add_held_bursts([HELD, replace(HELD, number=2, is_held=False, ended="budget")])
    lines = site.run("status", "--since", "9000d")
    assert "1 burst held: 80 node-seconds, where 640 were expected to be saved; 0 used" in lines
    assert "1 burst would have been held" in lines
    facts = json.loads(site.run("status", "--json", "--since", "9000d"))
    assert facts["turns"] is None
    assert facts["activity"]["turns"]["in_thought"]["budgets"] == 1


def test_what_sluice_did_is_counted_by_action_and_release(site):
    for moment in (NOW - 9, NOW, NOW + 1):
        site.decide(storage_models.corunner(99, storage_models.STREAMING), now=moment)
    with Store(site.history) as store:
        store.gates.add_releases(
            [Release("lab", 4711, JOB.submit, NOW, "sl0_flush", "max_delay", 60.0)]
        )
    since = datetime.fromtimestamp(NOW, UTC).astimezone().replace(tzinfo=None).isoformat()
    did = json.loads(site.run("status", "--json", "--since", since))["activity"]
    assert (did["since"], did["decisions"], did["has_more"]) == (NOW, 2, False)
    assert sum(did["actions"].values()) == 2
    assert did["released"] == {"max_delay": 1}
    assert "2 decisions: 2 " in site.run("status", "--since", since)
    assert "; released: 1 max_delay" in site.run("status", "--since", since)
    assert "0 decisions" in site.run("status", "--since", since, "--user", "77")
