"""In observe, jobs of one second are judged alongside each other, as enforce would judge them."""

import os
import time
from collections.abc import Iterator

import made_model
import numpy as np
import pytest
from plugin_harness import PluginFiles, drain, install
from private_slurm import PrivateSlurm
from sluiced import Sluiced, wait_for

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs a Slurm of its own"),
]

NAMES = ("writer", "dumper")


@pytest.fixture(scope="module")
def slurm(guarded_slurm) -> Iterator[PrivateSlurm]:
    with guarded_slurm("starts", nodes=3) as slurm:
        yield slurm


@pytest.fixture
def sluiced(slurm: PrivateSlurm, files: PluginFiles) -> Iterator[Sluiced]:
    heavy = made_model.profile(np.random.default_rng(1), "aw") | made_model.HEAVY
    content = made_model.bundle_of_names(dict.fromkeys(NAMES, heavy), "", created=int(time.time()))
    install(files.bundle, content)
    files.configure(Mode="observe", FollowInterval=3000)
    daemon = Sluiced(slurm, files).start()
    files.wait_for(lambda seen: seen["mode"] == "observe")
    daemon.wait_until_followed()
    drain(files.socket)
    yield daemon
    slurm.run("scancel", f"--user={os.geteuid()}", check=False)
    daemon.stop()


def submit(slurm: PrivateSlurm, name: str) -> int:
    words = ("sbatch", "--parsable", "--output=/dev/null", "--exclusive", "-J", name)
    return int(slurm.run(*words, "--wrap=sleep 600").stdout)


def test_jobs_of_one_second_meet_at_their_start(sluiced, slurm):
    sluiced.wait_for_snapshots()
    sluiced.wait_until_loaded()
    first, second = (submit(slurm, name) for name in NAMES)
    sluiced.wait_until_joined(first, second)
    rows = wait_for(lambda: met if (met := sluiced.joined())[second]["near_start"] else None)
    assert [rows[job]["coruns"] for job in (first, second)] == [[], []]
    assert rows[first]["near_start"] is None
    (corun,) = rows[second]["near_start"]["coruns"]
    assert corun["job_id"] == first
    assert corun["own_slowdown"] > 1.2
    story = sluiced.sluice("why", str(second))
    (again,) = story["decided_again"]
    assert again["decision"]["reason"] != "no_corunners"
    told = sluiced.command("why", str(second))
    assert "So enforce would have, with those that came before it" in told
    assert f"Job {first}" in told
