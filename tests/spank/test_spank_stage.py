"""Jobs that write on their node and have their files at the destination when they are done."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import drainer
import pytest
from compile_c import make
from private_slurm import PrivateSlurm
from spank_lab import OTHER_USER, Lab, needs_root

pytestmark = [pytest.mark.slurm, needs_root]

GUIDE = Path(__file__).resolve().parents[2] / "docs/guide/staging.md"
WRITE = "env | grep ^SLUICE; cd $SLUICE_DIR && mkdir d && seq 100000 > d/f && ln -s f d/l"


@pytest.fixture(scope="module")
def staging() -> Iterator[Lab]:
    """A cluster of its own: slurmd asks at its start which plugins have an epilog."""
    place = Path(tempfile.mkdtemp(prefix="sluice-stage-"))
    place.chmod(0o755)
    lanes = {"sl0": place / "lanes" / "sl0"}
    for path in (place / "out", lanes["sl0"]):
        path.mkdir(parents=True)
        path.chmod(0o1777)
    (place / "local").mkdir()
    (place / "local").chmod(0o755)
    shutil.copy(drainer.program(), place / "sluice-drain")
    make("slurm-plugin/node/spank")
    slurm = PrivateSlurm(place / "slurm", settings={"Licenses": "sl0_stream:1000000"})
    try:
        with slurm:
            lab = Lab(slurm, place, lanes)
            arrange(lab, f"stage={place}/local:0:60")
            for node in slurm.node_names:
                restart(lab, node)
            yield lab
    finally:
        shutil.rmtree(place, ignore_errors=True)


def arrange(lab: Lab, *words: str) -> None:
    lab.plugstack(f"lane=sl0:{lab.lanes['sl0']}:4", f"drain={lab.place}/sluice-drain", *words)


def restart(lab: Lab, node: str) -> None:
    pid = lab.slurm.node_pid(node)
    assert pid
    os.kill(pid, signal.SIGTERM)
    lab.wait_for(lambda: not Path(f"/proc/{pid}").exists())
    lab.slurm.start_node(node)
    lab.slurm.wait_for_nodes()


@pytest.fixture
def lab(staging: Lab) -> Iterator[Lab]:
    """No test may cost a node, or leave a drainer."""
    arrange(staging, f"stage={staging.place}/local:0:60")
    yield staging
    states = staging.slurm.run("sinfo", "-hN", "-o", "%T").stdout
    assert "drain" not in states
    assert "down" not in states
    staging.wait_for(lambda: not drainers(staging))


def drainers(lab: Lab) -> list[int]:
    found = subprocess.run(
        ["pgrep", "-f", f"^{lab.place}/sluice-drain"], capture_output=True, check=False
    )
    return [int(word) for word in found.stdout.split()]


def submit(lab: Lab, body: str, *options: str, user: int = OTHER_USER) -> tuple[int, Path]:
    output = lab.output()
    done = lab.slurm.run(
        *("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"),
        *("sbatch", "--parsable", "--licenses=sl0_stream:1", "--chdir=/", f"--output={output}"),
        *("--io-stage", *options, f"--wrap={body}"),
    )
    return int(done.stdout), output


def end(lab: Lab, job: int, *states: str) -> None:
    lab.slurm.wait_for_job(job, *(states or ("COMPLETED",)), timeout=120)


def variable(output: Path, name: str) -> Path:
    found = re.search(rf"^{name}=(.*)$", output.read_text(), re.MULTILINE)
    assert found, output.read_text()
    return Path(found[1])


def has_all(destination: Path) -> bool:
    content = (destination / "d" / "f").read_text()
    return content.count("\n") == 100_000 and (destination / "d" / "l").readlink() == Path("f")


def test_files_are_at_the_destination_when_the_job_is_done(lab):
    job, output = submit(lab, WRITE)
    end(lab, job)
    here, there = variable(output, "SLUICE_DIR"), variable(output, "SLUICE_STAGED_TO")
    assert here == lab.place / "local" / str(job) / "data"
    assert there.parent == lab.lanes["sl0"]
    assert has_all(there)
    assert (there / "d" / "f").stat().st_uid == OTHER_USER
    assert list((lab.place / "local").iterdir()) == []


def test_the_drainer_is_the_user_in_every_id_and_has_nothing_of_roots(lab):
    hold = lab.place / "out" / "hold"
    job, output = submit(lab, f"{WRITE}; while [ ! -e {hold} ]; do sleep 0.1; done")
    lab.wait_for(lambda: len(drainers(lab)) == 1)
    (pid,) = drainers(lab)
    status = Path(f"/proc/{pid}/status").read_text()
    assert f"Uid:\t{OTHER_USER}\t{OTHER_USER}\t{OTHER_USER}\t{OTHER_USER}" in status
    assert f"Gid:\t{OTHER_USER}\t{OTHER_USER}\t{OTHER_USER}\t{OTHER_USER}" in status
    assert re.search(r"CapEff:\t0+\n", status)
    groups = re.search(r"Groups:\t(.*)\n", status)
    assert groups
    assert set(groups[1].split()) <= {str(OTHER_USER)}
    hold.touch()
    end(lab, job)
    hold.unlink()
    assert has_all(variable(output, "SLUICE_STAGED_TO"))


def test_a_job_is_completing_until_all_is_there_and_afterok_waits(lab):
    arrange(lab, f"stage={lab.place}/local:200000:60")
    job, output = submit(lab, WRITE)
    after = lab.output()
    lab.slurm.submit(f"--dependency=afterok:{job}", f"--wrap=ls -R {lab.lanes['sl0']} > {after}")
    lab.slurm.wait_for_job(job, "COMPLETING", "COMPLETED", timeout=120)
    end(lab, job)
    assert has_all(variable(output, "SLUICE_STAGED_TO"))
    lab.wait_for(lambda: "f" in after.read_text().split(), timeout=120)


@pytest.mark.parametrize("how", ["KILL", "TERM"])
def test_a_drainer_that_ends_before_its_job_is_started_again_by_the_epilog(lab, how):
    """Also where it ended well, and the job went on."""
    drain = f"'^{lab.place}/sluice-drain'"
    gone = f"pkill -{how} -f {drain}; while pgrep -f {drain} > /dev/null; do sleep 0.1; done"
    job, output = submit(lab, f"touch $SLUICE_DIR/first; {gone}; {WRITE}")
    end(lab, job)
    assert has_all(variable(output, "SLUICE_STAGED_TO"))
    assert list((lab.place / "local").iterdir()) == []


@pytest.mark.parametrize("how", ["cancel", "requeue"])
def test_what_a_job_wrote_is_there_when_it_was_ended_from_outside(lab, how):
    job, output = submit(lab, f"{WRITE}; touch $SLUICE_DIR/all; sleep 600", "--requeue")
    lab.wait_for(lambda: "SLUICE_STAGED_TO" in output.read_text())
    there = variable(output, "SLUICE_STAGED_TO")
    lab.wait_for((there / "all").exists, timeout=60)
    if how == "cancel":
        lab.slurm.run("scancel", str(job))
    else:
        lab.slurm.run("scontrol", "requeuehold", str(job))
    end(lab, job, "CANCELLED", "PENDING")
    lab.wait_for(lambda: not list((lab.place / "local").iterdir()), timeout=60)
    assert has_all(there)
    lab.slurm.run("scancel", str(job))


def test_files_stay_where_nothing_tells_any_more_where_they_go(lab):
    job, _ = submit(
        lab, f"pkill -9 -f '^{lab.place}/sluice-drain'; rm $SLUICE_DIR/../state/to; {WRITE}"
    )
    end(lab, job)
    kept = lab.place / "local" / str(job)
    lab.wait_for(lambda: f"job {job}: files are only in {kept}/data" in lab.node_log())
    assert has_all(kept / "data")
    shutil.rmtree(kept)


def test_what_cannot_be_drained_stays_and_the_log_says_where(lab):
    arrange(lab, f"stage={lab.place}/local:0:3")
    away = "mv $SLUICE_STAGED_TO $SLUICE_STAGED_TO.away"
    job, _ = submit(lab, f"{WRITE}; cd /; {away}; seq 9 > $SLUICE_DIR/late")
    end(lab, job)
    kept = lab.place / "local" / str(job)
    lab.wait_for(lambda: f"job {job}: files are only in {kept}/data" in lab.node_log())
    assert (kept / "data" / "late").read_text().count("\n") == 9
    lab.wait_for(lambda: not drainers(lab))
    there = Path((kept / "state" / "to").read_text())
    there.with_name(f"{there.name}.away").rename(there)
    command = re.search(r"`(cd /local/sluice/JOBID/state .*--once)`", GUIDE.read_text())
    assert command
    words = command[1].replace("/local/sluice/JOBID", str(kept))
    words = words.replace("USER", str(OTHER_USER)).replace("GROUP", str(OTHER_USER))
    words = words.replace("--init-groups sluice", f"--clear-groups {lab.place}/sluice")
    subprocess.run(words, shell=True, check=True)  # noqa: S602 - as the guide has it
    assert has_all(there)
    assert (there / "late").exists()
    shutil.rmtree(kept)


def test_files_stay_on_the_node_where_the_job_wants_to_keep_them(lab):
    job, output = submit(lab, WRITE, "--io-stage=keep")
    end(lab, job)
    assert has_all(variable(output, "SLUICE_STAGED_TO"))
    assert has_all(variable(output, "SLUICE_DIR"))
    shutil.rmtree(lab.place / "local" / str(job))


@pytest.mark.parametrize(
    ("why", "options"),
    [
        ("others than root may write there", ()),
        ("an earlier run has left files there", ()),
        ("only jobs of one node are staged", ("--nodes=2",)),
        ("plugstack.conf has no stage=", ()),
        ("sluice-drain is not there", ()),
    ],
)
def test_whatever_fails_the_job_runs_as_if_it_had_not_asked(lab, why, options):
    local = lab.place / "local"
    if "others" in why:
        local.chmod(0o777)
    if "no stage=" in why:
        arrange(lab)
    if "not there" in why:
        arrange(lab, f"stage={local}", "drain=/nowhere/sluice-drain")
    if "earlier" in why:
        following = int(lab.slurm.run("sbatch", "--parsable", "--hold", "--wrap=true").stdout) + 1
        (local / str(following)).mkdir()
    job, output = submit(lab, WRITE, *options)
    end(lab, job)
    local.chmod(0o755)
    assert has_all(variable(output, "SLUICE_DIR"))
    assert variable(output, "SLUICE_DIR").parent == lab.lanes["sl0"]
    assert "SLUICE_STAGED_TO" not in output.read_text()
    lab.wait_for(lambda: f"job {job} is not staged: {why}" in lab.node_log())
    for path in local.iterdir():
        path.rmdir()


def test_no_job_is_staged_where_slurm_would_kill_its_epilog(lab):
    lab.slurm.settings["PrologEpilogTimeout"] = "100"
    lab.slurm.write_config()
    arrange(lab, f"stage={lab.place}/local:0:60")
    lab.slurm.reconfigure()
    job, output = submit(lab, WRITE)
    end(lab, job)
    del lab.slurm.settings["PrologEpilogTimeout"]
    lab.slurm.write_config()
    lab.slurm.reconfigure()
    assert "SLUICE_STAGED_TO" not in output.read_text()
    said = f"job {job} is not staged: PrologEpilogTimeout is below the bound of stage="
    lab.wait_for(lambda: said in lab.node_log())


def test_a_user_is_told_where_the_site_stages_nothing(lab):
    arrange(lab)
    said = lab.slurm.run("sbatch", "--hold", "--io-stage", "--wrap=true").stderr
    assert "this site does not stage output" in said
    said = lab.slurm.run("sbatch", "--io-stage=maybe", "--wrap=true", check=False)
    assert said.returncode != 0
    assert "give no value, =keep or =no" in said.stderr
