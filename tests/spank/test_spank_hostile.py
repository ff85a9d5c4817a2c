"""What a user can forge neither fails a job nor leads into a directory that is not his own."""

import os
import stat
import subprocess
from pathlib import Path

import pytest
from conftest import OTHER_USER, Lab, needs_root, variables

pytestmark = pytest.mark.slurm

TOKEN = "--licenses=sl0_stream"
FORGED = {
    "SLUICE_LANE": "sl1",
    "SLUICE_TARGETS": "99",
    "SLUICE_DIR": "/etc",
    "SLUICE_JOB_ID": "4711",
}


def test_forged_variables_do_not_reach_a_job_without_a_token(lab: Lab) -> None:
    _, text = lab.script(body="env; srun env", **FORGED)
    assert variables(text) == {}
    assert variables(lab.srun("env", **FORGED).stdout) == {}


def test_forged_variables_do_not_reach_a_job_with_a_token(lab: Lab) -> None:
    job, text = lab.script(TOKEN, body="env; srun env", **FORGED)
    assert text.count("SLUICE_LANE=sl0\n") == 2
    assert text.count(f"SLUICE_JOB_ID={job}\n") == 2
    assert "SLUICE_DIR=/etc" not in text
    values = variables(lab.srun(TOKEN, "env", **FORGED).stdout)
    assert values["SLUICE_LANE"] == "sl0"
    assert Path(values["SLUICE_DIR"]).parent == lab.lanes["sl0"]


def test_forged_licences_in_the_environment_are_not_believed(lab: Lab) -> None:
    forged = {"SLURM_JOB_LICENSES": "sl0_stream:1", "SLURM_LICENSES": "sl0_stream"}
    before = lab.made()
    _, text = lab.script(body="env; srun env", **forged)
    assert variables(text) == {}
    assert variables(lab.srun("env", **forged).stdout) == {}
    assert lab.made() == before


@pytest.mark.parametrize("value", ["nonsense", "", "/", "/a/../..", "%", "x" * 5000, "-1"])
def test_forged_options_of_a_step_do_not_fail_it(lab: Lab, value: str) -> None:
    names = ("io_chunk", "io_pattern", "io_bytes", "io_dir", "no_sluice", "no_such_option")
    forged = {f"_SLURM_SPANK_OPTION_sluice_{name}": value for name in names}
    assert lab.srun("echo", "ran", **forged).stdout == "ran\n"
    job, text = lab.script("--export=ALL", body="echo ran; srun echo step", **forged)
    assert text == "ran\nstep\n"
    assert lab.slurm.job(job)["ExitCode"] == "0:0"


def test_an_io_dir_that_exists_is_left_as_it_is(lab: Lab) -> None:
    existing = lab.lanes["sl0"] / "existing"
    existing.mkdir(mode=0o755)
    (existing / "file").write_text("mine")
    before = existing.stat()
    _, text = lab.script(TOKEN, f"--io-dir={existing}", body="env")
    assert variables(text) == {}
    assert variables(lab.srun(TOKEN, f"--io-dir={existing}", "env").stdout) == {}
    after = existing.stat()
    assert (after.st_mode, after.st_ctime_ns) == (before.st_mode, before.st_ctime_ns)
    assert [path.name for path in existing.iterdir()] == ["file"]


@pytest.mark.parametrize("target", ["directory", "nothing", "file"])
def test_an_io_dir_that_is_a_link_is_not_followed(lab: Lab, target: str) -> None:
    where = {
        "directory": lab.lanes["sl1"],
        "nothing": lab.place / "nowhere",
        "file": Path("/etc/passwd"),
    }[target]
    link = lab.lanes["sl0"] / f"link-{target}"
    link.symlink_to(where)
    before = lab.made()
    assert variables(lab.srun(TOKEN, f"--io-dir={link}", "env").stdout) == {}
    assert link.is_symlink()
    assert lab.made() == before
    assert not (lab.place / "nowhere").exists()


def test_a_name_that_is_taken_when_the_job_starts_is_not_used(lab: Lab) -> None:
    """The name holds the start time, so all of the next seconds are taken in advance."""
    trap = lab.place / "trap"
    trap.mkdir()
    job = lab.slurm.submit("--hold", "--wrap=true") + 1
    now = int(lab.slurm.run("date", "+%s").stdout)
    for second in range(now, now + 15):
        (lab.lanes["sl0"] / f"job-{job}.0-{second}").symlink_to(trap)
    actual, text = lab.script(TOKEN)
    assert actual == job
    assert variables(text) == {}
    assert list(trap.iterdir()) == []


@needs_root
def test_the_directory_is_made_as_the_user(lab: Lab) -> None:
    _, text = lab.script(TOKEN, f"--uid={OTHER_USER}", "--chdir=/", body="env; id -u")
    made = Path(variables(text)["SLUICE_DIR"]).stat()
    assert text.splitlines()[-1] == str(OTHER_USER)
    assert made.st_uid == OTHER_USER
    assert stat.S_IMODE(made.st_mode) == 0o700


@needs_root
def test_an_io_dir_in_a_place_its_user_cannot_write_is_not_made(lab: Lab) -> None:
    closed = lab.place / "roots-own"
    closed.mkdir(mode=0o755)
    _, text = lab.script(
        TOKEN, f"--uid={OTHER_USER}", "--chdir=/", f"--io-dir={closed}/x", body="env; srun env"
    )
    assert variables(text) == {}
    assert list(closed.iterdir()) == []


@needs_root
def test_a_directory_of_somebody_else_is_not_used_in_salloc(lab: Lab) -> None:
    """An srun in salloc takes what an earlier one made, but only from its own user."""
    body = (
        'first=$(srun printenv SLUICE_DIR); rm -r "$first"; mkdir "$first";'
        f' chown {OTHER_USER} "$first"; srun env'
    )
    done = lab.slurm.run("salloc", "-Q", TOKEN, "sh", "-c", body)
    assert variables(done.stdout) == {}


@needs_root
def test_the_placement_command_has_no_rights_but_the_users(lab: Lab) -> None:
    seen = lab.output()
    command = lab.place / "who"
    command.write_text(
        f"#!/bin/sh\nexec >{seen}; pwd -P; cat /proc/self/status; env; ls -l /proc/self/fd\n"
    )
    command.chmod(0o755)
    lab.plugstack("backend=lustre", f"command={command}", f"lane=sl0:{lab.lanes['sl0']}:4:pool")
    _, text = lab.script(
        TOKEN,
        f"--uid={OTHER_USER}",
        "--chdir=/",
        body="env",
        LD_PRELOAD="/tmp/evil.so",  # noqa: S108 -- does not exist
    )
    directory = variables(text)["SLUICE_DIR"]
    status = seen.read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert status.splitlines()[0] == directory
    assert fields["Uid"].split() == [str(OTHER_USER)] * 4
    assert len(set(fields["Gid"].split())) == 1
    assert int(fields["CapPrm"], 16) == int(fields["CapEff"], 16) == 0
    assert int(fields["SigBlk"], 16) == 0
    assert "LD_PRELOAD" not in status
    assert "SLURM" not in status
    assert status.count("/dev/null") == 2  # input and errors; output went to the file
    assert "socket:" not in status


@needs_root
def test_no_race_leads_the_placement_into_a_directory_that_was_not_made(
    built: Path, cluster: Lab
) -> None:
    """Another user owns the parent and exchanges whatever appears in it."""
    arena = cluster.place / "arena"
    arena.mkdir()
    arena.chmod(0o777)
    attacker, rounds = 1, 300
    os.chown(arena, attacker, attacker)
    victim = cluster.place / "victims-own"
    victim.mkdir(mode=0o700)
    os.chown(victim, OTHER_USER, OTHER_USER)
    seen = cluster.output()
    command = cluster.place / "note-inode"
    command.write_text(f"#!/bin/sh\nstat -c '%i %u' . >>{seen}\n")
    command.chmod(0o755)
    attack = (
        "import os, sys\n"
        f"os.chdir('{arena}')\n"
        "n = 0\n"
        "while not os.path.exists('stop'):\n"
        "    for name in os.listdir('.'):\n"
        "        if name.startswith('job'):\n"
        "            try:\n"
        "                os.rename(name, f'gone{n}')\n"
        f"                os.symlink('{victim}', name) if n % 2 else os.mkdir(name, 0o700)\n"
        "            except OSError:\n"
        "                pass\n"
        "            n += 1\n"
    )
    swapper = subprocess.Popen(
        ["setpriv", f"--reuid={attacker}", f"--regid={attacker}", "--clear-groups"]
        + ["python3", "-c", attack]
    )
    orders = "".join(
        f"make\t{arena}\tjob{n}\t{arena}\t0\t10\t{command}\n" for n in range(rounds)
    )
    try:
        maker = subprocess.run(
            ["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"]
            + [built / "harness-plain"],
            check=True,
            capture_output=True,
            text=True,
            input=orders,
            timeout=120,
        )
    finally:
        (arena / "stop").touch()
        swapper.wait(timeout=20)
    answers = maker.stdout.splitlines()
    assert len(answers) == rounds
    placed = [line.split() for line in seen.read_text().splitlines()]
    assert {uid for _, uid in placed} <= {str(OTHER_USER)}
    assert str(victim.stat().st_ino) not in {inode for inode, _ in placed}
    assert list(victim.iterdir()) == []
    assert len(placed) == answers.count("ok")


@needs_root
def test_two_sruns_at_once_in_one_allocation_agree(lab: Lab) -> None:
    body = "for i in 1 2 3 4; do srun -n1 --overlap printenv SLUICE_DIR & done; wait"
    done = lab.slurm.run("salloc", "-Q", "-n4", TOKEN, "sh", "-c", body)
    assert len(done.stdout.splitlines()) == 4
    assert len(set(done.stdout.splitlines())) == 1


def test_an_ordinary_user_submits_runs_and_gets_his_directory(lab: Lab) -> None:
    if os.geteuid() != 0:
        pytest.skip("becomes another user")
    output = lab.output()
    become = ("setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups")
    lab.slurm.run(
        *become, "sbatch", "--wait", f"--output={output}", TOKEN, "--wrap=env; srun env"
    )
    step = variables(lab.slurm.run(*become, "srun", TOKEN, "env").stdout)
    for values in (variables(output.read_text()), step):
        assert Path(values["SLUICE_DIR"]).stat().st_uid == OTHER_USER
