"""Jobs on targets of their own, in a real Slurm: slurmctld chooses them, SPANK puts jobs there."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import made_model
import numpy as np
import pytest
from compile_c import make
from plugin_harness import PluginFiles, drain, install
from private_slurm import PrivateSlurm
from sluiced import Sluiced, wait_for

from sluice.history_db.records import TargetProbe
from sluice.history_db.store import Store

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user to be"),
]

NAME = "writer"
OTHER_USER = 65534
LANE = "sl0 Targets=16 Bandwidth=16G"
TOKENS = ",".join(f"sl0_{klass}:1000000" for klass in ("stream", "flush", "meta"))
FORGED = "sluice(v=1,rec=00ff-1,act=colocate,place=0+8)"


@pytest.fixture(scope="module")
def jobs(lab_directory: Path) -> Path:
    """Where the jobs' directories are made."""
    path = lab_directory / "jobs"
    path.mkdir()
    path.chmod(0o1777)
    return path


@pytest.fixture(scope="module")
def calls(lab_directory: Path) -> Path:
    """What the stand-in for lfs was called with."""
    path = lab_directory / "calls"
    path.touch()
    path.chmod(0o666)
    return path


@pytest.fixture(scope="module")
def slurm(guarded_slurm, lab_directory: Path, jobs: Path, calls: Path) -> Iterator[PrivateSlurm]:
    plugin = make("slurm-plugin/node/spank") / "plugins" / "spank_sluice.so"
    lfs = lab_directory / "lfs"
    lfs.write_text(f'#!/bin/sh\necho "$(pwd -P) $*" >>{calls}\n')
    lfs.chmod(0o755)
    with guarded_slurm("placement", {"Licenses": TOKENS}, nodes=3) as slurm:
        words = f"backend=lustre command={lfs} lane=sl0:{jobs}:16:100-115"
        path = slurm.directory / "etc" / "plugstack.conf"
        path.write_text(f"optional {plugin} {words}\n")
        yield slurm


@pytest.fixture
def sluiced(slurm: PrivateSlurm, files: PluginFiles, request) -> Iterator[Sluiced]:
    """In enforce, with a bundle that knows jobs on four targets; its parameter follows Lane."""
    lane = LANE + getattr(request, "param", " Place=blocks")
    known = made_model.profile(np.random.default_rng(1), "aw") | made_model.HEAVY
    known |= {"targets": 4.0, "rate": 2.0**30, "spread": {"rate": 0.1, "targets": 0.1}}
    content = made_model.bundle_of_names({NAME: known}, f"Lane={lane}\n", created=int(time.time()))
    install(files.bundle, content)
    users = f"Users=0,{OTHER_USER}"
    # all may run at once: what is tried here is where
    files.configure(
        Mode="enforce", FollowInterval=200, Lane=lane, Controlled=users, Tolerance=1000.0
    )
    daemon = Sluiced(slurm, files).start()
    files.wait_for(lambda seen: seen["mode"] == "enforce" and seen["bundle"]["loaded"])
    daemon.wait_until_followed()
    drain(files.socket)
    yield daemon
    slurm.run("scancel", "--quiet", "--state=PENDING", check=False)
    slurm.run("scancel", "--quiet", "--state=RUNNING", check=False)
    daemon.stop()


def submit(slurm: PrivateSlurm, output: Path, *words: str) -> int:
    script = "--wrap=echo $SLUICE_DIR $SLUICE_TARGETS; sleep 600"
    return int(
        slurm.run("sbatch", "--parsable", f"-J{NAME}", f"--output={output}", *words, script).stdout
    )


def told(output: Path) -> list[str]:
    """What a job says of its directory and the number of its targets."""
    words: list[str] = wait_for(lambda: output.exists() and output.read_text().split())
    return words


def block_of(slurm: PrivateSlurm, job: int) -> tuple[int, int] | None:
    """The job's block, by the note that slurmctld shows."""
    shown = slurm.run("scontrol", "show", "job", str(job)).stdout
    (note,) = re.findall(r"AdminComment=(sluice\(\S*\))", shown)
    found = re.search(r",place=(\d+)\+(\d+)\)$", note)
    return (int(found[1]), int(found[2])) if found else None


def layout(calls: Path, directory: str) -> str:
    words = dict(line.split(" ", 1) for line in calls.read_text().splitlines())
    return words[directory]


def test_jobs_that_would_collide_get_disjoint_targets(
    slurm: PrivateSlurm, sluiced: Sluiced, lab_directory: Path, calls: Path
) -> None:
    """Those that run count, and one that waits; each before the next is submitted."""
    blocks = []
    for i, words in enumerate([(), (), ("--hold",), ()]):
        output = lab_directory / f"out{i}"
        job = submit(slurm, output, *words)
        block = block_of(slurm, job)
        assert block is not None
        blocks.append(block)
        sluiced.wait_until_joined(job)
        if words:
            wait_for(lambda: sluiced.snapshot().placed())
            (waiting,) = sluiced.snapshot().placed()
            assert (waiting.block.first, waiting.block.count) == block
        else:
            directory, targets = told(output)
            assert targets == "4"
            first = 100 + block[0]
            osts = ",".join(str(ost) for ost in range(first, first + 4))
            assert layout(calls, directory) == f"setstripe -c 4 -o {osts} ."
            seen = wait_for(
                lambda own=job: [c for c in sluiced.snapshot().corunners() if c.job_id == own]
            )
            assert (seen[0].block.first, seen[0].block.count) == block
        sluiced.wait_until_loaded()
        text = " ".join(sluiced.run("why", str(job)).stdout.split())
        assert (
            f"Output: targets {block[0]} to {block[0] + 3} of lane 0; it needs 4 targets." in text
        )
    assert sorted(blocks) == [(0, 4), (4, 4), (8, 4), (12, 4)]


def test_what_users_write_places_nothing(
    slurm: PrivateSlurm, sluiced: Sluiced, lab_directory: Path, calls: Path
) -> None:
    assert sluiced
    as_user = ("setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups")
    words = ("sbatch", "--parsable", f"-J{NAME}", "--hold", "--chdir=/", "--wrap=true")
    refused = slurm.run(*as_user, *words, f"--admin-comment={FORGED}", check=False)
    if refused.returncode == 0:
        assert block_of(slurm, int(refused.stdout)) != (0, 8)
    output = lab_directory / "forged"
    job = submit(slurm, output, f"--comment={FORGED}", "--export=ALL,SLUICE_TARGETS=8,place=0+8")
    block = block_of(slurm, job)
    assert block is not None
    assert block[1] == 4
    directory, targets = told(output)
    assert targets == "4"
    assert f"-o {100 + block[0]}," in layout(calls, directory)


@pytest.mark.parametrize("sluiced", [""], indirect=True)
def test_a_lane_without_place_has_jobs_on_all_of_it(
    slurm: PrivateSlurm, sluiced: Sluiced, lab_directory: Path, calls: Path
) -> None:
    output = lab_directory / "whole"
    job = submit(slurm, output)
    assert block_of(slurm, job) is None
    directory, targets = told(output)
    assert targets == "16"
    assert layout(calls, directory) == "setstripe -o 100-115 ."
    sluiced.wait_until_joined(job)
    assert "Output:" not in sluiced.run("why", str(job)).stdout
    assert sluiced.snapshot().placed() == []


@pytest.mark.parametrize("sluiced", [" Place=blocks\nLaneOsts=sl0:100-115"], indirect=True)
def test_a_job_is_put_where_no_target_is_slow_full_or_down(
    slurm: PrivateSlurm, sluiced: Sluiced, lab_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what the history and `lfs df` say of Lustre's targets, each of another block."""
    full, down, slow = 1, 6, 15
    osts = [f"OST{100 + i:04x}" for i in range(16)]
    shown = [f"fs-{ost}_UUID 1000 {990 if i == full else 500}" for i, ost in enumerate(osts)]
    shown = [f"{line} 1 1% /mnt[OST:{i}]" for i, line in enumerate(shown)]
    shown[down] = f"fs-{osts[down]}_UUID : inactive device"
    (lab_directory / "df").write_text("\n".join(shown))
    commands = lab_directory / "commands"
    commands.mkdir()
    (commands / "lfs").write_text(f"#!/bin/sh\ncat {lab_directory}/df\n")
    (commands / "lfs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    sluiced.stop()
    now = int(time.time())
    with Store(sluiced.history) as store:
        store.interference.add_target_probes(
            TargetProbe(ost, "aw:1M:2", now - k, 25.0 if i == slow else 100.0)
            for i, ost in enumerate(osts)
            for k in range(5)
        )
    sluiced.start()
    sluiced.wait_until_followed()
    wait_for(lambda: len(sluiced.snapshot().targets()) == 16)
    told = sluiced.snapshot().targets()
    assert [one.target for one in told if one.is_closed] == [down]
    assert [one.target for one in told if one.missing] == [slow]
    assert [one.target for one in told if one.used > 900] == [full]
    sluiced.wait_until_loaded()
    assert block_of(slurm, submit(slurm, lab_directory / "slow")) == (8, 4)
