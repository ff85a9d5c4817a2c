"""Logs that claim terabytes, from their ingest to the decision of the built plugin."""

import os
from collections.abc import Iterator
from pathlib import Path

import made_model
import pytest
from plugin_harness import Harness, build, drain, install

from sluice.policies.record import Record

pytest.importorskip("darshan.backend", reason="there is no wheel for this Python")
from claimed_site import CHUNK, CHUNKS, ClaimedSite

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives logs to other users")

USER, FORGER = 1001, 1666
CLAIMED = CHUNK * CHUNKS
SCRIPT = "#!/bin/sh\nsleep 600\n"
PLENTY = 1_000_000


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    """In enforce without lanes, and nothing is known yet."""
    harness = Harness(build(), tmp_path)
    install(harness.files.snapshot, made_model.snapshot(corunners=0))
    harness.files.configure(Mode="enforce")
    with harness:
        harness.files.wait_until_loaded("snapshot")
        for klass in ("stream", "flush", "meta"):
            harness.set_total(f"all_{klass}", PLENTY)
        yield harness


@pytest.mark.parametrize(
    ("counted", "evidence", "token"),
    [
        (None, "unconfirmed", None),
        (4096, "unconfirmed", None),
        (CLAIMED, "user_name", "all_stream"),
    ],
    ids=["nothing counts", "Slurm counted next to nothing", "Slurm counted as much"],
)
def test_twelve_logs_get_a_gate_only_where_slurm_counted_as_much(
    harness: Harness, tmp_path: Path, counted: int | None, evidence: str, token: str | None
) -> None:
    site = ClaimedSite(tmp_path / "site")
    site.ran("sleep", FORGER, counted=counted)
    site.ran("flood", USER, counted=CLAIMED)
    site.learn(harness.files.config)
    harness.files.wait_until_loaded("bundle")
    assert harness.submit(uid=FORGER, name="sleep", script=SCRIPT).licenses == token
    record = Record.parse(drain(harness.files.socket)[-1])
    assert record.prediction.evidence == evidence
    assert record.prediction.profile.write_bytes == pytest.approx(CLAIMED, rel=0.01)
    assert harness.submit(uid=USER, name="flood", script=SCRIPT).licenses == "all_stream"
    by_name = harness.submit(uid=USER, name="sleep", script=SCRIPT)
    assert by_name.licenses is None, "runs of others confirm nothing"
