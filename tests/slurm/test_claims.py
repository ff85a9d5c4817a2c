"""Logs that claim terabytes, on a real slurmctld: no job waits for what no counter confirms."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from gated import LEASE, LONG, STREAM, licenses, running, settle, submit, waits
from plugin_harness import PluginFiles
from private_slurm import PrivateSlurm
from sluiced import Sluiced, wait_for

from sluice.policies.bundle import Bundle

pytest.importorskip("darshan.backend", reason="there is no wheel for this Python")
from claimed_site import CHUNK, CHUNKS, ClaimedSite

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.acceptance,  # leases and passes, by the clock
    pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user to be"),
]

USER, FORGER = 0, 65534
CLAIMED = CHUNK * CHUNKS
# Longer than `running` waits, and sharing costs more: a job that starts did not wait for others.
PATIENT = {"MaxDelay": 3600, "WaitPrice": 0, "MinSaving": 0}


@pytest.fixture(scope="module")
def slurm(guarded_slurm) -> Iterator[PrivateSlurm]:
    with guarded_slurm("claims", {"Licenses": licenses()}, nodes=3) as slurm:
        yield slurm


@pytest.fixture
def site(lab_directory: Path) -> ClaimedSite:
    """The jobs of one user slept, those of another wrote; their logs claim the same."""
    site = ClaimedSite(lab_directory / "site")
    site.ran("sleep", FORGER, counted=4096)
    site.ran("flood", USER, counted=CLAIMED)
    return site


@pytest.fixture
def sluiced(slurm: PrivateSlurm, files: PluginFiles, site: ClaimedSite) -> Iterator[Sluiced]:
    """Enforces by what was learned there, with all gates closed."""
    files.configure(Mode="enforce", FollowInterval=200, LeaseSeconds=LEASE, **PATIENT)
    site.learn(files.config)
    daemon = Sluiced(slurm, files).start()
    settle(daemon)
    yield daemon
    for user in ("root", "nobody"):
        slurm.run("scancel", "--quiet", f"--user={user}", check=False)
    wait_for(lambda: not slurm.run("squeue", "--noheader").stdout)
    assert daemon.stop() == 0


def submit_as_forger(slurm: PrivateSlurm) -> int:
    user = ["setpriv", f"--reuid={FORGER}", f"--regid={FORGER}", "--clear-groups"]
    words = ["--parsable", "--output=/dev/null", "--chdir=/", "--job-name=sleep", "-n1", LONG]
    return int(slurm.run(*user, "sbatch", *words).stdout)


def test_no_job_waits_for_what_logs_of_others_claim_and_nothing_counted(sluiced, slurm, site):
    forged = submit_as_forger(slurm)
    running(slurm, forged)
    assert slurm.job(forged)["Licenses"] in {"", "(null)"}
    told = wait_for(lambda: sluiced.run("why", str(forged)).stdout)
    assert "confirm" in told
    sluiced.wait_for_snapshots(3)
    flood = submit(slurm, "flood", LONG)
    running(slurm, flood)
    assert slurm.job(flood)["Licenses"] == STREAM

    site.ran("sleep", FORGER, counted=CLAIMED)
    site.learn(sluiced.files.config)
    checksum = f"{Bundle.read(sluiced.files.bundle).checksum:016x}"
    sluiced.files.wait_for(lambda seen: seen["bundle"]["checksum"] == checksum)
    counted = submit_as_forger(slurm)
    waits(slurm, counted)
    assert slurm.job(counted)["Licenses"] == STREAM
