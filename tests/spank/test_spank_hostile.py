"""What a user can forge neither fails a job nor leads into another user's directory."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from spank_lab import OTHER_USER, Lab, needs_root, printed, variables

pytestmark = pytest.mark.slurm

HOLDING = "--licenses=sl0_stream"
FORGED = {
    "SLUICE_LANE": "sl1",
    "SLUICE_TARGETS": "99",
    "SLUICE_DIR": "/etc",
    "SLUICE_JOB_ID": "4711",
}


def become(uid: int, *, also_in: int | None = None) -> list[str]:
    groups = "--clear-groups" if also_in is None else f"--groups={also_in}"
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", groups]


def test_forged_variables_do_not_reach_a_job_without_a_token(lab: Lab) -> None:
    _, text = lab.script(body="env; srun env", **FORGED)
    assert variables(text) == {}
    assert variables(lab.srun("env", **FORGED).stdout) == {}


def test_forged_variables_do_not_reach_a_job_with_a_token(lab: Lab) -> None:
    job, text = lab.script(HOLDING, body="env; srun env", **FORGED)
    assert text.count("SLUICE_LANE=sl0\n") == 2
    assert text.count(f"SLUICE_JOB_ID={job}\n") == 2
    assert "SLUICE_DIR=/etc" not in text
    values = variables(lab.srun(HOLDING, "env", **FORGED).stdout)
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
    names = ("io_turns", "io_place", "io_dir", "no_sluice", "no_such_option")
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
    _, text = lab.script(HOLDING, f"--io-dir={existing}", body="env")
    assert variables(text) == {}
    assert variables(lab.srun(HOLDING, f"--io-dir={existing}", "env").stdout) == {}
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
    assert variables(lab.srun(HOLDING, f"--io-dir={link}", "env").stdout) == {}
    assert link.is_symlink()
    assert lab.made() == before
    assert not (lab.place / "nowhere").exists()


def test_the_names_of_the_next_seconds_taken_in_advance_stop_nobody(lab: Lab) -> None:
    """The name ends with what nobody can guess, and what begins like it is another's."""
    trap = lab.place / "trap"
    trap.mkdir()
    job = lab.slurm.submit("--hold", "--wrap=true") + 1
    now = int(lab.slurm.run("date", "+%s").stdout)
    for second in range(now, now + 15):
        for end in ("", "-", f"-{0:016x}"):
            (lab.lanes["sl0"] / f"job-{job}.0-{second}{end}").symlink_to(trap)
    actual, text = lab.script(HOLDING)
    assert actual == job
    made = Path(variables(text)["SLUICE_DIR"])
    assert not made.is_symlink()
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert list(trap.iterdir()) == []


def test_nothing_is_made_where_everybody_may_exchange_it(lab: Lab) -> None:
    """As in /tmp, the sticky bit is needed."""
    unsafe = lab.place / "unsafe"
    unsafe.mkdir()
    unsafe.chmod(0o777)
    assert variables(lab.srun(HOLDING, f"--io-dir={unsafe}/x", "env").stdout) == {}
    lab.plugstack(f"lane=sl0:{unsafe}:4")
    _, text = lab.script(HOLDING)
    assert variables(text) == {}
    assert list(unsafe.iterdir()) == []


@needs_root
def test_the_directory_is_made_as_the_user(lab: Lab) -> None:
    _, text = lab.script(HOLDING, f"--uid={OTHER_USER}", "--chdir=/", body="env; id -u")
    made = Path(variables(text)["SLUICE_DIR"]).stat()
    assert text.splitlines()[-1] == str(OTHER_USER)
    assert made.st_uid == OTHER_USER
    assert stat.S_IMODE(made.st_mode) == 0o700


@needs_root
def test_an_io_dir_in_a_place_its_user_cannot_write_is_not_made(lab: Lab) -> None:
    closed = lab.place / "roots-own"
    closed.mkdir(mode=0o755)
    _, text = lab.script(
        HOLDING, f"--uid={OTHER_USER}", "--chdir=/", f"--io-dir={closed}/x", body="env; srun env"
    )
    assert variables(text) == {}
    assert list(closed.iterdir()) == []


@needs_root
@pytest.mark.parametrize("how", ["inside", "by its id"])
def test_a_directory_of_somebody_else_is_not_used_in_salloc(lab: Lab, how: str) -> None:
    """An srun in salloc takes what an earlier one made, but only from its own user."""
    srun = "srun" if how == "inside" else "env -u SLUICE_SEED srun --jobid=$SLURM_JOB_ID"
    body = (
        f'first=$({srun} printenv SLUICE_DIR); rm -r "$first"; mkdir -m 700 "$first";'
        f' chown {OTHER_USER} "$first"; echo "$first"; {srun} env'
    )
    done = lab.slurm.run("salloc", "-Q", HOLDING, "sh", "-c", body)
    assert variables(done.stdout).get("SLUICE_DIR") != done.stdout.splitlines()[0]


LICENSES = "scontrol show job $SLURM_JOB_ID | grep -o 'Licenses=[^ ]*'"


@pytest.mark.parametrize("by", ["sbatch", "srun"])
def test_a_job_without_its_directory_keeps_no_token(lab: Lab, by: str) -> None:
    """It may write anywhere, and sluiced takes it so where it holds none. Others stay."""
    existing = lab.lanes["sl0"] / f"taken-{by}"
    existing.mkdir()
    options = ("--licenses=matlab:2,sl0_stream", f"--io-dir={existing}")
    if by == "sbatch":
        _, text = lab.script(*options, body=f"env; {LICENSES}")
    else:
        text = lab.srun(*options, "sh", "-c", f"env; {LICENSES}").stdout
    assert variables(text) == {}
    assert text.splitlines()[-1] == "Licenses=matlab:2"
    _, text = lab.script("--licenses=matlab:2,sl0_stream", body=LICENSES)
    assert "sl0_stream" in text


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
        HOLDING,
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
    """A group shares the parent, and one of it exchanges whatever appears there."""
    attacker, group, rounds = 1, 4711, 200
    place = cluster.place / "race"
    arena, victim = place / "arena", place / "victims-own"
    for path in (place, arena, victim):
        path.mkdir()
    os.chown(arena, 0, group)
    arena.chmod(0o770)
    victim.chmod(0o700)
    os.chown(victim, OTHER_USER, OTHER_USER)
    # setpriv's users cannot enter the repository
    swapper, maker, slow = (
        shutil.copy(built / name, place) for name in ("swapper", "harness-plain", "slow_openat.so")
    )
    placed_in = cluster.output()
    command = place / "placement"
    command.write_text(f"#!/bin/sh\nstat -c '%i %u' . >>{placed_in}\n")
    command.chmod(0o755)
    orders = "".join(f"make\t{arena}\tjob{n}\t{arena}\t0\t10\t{command}\n" for n in range(rounds))
    attack = subprocess.Popen(
        [*become(attacker, also_in=group), swapper, arena, victim, str(rounds)]
    )
    try:
        answers = subprocess.run(
            [*become(OTHER_USER, also_in=group), "env", f"LD_PRELOAD={slow}", maker],
            check=True,
            capture_output=True,
            text=True,
            input=orders,
            timeout=120,
        ).stdout.splitlines()
        assert attack.wait(timeout=20) == 0  # each directory was taken away
    finally:
        attack.kill()
    assert len(answers) == rounds
    assert set(answers) <= {"ok", "the directory is not the one that was made"}
    assert answers.count("ok") < rounds  # the attacker was quick enough
    inodes = [line.split() for line in placed_in.read_text().splitlines()]
    assert len(inodes) == answers.count("ok")
    assert {uid for _, uid in inodes} <= {str(OTHER_USER)}
    assert str(victim.stat().st_ino) not in {inode for inode, _ in inodes}
    assert list(victim.iterdir()) == []


def test_two_sruns_at_once_in_one_allocation_agree(lab: Lab) -> None:
    body = "for i in 1 2 3 4; do srun -n1 --overlap printenv SLUICE_DIR & done; wait"
    done = lab.slurm.run("salloc", "-Q", "-n4", HOLDING, "sh", "-c", body)
    assert len(done.stdout.splitlines()) == 4
    assert len(set(done.stdout.splitlines())) == 1


@needs_root
def test_an_ordinary_user_submits_runs_and_gets_his_directory(lab: Lab) -> None:
    output = lab.output()
    lab.slurm.run(
        *become(OTHER_USER),
        "sbatch",
        "--wait",
        f"--output={output}",
        HOLDING,
        "--wrap=env; srun env",
    )
    step = variables(lab.slurm.run(*become(OTHER_USER), "srun", HOLDING, "env").stdout)
    for values in (variables(printed(output)), step):
        assert Path(values["SLUICE_DIR"]).stat().st_uid == OTHER_USER
