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


NOTE = "sluice(v=1,rec=00ff-1,act=colocate,place={})"


@pytest.fixture
def lfs(lab: Lab) -> Path:
    """Where a stand-in for lfs says how it was called, in which directory."""
    calls = lab.output()
    command = lab.place / "lfs"
    command.write_text(
        f'#!/bin/sh\necho "$(pwd -P) $*" >>{calls}\n'
        'case "$*" in *-o*13*) exit 1;; esac\n'  # a target that is down
    )
    command.chmod(0o755)
    lab.plugstack("backend=lustre", f"command={command}", f"lane=sl0:{lab.lanes['sl0']}:8:8-15")
    return calls


def noted(lab: Lab, note: str, *options: str) -> str:
    """What a job prints, and a step of it, whose admin comment is this before it starts."""
    output = lab.output()
    job = lab.slurm.submit(
        HOLDING, "--hold", *options, f"--output={output}", "--wrap=env; echo; srun --quiet env"
    )
    lab.slurm.run("scontrol", "update", f"jobid={job}", f"admincomment={note}")
    lab.slurm.run("scontrol", "release", str(job))
    lab.slurm.wait_for_job(job, "COMPLETED")
    return output.read_text()


@pytest.mark.parametrize(
    ("note", "targets", "words"),
    [
        (NOTE.format("2+2"), "2", "setstripe -c 2 -o 10,11 ."),
        ("site " + NOTE.format("0+4"), "4", "setstripe -c 4 -o 8,9,10,11 ."),
        (NOTE.format("6+4"), "8", "setstripe -o 8-15 ."),  # not within the lane
        (NOTE.format("x"), "8", "setstripe -o 8-15 ."),
        ("place=2+2", "8", "setstripe -o 8-15 ."),  # no note of Sluice's
    ],
)
def test_a_jobs_directory_is_on_the_block_in_its_admin_comment(
    lab: Lab, lfs: Path, note: str, targets: str, words: str
) -> None:
    script, step = noted(lab, note).split("\n\n")
    directory = variables(script)["SLUICE_DIR"]
    assert variables(script)["SLUICE_TARGETS"] == targets
    assert lfs.read_text().splitlines() == [f"{directory} {words}"]
    assert variables(step) == variables(script)


def test_a_block_that_cannot_be_had_leaves_the_lane(lab: Lab, lfs: Path) -> None:
    script, _step = noted(lab, NOTE.format("4+2")).split("\n\n")
    directory = variables(script)["SLUICE_DIR"]
    assert variables(script)["SLUICE_TARGETS"] == "8"
    refused, made = (line.split(" ", 1) for line in lfs.read_text().splitlines())
    assert refused[1] == "setstripe -c 2 -o 12,13 ."
    assert not Path(refused[0]).exists()
    assert made == [directory, "setstripe -o 8-15 ."]
    assert "has no directory on its targets of lane sl0" in lab.node_log()


@pytest.mark.parametrize(
    "options", [("--comment=" + NOTE.format("2+2"),), ("--export=ALL,SLUICE_TARGETS=2,place=2+2",)]
)
def test_what_users_write_places_nothing(lab: Lab, lfs: Path, options: tuple[str, ...]) -> None:
    _, text = lab.script(HOLDING, *options, SLUICE_PLACE="2+2")
    assert variables(text)["SLUICE_TARGETS"] == "8"
    assert lfs.read_text().split(" ", 1)[1] == "setstripe -o 8-15 .\n"


def test_a_directory_lane_has_a_directory_for_each_target(lab: Lab) -> None:
    lab.plugstack()
    target = lab.lanes["sl0"] / "t2"
    target.mkdir()
    target.chmod(0o1777)
    script, step = noted(lab, NOTE.format("2+1")).split("\n\n")
    assert Path(variables(script)["SLUICE_DIR"]).parent == target
    assert variables(script)["SLUICE_TARGETS"] == "1"
    assert variables(step) == variables(script)
    script, _step = noted(lab, NOTE.format("2+2")).split("\n\n")
    assert Path(variables(script)["SLUICE_DIR"]).parent == lab.lanes["sl0"]
    script, _step = noted(lab, NOTE.format("3+1")).split("\n\n")  # there is no t3
    assert Path(variables(script)["SLUICE_DIR"]).parent == lab.lanes["sl0"]


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
