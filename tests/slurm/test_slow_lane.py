"""A slow target from end to end: probes, sluiced, the plugin's decision, real writes."""

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import made_model
import numpy as np
import probe_program
import pytest
from plugin_harness import PluginFiles, install
from private_slurm import PrivateSlurm
from sluiced import Sluiced, wait_for
from storage_targets import StorageTargets
from target_kinds import MIB, Limits

from sluice.policies import core
from sluice.policies.bundle_writer import BundleApplication, pack_bundle

pytestmark = [pytest.mark.slurm, pytest.mark.storage, pytest.mark.acceptance]

LIMITS = Limits(bandwidth=60_000_000, size=1024 * MIB, dirty=16 * MIB)
LANES = "sl0 Targets=1 Bandwidth=60000000\nLane=sl1 Targets=1 Bandwidth=60000000"
VOLUME = 100  # MiB of each of two processes
HELD = ("--hold", "--wrap=true")


def bundle(name: str) -> bytes:
    """Knows this user's jobs of a name: they stream at nearly all that both lanes give."""
    known = core.submission({"uid": os.geteuid(), "name": name})
    profile = made_model.profile(np.random.default_rng(1), "aw")
    return pack_bundle(
        policy=core.parse_config("lanes", f"Lane={LANES}\n".encode()).policy,
        interference=core.default_interference(),
        applications=[
            BundleApplication(
                core.application_key(known, "user_name"),
                "user_name",
                1,
                profile | {"rate": 100e6, "io_share": 0.9},
            )
        ],
        text="{}",
        created=int(time.time()),
    )


@pytest.fixture
def targets() -> Iterator[StorageTargets]:
    """Two lanes, of which sl1 gives a third of what sl0 does."""
    with tempfile.TemporaryDirectory(prefix="sluice-storage-") as name:
        kinds = ["blkio", "io.max"]
        with StorageTargets(name, lanes=["sl0", "sl1"], limits=LIMITS, kinds=kinds) as targets:
            targets.limit("sl1", replace(LIMITS, bandwidth=LIMITS.bandwidth // 3))
            yield targets


def seconds_to_write(targets: StorageTargets, *lanes: str) -> float:
    """How long two processes need that are dealt to these lanes, flushing at the end."""
    targets.settle()
    words = ["--pattern", "aw", "--processes", 2, "--sync", "close", "--volume", f"{VOLUME}M"]
    places = [targets.path(lane) for lane in lanes]
    report = probe_program.probe(probe_program.build(), *words, *places)
    return float(report.total["end"]) - float(report.total["start"])


def decision_on(sluiced: Sluiced, slurm: PrivateSlurm, name: str) -> dict[str, Any]:
    job = slurm.submit("-J", name, *HELD)
    sluiced.wait_until_joined(job)
    decision: dict[str, Any] = sluiced.sluice("why", str(job))["record"]["decision"]
    slurm.run("scancel", str(job))
    return decision


def test_a_throttled_target_is_found_and_jobs_are_kept_off_it(
    guarded: PrivateSlurm, files: PluginFiles, targets: StorageTargets
):
    install(files.bundle, bundle("stream_1"))
    files.configure(Mode="observe", FollowInterval=100, Lane=LANES)
    files.wait_for(lambda seen: seen["mode"] == "observe" and seen["bundle"]["loaded"])
    sluiced = Sluiced(guarded, files).start()
    try:
        sluiced.wait_until_followed()
        before = decision_on(sluiced, guarded, "stream_1")
        places = [f"--measure={lane}={targets.path(lane)}" for lane in ("sl0", "sl1")]
        probe = f"--probe={probe_program.build()}"
        found = sluiced.sluice("site", "targets", *places, probe)["targets"]
        speeds = {one["target"]: one for one in found}
        sluiced.stop()
        sluiced.start()  # which asks the history at once
        wait_for(lambda: sluiced.snapshot().lane_speed("sl1") < 1)
        sluiced.wait_until_loaded()
        after = decision_on(sluiced, guarded, "stream_2")
        warnings = [f["text"] for f in sluiced.findings() if f["topic"] == "targets"]
    finally:
        sluiced.stop()
    assert before["reason"] == "no_corunners"
    assert speeds["sl0"]["published"] == 1.0
    assert 0.2 < speeds["sl1"]["published"] < 0.5
    assert [text.partition(",")[0] for text in warnings] == ["lane sl1 is slow"]
    assert (after["action"], after["reason"]) == ("disjoint", "slow_lane")
    assert after["alternatives"][after["chosen"]]["lane_mask"] == 0b01

    both, chosen = (seconds_to_write(targets, *lanes) for lanes in (("sl0", "sl1"), ("sl0",)))
    print(f"{targets.label}: sl1 at {speeds['sl1']['speed']:.0%} of its peer; striped over both")
    print(f"lanes the job writes for {both:.1f} s, on the lane that was chosen {chosen:.1f} s")
    assert chosen < 0.85 * both
