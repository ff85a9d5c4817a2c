"""--io-place with an agent and a coordinator: the default layout of a job's directory follows.

Lustre cannot run here: a stand-in for `lfs` writes down where and how it is called.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import turns_daemons
from spank_lab import OTHER_USER, Lab, needs_root, printed, variables
from turns_daemons import RATE, Cluster, wait_for

pytestmark = [pytest.mark.slurm, needs_root]

MOUNT = Path("/dev/shm")  # noqa: S108 - where the daemons of turns_daemons lie
USER = (f"--uid={OTHER_USER}", "--chdir=/", "--time=60", "--licenses=sl0_stream")
TARGETS = 8
OF_LANE = "setstripe -o 10-17 ."


class Placed:
    """A lab whose lane has eight targets, with a coordinator and an agent."""

    def __init__(self, lab: Lab, cluster: Cluster, library: Path) -> None:
        self.lab, self.cluster, self.library = lab, cluster, library
        self.end = cluster.place / "end"
        self._calls = cluster.place / "calls"
        self._calls.touch()
        self._calls.chmod(0o666)
        self.lfs = cluster.place / "lfs"
        self.lfs.write_text(f'#!/bin/sh\necho "$(pwd -P) $*" >>{self._calls}\n')
        self.lfs.chmod(0o755)
        cluster.configure(targets=TARGETS, bandwidth=TARGETS * RATE)
        self.agent = cluster.agent()
        cluster.start_turns()
        self.configure()

    def configure(self, *arguments: str, placement: str = "10-17") -> None:
        self.lab.plugstack(
            f"turns={self.library}",
            f"turns_on={MOUNT}",
            f"turns_socket={self.agent.socket}",
            "backend=lustre",
            f"command={self.lfs}",
            f"lane=sl0:{self.lab.lanes['sl0']}:{TARGETS}:{placement}",
            *arguments,
        )

    def submit(self, *options: str) -> tuple[int, Path]:
        """A job that waits for `end`, and is published with two targets."""
        output = self.lab.output()
        body = f"env; while [ ! -e {self.end} ]; do sleep 0.1; done; echo ended"
        job = self.lab.slurm.submit(*USER, *options, f"--output={output}", f"--wrap={body}")
        profile = {
            "rate": float(RATE),
            "targets": 2.0,
            "burst_seconds": 60.0,
            "io_share": 0.5,
            "share": {"aw": 1.0},
            "pattern": "aw",
        }
        published = ({"job_id": i, "lane_mask": 1, "profile": profile} for i in (job, 99))
        self.cluster.publish_jobs(*published)
        return job, output

    def calls(self) -> list[str]:
        return [line.partition(" ")[2] for line in self._calls.read_text().splitlines()]

    def places(self) -> set[str]:
        return {line.partition(" ")[0] for line in self._calls.read_text().splitlines()}

    def targets(self) -> set[int]:
        """Those that the last call names, of a list of two."""
        found = re.fullmatch(r"setstripe -c 2 -o (\d+),(\d+) \.", self.calls()[-1])
        return {int(one) - 10 for one in found.groups()} if found else set()


@pytest.fixture
def placed(lab: Lab, library: Path) -> Iterator[Placed]:
    with turns_daemons.cluster() as cluster:
        yield Placed(lab, cluster, library)
        lab.slurm.run("scancel", "--full", f"--user={OTHER_USER}")
        lab.wait_for(lambda: not lab.slurm.run("squeue", "-h", f"--user={OTHER_USER}").stdout)


def test_the_layout_follows_the_free_targets_and_ends_as_it_began(placed: Placed) -> None:
    job, output = placed.submit("--io-place")
    wait_for(lambda: placed.calls() and placed.targets(), "for targets")
    assert placed.calls()[0] == OF_LANE
    before = placed.targets()
    page = placed.cluster.page(placed.agent, 99, block=(min(before) // 2 * 2, 2))
    placed.cluster.rank(page)
    wait_for(lambda: not placed.targets() & before, "for other targets")
    placed.cluster.turns.kill()
    wait_for(lambda: placed.calls()[-1] == OF_LANE, "for the lane's own layout")
    placed.end.touch()
    placed.lab.slurm.wait_for_job(job, "COMPLETED", timeout=120)
    assert printed(output).endswith("ended\n")
    assert placed.places() == {variables(printed(output))["SLUICE_DIR"]}


def test_where_pools_name_blocks_the_layout_is_a_pool(placed: Placed) -> None:
    placed.configure(placement="pool:p")
    placed.submit("--io-place")
    wait_for(lambda: len(placed.calls()) == 2, "for targets")
    assert re.fullmatch(r"setstripe -p p-[0246]-2 \.", placed.calls()[1])
    placed.end.touch()


def test_a_command_that_fails_ends_it_and_the_job_goes_on(placed: Placed) -> None:
    placed.lfs.write_text(placed.lfs.read_text() + 'case "$5" in *,*) exit 1; esac\n')
    job, output = placed.submit("--io-place")
    wait_for(lambda: len(placed.calls()) == 2, "for targets")
    page = placed.cluster.page(placed.agent, 99, block=(0, 8))
    placed.cluster.rank(page)
    placed.cluster.wait_for_status(lambda found: "99" in found["named"]["bursts"])
    placed.end.touch()
    placed.lab.slurm.wait_for_job(job, "COMPLETED", timeout=120)
    assert printed(output).endswith("ended\n")
    assert len(placed.calls()) == 2


@pytest.mark.parametrize(
    ("options", "arguments", "placement"),
    [
        (("--io-turns",), (), "10-17"),
        (("--io-place", "--no-sluice"), (), "10-17"),
        (("--io-place",), (), "pool"),
        (("--io-place",), (), "10-16"),
    ],
    ids=["not asked for", "no Sluice", "a pool", "a list that is too short"],
)
def test_another_job_keeps_the_layout_of_its_lane(
    placed: Placed, options: tuple[str, ...], arguments: tuple[str, ...], placement: str
) -> None:
    placed.configure(*arguments, placement=placement)
    job, _ = placed.submit(*options)
    if "--no-sluice" not in options:
        placed.cluster.wait_for_status(lambda found: found["facts"]["jobs"] == 1)
    placed.end.touch()
    placed.lab.slurm.wait_for_job(job, "COMPLETED", timeout=120)
    assert len(placed.calls()) == (0 if "--no-sluice" in options else 1)
    assert placed.cluster.status()["counts"].get("places", 0) == 0


def test_a_site_can_have_every_job_follow(placed: Placed) -> None:
    placed.configure("place=all")
    placed.submit()
    wait_for(lambda: placed.calls() and placed.targets(), "for targets")
    placed.end.touch()
