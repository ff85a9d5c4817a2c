"""What a snapshot tells of a running job: decisions and turns go by that."""

from dataclasses import replace

import pytest
from core_cases import application, bundle, submission
from waiting_jobs import NOW, job

from sluice.policies.snapshot import Snapshot, pack_snapshot
from sluice.slurm.gates.snapshot import Row

STREAM = {
    "pattern": "aw",
    "confidence": 0.9,
    "write_bytes": 1e12,
    "rate": 1e9,
    "io_share": 0.5,
    "burst_seconds": 1.0,
    "runtime_seconds": 2000.0,
}


@pytest.mark.parametrize(
    ("is_confirmed", "pattern", "burst"), [(True, "aw", 1.0), (False, "unknown", None)]
)
def test_what_no_counter_confirms_is_nothing_to_decide_or_order_bursts_by(
    is_confirmed, pattern, burst
):
    asked = submission(name="run")
    known = replace(application(STREAM, asked), is_confirmed=is_confirmed)
    row = Row(job(1, state="RUNNING", start=NOW), bundle(known).predict(asked), asked)
    content = pack_snapshot(state={"taken": NOW}, corunners=[row.corunner(0, NOW)])
    (corunner,) = Snapshot.parse(content).corunners()
    assert (corunner.profile.pattern, corunner.profile.burst_seconds) == (pattern, burst)
    assert (corunner.klass == "none") == (not is_confirmed)
    assert row.matters == is_confirmed
