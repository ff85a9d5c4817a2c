"""How a backend puts the fresh directory on the lane's targets.

MooseFS is the real thing. Lustre cannot run here: a stand-in for `lfs` writes down how
it is called, which shows what Sluice does and not what Lustre makes of it.
"""

import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from moosefs import MooseFS
from spank_lab import OTHER_USER, PLUGIN, Lab, variables

PRIVATE_SLURM = Path(__file__).parents[1] / "lab" / "private_slurm.py"
HOLDING = "--licenses=sl0_stream"

pytestmark = pytest.mark.slurm


@pytest.mark.parametrize(
    ("placement", "words"),
    [
        ("fast_pool", "setstripe -p fast_pool ."),
        ("0,1,4-7", "setstripe -o 0,1,4-7 ."),
    ],
)
def test_lustre_sets_the_layout_of_the_fresh_directory(
    lab: Lab, placement: str, words: str
) -> None:
    calls = lab.output()
    lfs = lab.place / "lfs"
    lfs.write_text(f'#!/bin/sh\necho "$(pwd -P) $*" >>{calls}\necho noise; echo noise >&2\n')
    lfs.chmod(0o755)
    lab.plugstack("backend=lustre", f"command={lfs}", f"lane=sl0:{lab.lanes['sl0']}:4:{placement}")
    _, text = lab.script(HOLDING, body="env; srun env")
    step = lab.srun(HOLDING, "env").stdout
    made = [variables(text)["SLUICE_DIR"], variables(step)["SLUICE_DIR"]]
    assert calls.read_text().splitlines() == [f"{directory} {words}" for directory in made]
    assert "noise" not in text + step


def test_lustre_without_its_command_gives_nothing(lab: Lab) -> None:
    """`lfs` is looked for where Lustre's client puts it; it is not installed here."""
    if Path("/usr/bin/lfs").exists():
        pytest.skip("there is an lfs")
    before = lab.made()
    lab.plugstack("backend=lustre", f"lane=sl0:{lab.lanes['sl0']}:4:pool")
    assert variables(lab.srun(HOLDING, "env").stdout) == {}
    assert lab.made() == before


@pytest.fixture(scope="module")
def moosefs(built: Path) -> Iterator[MooseFS]:
    if reason := MooseFS.missing():
        pytest.skip(reason)
    assert built
    with tempfile.TemporaryDirectory(prefix="sluice-spank-") as name:
        Path(name).chmod(0o755)
        with MooseFS(name) as moosefs:
            yield moosefs


@pytest.fixture(scope="module")
def moosefs_jobs(moosefs: MooseFS) -> Iterator[Path]:
    """A directory of the default storage class, which uses both lanes, for jobs' directories
    of a Slurm in the file system's network: its users run mfssetsclass themselves."""
    jobs = moosefs.mounts[0] / "jobs"
    jobs.mkdir()
    jobs.chmod(0o1777)
    place = moosefs.place.parent / "slurm"
    moosefs.run(
        sys.executable,
        PRIVATE_SLURM,
        "up",
        place,
        "--nodes=1",
        "--set",
        "Licenses=sl0_stream:1000000,sl1_stream:1000000",
    )
    lanes = " ".join(f"lane={n}:{jobs}:1:{moosefs.storage_class(n)}" for n in moosefs.lanes)
    (place / "etc" / "plugstack.conf").write_text(f"optional {PLUGIN} backend=moosefs {lanes}\n")
    try:
        yield jobs
    finally:
        moosefs.run(sys.executable, PRIVATE_SLURM, "down", place)


def run_job(moosefs: MooseFS, *words: str) -> str:
    place = moosefs.place.parent / "slurm"
    return moosefs.run("env", f"SLURM_CONF={place}/etc/slurm.conf", f"--chdir={place}", *words)


def written(directory: str) -> str:
    return f"head -c 3000000 /dev/zero > {directory}/data && sync {directory}/data"


def test_without_a_lane_moosefs_spreads_the_files_of_a_job(
    moosefs: MooseFS, moosefs_jobs: Path
) -> None:
    """So what the other tests see is the plugin's doing."""
    files = [moosefs_jobs / f"spread{i}" for i in range(8)]
    for path in files:
        path.write_bytes(bytes(100_000))
    assert len(frozenset().union(*(moosefs.file_targets(path) for path in files))) == 2


@pytest.mark.parametrize("lane", ["sl0", "sl1"])
def test_on_moosefs_a_jobs_files_lie_on_its_lane(
    moosefs: MooseFS, moosefs_jobs: Path, lane: str
) -> None:
    body = f"echo $SLUICE_LANE $SLUICE_DIR; {written('$SLUICE_DIR')}"
    reported, directory = run_job(
        moosefs, "srun", "-Q", f"--licenses={lane}_stream", "sh", "-c", body
    ).split()
    assert reported == lane
    assert Path(directory).parent == moosefs_jobs
    assert moosefs.file_targets(Path(directory) / "data") == {lane}


def test_on_moosefs_an_ordinary_users_script_and_io_dir_lie_on_the_lane(
    moosefs: MooseFS, moosefs_jobs: Path
) -> None:
    wanted = moosefs_jobs / "named"
    body = f"mkdir $SLUICE_DIR/below && {written('$SLUICE_DIR/below')}"
    run_job(
        moosefs,
        *shlex.split(f"sbatch -Q --wait -o/dev/null --uid={OTHER_USER} --chdir=/"),
        "--licenses=sl1_stream",
        f"--io-dir={wanted}",
        f"--wrap={body}",
    )
    assert wanted.stat().st_uid == OTHER_USER
    assert moosefs.file_targets(wanted / "below" / "data") == {"sl1"}
