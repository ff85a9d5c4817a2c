"""A private Slurm with spank_sluice.so and two lanes, shared by the tests here.

The jobs' tokens are ordinary licences that the tests ask for themselves. plugstack.conf
is read anew by each command and step, so a test may write its own.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import turns_page
from compile_c import make
from private_slurm import PrivateSlurm
from spank_lab import Lab


@pytest.fixture(scope="session")
def built() -> Path:
    """The folder with the test programs; builds them and the plugin if need be."""
    return make("tests/spank") / "spank-tests"


@pytest.fixture(scope="session")
def cluster(built: Path) -> Iterator[Lab]:
    # munged and slurmd need a directory that every user can enter, and pytest's are not
    place = Path(tempfile.mkdtemp(prefix="sluice-spank-"))
    place.chmod(0o755)
    lanes = {name: place / "lanes" / name for name in ("sl0", "sl1")}
    for path in (place / "out", *lanes.values()):
        path.mkdir(parents=True)
        path.chmod(0o1777)
    slurm = PrivateSlurm(
        place / "slurm",
        plugin_dir=built / "plugins",
        settings={
            "Licenses": ",".join(
                f"{lane}_{klass}:1000000" for lane in lanes for klass in ("stream", "flush", "meta")
            )
            + ",matlab:4",
            "JobSubmitPlugins": "optionprobe",
            # heterogeneous jobs are started by the backfill scheduler alone
            "SchedulerParameters": "batch_sched_delay=1,sched_interval=2,bf_interval=1",
        },
        environment={"OPTION_PROBE": str(place / "options")},
    )
    try:
        with slurm:
            yield Lab(slurm, place, lanes)
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session")
def library(cluster: Lab) -> Path:
    """Where every user can read it, as it is installed."""
    folder = cluster.place / "turns-lib"
    folder.mkdir()
    folder.chmod(0o755)
    copy = folder / "libsluice_turns.so"
    copy.write_bytes(turns_page.build().read_bytes())
    return copy


@pytest.fixture
def lab(cluster: Lab) -> Iterator[Lab]:
    """The cluster with the plugin's usual configuration; no test may cost it a node."""
    cluster.plugstack()
    yield cluster
    cluster.plugstack()
    states = cluster.slurm.run("sinfo", "-hN", "-o", "%T").stdout
    assert "drain" not in states
    assert "down" not in states
