"""`enforce` inside a real slurmctld: who gets tokens, and whose licences are left alone."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import made_model
import pytest
from plugin_harness import PluginFiles, drain, install
from private_slurm import PrivateSlurm, slurm_version
from transcript import clear

from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.record import Record, Situation, replay_grant

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user to be"),
]

NOBODY = 65534
ROUNDS, CLIENTS, JOBS = 4, 3, 500
LANES = "Lane=sl0 Targets=4 Bandwidth=8G\nLane=sl1 Targets=4 Bandwidth=8G\n"
OWN_LICENSES = "tool:4000,other:9"
TOKENS = tuple(f"sl{lane}_{klass}" for lane in (0, 1) for klass in ("stream", "flush", "meta"))
WRITER = f"--job-name={made_model.STREAM_JOB}"
NO_LICENSES = "(null)"
ALTERNATIVES = (25, 5)  # from this release on, `tool|other` asks for one of the two


def licenses_line(total: int = 1_000_000, tokens: tuple[str, ...] = TOKENS) -> str:
    return ",".join([OWN_LICENSES, *(f"{token}:{total}" for token in tokens)])


@pytest.fixture(scope="module")
def slurm(guarded_slurm) -> Iterator[PrivateSlurm]:
    """A cluster with lanes and room for many jobs."""
    with guarded_slurm("lanes", {"Licenses": licenses_line()}, nodes=3) as slurm:
        yield slurm


@pytest.fixture(autouse=True)
def _enforcing(slurm: PrivateSlurm, files: PluginFiles) -> Iterator[None]:
    """All is well, and nothing runs; no test may cost the controller its life."""
    start(files)
    yield
    slurm.run("scancel", "--state=PENDING", "--quiet")
    slurm.run("scancel", "--state=RUNNING", "--quiet")
    assert slurm.responds()  # nobody here starts one that has died


def start(files: PluginFiles, bundle: bytes | None = None, **settings: str) -> None:
    """Enforce, with a bundle that knows the lanes and a fresh snapshot."""
    install(files.bundle, bundle or made_model.named_bundle(LANES))
    files.configure(Mode="enforce", Lane="sl0 Targets=4\nLane=sl1 Targets=4", **settings)
    publish(files, made_model.snapshot())
    files.wait_for(
        lambda seen: (
            seen["mode"] == "enforce"
            and seen["config"]["checksum"] == f"{core.crc64(files.config.read_bytes()):016x}"
            and seen["bundle"]["checksum"] == checksum_of(files.bundle.read_bytes())
        )
    )
    drain(files.socket)


def publish(files: PluginFiles, snapshot: bytes) -> None:
    """Put a snapshot in place and wait until the plugin has taken it up."""
    install(files.snapshot, snapshot)
    files.wait_for(lambda seen: seen["snapshot"]["checksum"] == checksum_of(snapshot))


def checksum_of(content: bytes) -> str:
    """The checksum that a bundle or snapshot carries, as statistics show it."""
    return content[8:16][::-1].hex()


def held(slurm: PrivateSlurm, *arguments: str) -> dict[str, str]:
    """Submit a job of root's that does not start."""
    return slurm.job(slurm.submit("--hold", "--wrap=sleep 100", *arguments))


def as_nobody(slurm: PrivateSlurm, *command: str) -> subprocess.CompletedProcess[str]:
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return slurm.run(*user, *command, check=False)


def nobodys(slurm: PrivateSlurm, *arguments: str) -> int:
    """Submit a job of an ordinary user's; returns its id."""
    done = as_nobody(
        slurm, "sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null",
        "--wrap=sleep 100", *arguments,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def update(slurm: PrivateSlurm, job: int | str, *changes: str) -> None:
    """An ordinary user's own change, which nobody stands in the way of."""
    done = as_nobody(slurm, "scontrol", "update", f"jobid={job}", *changes)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def used(slurm: PrivateSlurm, token: str) -> int:
    """How many of a licence are held, as Slurm counts them."""
    for line in slurm.run("scontrol", "show", "lic", "-o").stdout.splitlines():
        fields = dict(word.split("=", 1) for word in line.split())
        if fields["LicenseName"] == token:
            return int(fields["Used"])
    raise AssertionError(token)


def records(files: PluginFiles) -> list[Record]:
    return [Record.parse(content) for content in drain(files.socket)]


# Submission: who gets tokens


def test_a_job_that_matters_takes_a_token_on_every_lane(
    slurm: PrivateSlurm, files: PluginFiles
) -> None:
    job = held(slurm, WRITER)
    assert job["Licenses"] == "sl0_stream,sl1_stream"
    [record] = records(files)
    assert record.grant.outcome == "taken"
    assert record.grant.tokens.to_dict() == {"klass": "stream", "lane_mask": 3}
    assert record.grant.totals[:2] == (1_000_000, 1_000_000)
    bundle = Bundle.parse(files.bundle.read_bytes())
    assert replay_grant(record, Situation(bundle, None)) == record.grant.bytes


def test_the_class_names_the_token(slurm: PrivateSlurm) -> None:
    assert held(slurm, f"--job-name={made_model.FLUSH_JOB}")["Licenses"] == "sl0_flush,sl1_flush"


def test_a_job_under_control_may_get_one_lane_alone(
    slurm: PrivateSlurm, files: PluginFiles
) -> None:
    """Somebody writes to lane 0, so the new job keeps to lane 1."""
    start(files, Controlled=f"Users={NOBODY}")
    publish(files, made_model.busy_lane_snapshot(lane_mask=1))
    job = nobodys(slurm, "--hold", WRITER, "--nodes=3")
    assert slurm.job(job)["Licenses"] == "sl1_stream"
    assert held(slurm, WRITER, "--nodes=3")["Licenses"] == "sl0_stream,sl1_stream"


@pytest.mark.parametrize("own", ["tool:2", "tool:1,other;tool:3", "other"])
def test_a_users_own_licences_stay_in_front(slurm: PrivateSlurm, own: str) -> None:
    assert held(slurm, WRITER, f"--licenses={own}")["Licenses"] == f"{own},sl0_stream,sl1_stream"


def test_a_job_that_does_not_matter_stays_as_it_is(slurm: PrivateSlurm) -> None:
    assert held(slurm, "--licenses=tool:2")["Licenses"] == "tool:2"
    assert held(slurm)["Licenses"] == NO_LICENSES


def test_srun_gets_its_token_and_runs(slurm: PrivateSlurm, files: PluginFiles) -> None:
    done = slurm.run("srun", WRITER, "-n1", "sh", "-c", "echo out; exit 3", check=False)
    assert (done.returncode, done.stdout) == (3, "out\n")
    assert records(files)[0].grant.outcome == "taken"


def test_each_task_of_an_array_holds_a_token_of_its_own(slurm: PrivateSlurm) -> None:
    job = slurm.submit(WRITER, "--array=0-1", "--wrap=sleep 100")
    slurm.wait_for_job(job, "RUNNING")
    deadline = time.monotonic() + 10
    while used(slurm, "sl0_stream") < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert used(slurm, "sl1_stream") == 2
    assert used(slurm, "sl0_flush") == 0


def test_a_heterogeneous_job_gets_them_on_its_leader(slurm: PrivateSlurm) -> None:
    script = slurm.directory / "job.sh"
    script.write_text("#!/bin/sh\nsleep 100\n")
    done = slurm.run("sbatch", "--parsable", "--hold", WRITER, "-n1", ":", "-n1", script)
    leader = int(done.stdout)
    assert slurm.job(f"{leader}+0")["Licenses"] == "sl0_stream,sl1_stream"
    assert slurm.job(f"{leader}+1")["Licenses"] == NO_LICENSES


@pytest.mark.parametrize(
    "kind",
    [
        ("--begin=now+1hour",),
        ("--deadline=now+2hours", "--time=5"),
        ("--immediate=60",),
    ],
)
def test_exempt_kinds_of_job_get_none(
    slurm: PrivateSlurm, files: PluginFiles, kind: tuple[str, ...]
) -> None:
    launcher = ("srun", "-n1", "true") if "--immediate=60" in kind else ("sbatch", "--wrap=true")
    slurm.run(launcher[0], WRITER, *kind, *launcher[1:])
    [record] = records(files)
    assert record.decision.reason.startswith("exempt_")
    assert record.grant.outcome == "not_needed"


def test_a_job_in_a_reservation_gets_none(slurm: PrivateSlurm, files: PluginFiles) -> None:
    slurm.run(
        "scontrol", "create", "reservation", "reservationname=course", "starttime=now",
        "duration=5", "users=root", "nodes=n1",
    )  # fmt: skip
    assert held(slurm, WRITER, "--reservation=course")["Licenses"] == NO_LICENSES
    clear(slurm)
    slurm.run("scontrol", "delete", "reservationname=course")
    assert records(files)[0].decision.reason == "exempt_reservation"


def test_salloc_gets_none(slurm: PrivateSlurm, files: PluginFiles) -> None:
    slurm.run("salloc", WRITER, "-n1", "true")
    assert records(files)[0].grant.outcome == "not_needed"


def test_an_opt_out_is_respected_and_counted(
    slurm: PrivateSlurm, files: PluginFiles, bulk_submit: Path
) -> None:
    before = files.stats()["opt_outs"]["option"]
    option = "_SLURM_SPANK_OPTION_sluice_no_sluice=(null)"
    slurm.run(bulk_submit, "1", made_model.STREAM_JOB, "", option)
    [record] = records(files)
    assert (record.decision.reason, record.grant.outcome) == ("opted_out", "not_needed")
    assert files.stats()["opt_outs"]["option"] == before + 1


def test_a_test_only_submission_answers_as_without_sluice(
    slurm: PrivateSlurm, files: PluginFiles
) -> None:
    done = slurm.run("sbatch", "--test-only", WRITER, "--wrap=true")
    assert "to start at" in done.stderr
    assert records(files)[0].grant.outcome == "test_only"


# Submission: what users write themselves


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("sl0_stream", NO_LICENSES),
        ("sl0_stream:999999", NO_LICENSES),
        ("sl0_stream:1000001", NO_LICENSES),  # more than there is: refused if it stayed
        ("tool:2,sl0_stream:5", "tool:2"),
        ("sl1_meta:7;other", "other"),
        ("sl0_flush,sl0_flush,tool,sl1_stream", "tool"),
    ],
)
def test_tokens_that_users_write_are_taken_off_and_counted(
    slurm: PrivateSlurm, files: PluginFiles, written: str, kept: str
) -> None:
    before = files.stats()["stripped"]
    assert held(slurm, f"--licenses={written}")["Licenses"] == kept
    assert slurm.job(nobodys(slurm, "--hold", f"--licenses={written}"))["Licenses"] == kept
    assert files.stats()["stripped"] == before + 2


def test_no_length_of_a_request_keeps_a_token(slurm: PrivateSlurm) -> None:
    """Slurm takes 1,024 bytes at submission, and any number in a modification."""
    separators = ";" * (1024 - len("sl0_stream,tool"))
    assert held(slurm, f"--licenses=sl0_stream,{separators}tool")["Licenses"].strip(";") == "tool"
    job = nobodys(slurm, "--hold", "--licenses=tool:2")
    update(slurm, job, f"licenses=tool:3,{separators * 3}sl0_stream:999999")
    assert slurm.job(job)["Licenses"] == "tool:3"


def test_a_writer_cannot_raise_his_own_share(slurm: PrivateSlurm) -> None:
    assert (
        held(slurm, WRITER, "--licenses=sl0_stream:50,tool")["Licenses"]
        == "tool,sl0_stream,sl1_stream"
    )


def test_no_way_to_submit_keeps_a_written_token(slurm: PrivateSlurm) -> None:
    """Exempt jobs, opt-outs by option, and later components are looked at as well."""
    slurm.run("salloc", "--licenses=sl0_stream:9", "-n1", "sh", "-c", "scontrol show job -o")
    shown = slurm.run(
        "salloc", "--licenses=sl0_stream:9", "-n1",
        "sh", "-c", "scontrol show job -o $SLURM_JOB_ID",
    ).stdout  # fmt: skip
    assert "Licenses=(null)" in shown
    script = slurm.directory / "job.sh"
    script.write_text("#!/bin/sh\nsleep 100\n")
    done = slurm.run(
        "sbatch", "--parsable", "--hold", "-n1", ":", "-n1", "--licenses=sl1_stream:9", script
    )
    assert slurm.job(f"{int(done.stdout)}+1")["Licenses"] == NO_LICENSES


@pytest.mark.parametrize("mode", ["observe", "advise", "enforce"])
def test_tokens_that_users_write_are_taken_off_in_every_mode(
    slurm: PrivateSlurm, files: PluginFiles, mode: str
) -> None:
    """Else one job could keep all others waiting from the moment in which enforce begins."""
    files.configure(Mode=mode)
    files.wait_for(lambda seen: seen["mode"] == mode)
    job = nobodys(slurm, "--hold", "--licenses=tool:2,sl0_stream:1000000")
    assert slurm.job(job)["Licenses"] == "tool:2"
    update(slurm, job, "licenses=tool:3,sl1_stream:1000000")
    assert slurm.job(job)["Licenses"] == "tool:3"
    greedy = nobodys(slurm, "--licenses=sl0_stream:1000000")
    slurm.wait_for_job(greedy, "RUNNING")
    assert used(slurm, "sl0_stream") == 0


def test_tokens_that_are_not_defined_stay_slurms_own_matter_in_observe(
    slurm: PrivateSlurm, files: PluginFiles
) -> None:
    """A site's own small licence of that name is granted; an unknown one refused as ever."""
    files.configure(Mode="observe")
    files.wait_for(lambda seen: seen["mode"] == "observe")
    with licenses_are(slurm, OWN_LICENSES + ",sl0_stream:5"):
        assert held(slurm, "--licenses=sl0_stream:2")["Licenses"] == "sl0_stream:2"
        done = slurm.run("sbatch", "--wrap=true", "--licenses=sl1_stream", check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert "Invalid license specification" in done.stderr


def test_tokens_written_while_switched_off_do_not_count_afterwards(
    slurm: PrivateSlurm, files: PluginFiles
) -> None:
    switched_off(files)
    try:
        assert held(slurm, WRITER, "--licenses=tool,sl0_stream:9")["Licenses"] == "tool"
        assert held(slurm, WRITER)["Licenses"] == NO_LICENSES
    finally:
        files.off_file.unlink()


@pytest.mark.parametrize("written", ["none_such", "tool:9999", "tool:x", "tool|other", "x" * 1025])
def test_what_slurm_refuses_it_refuses_in_the_same_words(slurm: PrivateSlurm, written: str) -> None:
    plain = slurm.run("sbatch", "--hold", "--wrap=true", f"--licenses={written}", check=False)
    guarded = slurm.run(
        "sbatch", "--hold", "--wrap=true", f"--licenses={written}", WRITER, check=False
    )
    if "|" in written and slurm_version() >= ALTERNATIVES:
        assert plain.returncode == guarded.returncode == 0
        assert slurm.job(guarded.stdout.split()[-1])["Licenses"] == written
        return
    assert plain.returncode == guarded.returncode != 0
    assert plain.stderr == guarded.stderr


# Submission: fail open


LONG = ",".join(["tool:1"] * 143)  # 1,000 bytes


@contextmanager
def licenses_are(slurm: PrivateSlurm, line: str, pause: float = 0.0) -> Iterator[None]:
    """Edit slurm.conf, reconfigure so many seconds later, and take it back in the end."""
    slurm.settings["Licenses"] = line
    slurm.write_config()
    time.sleep(pause)
    reconfigure(slurm)
    try:
        yield
    finally:
        slurm.settings["Licenses"] = licenses_line()
        slurm.write_config()
        reconfigure(slurm)


def reconfigure(slurm: PrivateSlurm) -> None:
    """As the administrator does, until the plugin in the slurmctld of now has read its files."""
    slurm.reconfigure()
    files = PluginFiles(Path(slurm.controller_environment["SLUICE_CONF"]).parent)
    files.wait_for(
        lambda seen: (
            seen["pid"] == slurm.controller_pid()
            and seen["bundle"]["loaded"]
            and seen["snapshot"]["loaded"]
        )
    )


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(OWN_LICENSES, id="undefined"),
        pytest.param(licenses_line(total=0), id="zero"),
        pytest.param(licenses_line(total=99_999), id="too small"),
        pytest.param(licenses_line(tokens=TOKENS[:3]), id="one lane missing"),
        pytest.param(licenses_line(tokens=("sl0_flush", "sl1_flush")), id="class missing"),
    ],
)
def test_lanes_that_slurm_conf_does_not_define_cost_nobody_a_job(
    slurm: PrivateSlurm, files: PluginFiles, line: str
) -> None:
    with licenses_are(slurm, line):
        assert held(slurm, WRITER, "--licenses=tool:2")["Licenses"] == "tool:2"
        job = slurm.submit(WRITER, "--wrap=true")
        slurm.wait_for_job(job, "RUNNING", "COMPLETED")
        first, second = records(files)
    assert first.grant.outcome == second.grant.outcome == "undefined"
    assert min(first.grant.totals[:2]) < 100_000


def test_a_lane_may_come_and_go_between_submissions(
    slurm: PrivateSlurm, files: PluginFiles
) -> None:
    outcomes = []
    for line in (OWN_LICENSES, licenses_line(), OWN_LICENSES, licenses_line()):
        with licenses_are(slurm, line):
            slurm.submit(WRITER, "--wrap=true")
            outcomes += [record.grant.outcome for record in records(files)]
            clear(slurm)
    assert outcomes == ["undefined", "taken"] * 2


def test_no_token_is_given_that_slurm_conf_is_about_to_lose(
    slurm: PrivateSlurm, files: PluginFiles
) -> None:
    """It counts from the change of the file, before the controller knows of it."""
    lines = {OWN_LICENSES: "undefined", licenses_line(): "taken", licenses_line(5): "undefined"}
    for line, outcome in [*lines.items(), (licenses_line(), "taken")]:
        slurm.settings["Licenses"] = line
        slurm.write_config()
        time.sleep(0.5)
        shown = held(slurm, WRITER)["Licenses"]
        [record] = records(files)
        assert record.grant.outcome == outcome
        assert (shown == NO_LICENSES) == (outcome == "undefined")


@pytest.mark.acceptance
def test_no_submission_under_way_is_refused_while_lanes_come_and_go(
    slurm: PrivateSlurm, files: PluginFiles, bulk_submit: Path
) -> None:
    """Slurm looks at a job's licences again, behind the plugin and another lock.

    Who edits slurm.conf and reconfigures a second later loses nobody a job.
    """
    files.configure(Mode="enforce")
    before = files.stats()["grants"]
    environment = slurm.client_environment()
    refused: list[str] = []
    for _ in range(ROUNDS):
        clients = [
            subprocess.Popen(
                [bulk_submit, str(JOBS), made_model.STREAM_JOB],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=PIPE,
            )
            for _ in range(CLIENTS)
        ]
        while any(client.poll() is None for client in clients):
            with licenses_are(slurm, OWN_LICENSES, pause=1.0):
                time.sleep(0.1)
            time.sleep(0.5)
            publish(files, made_model.snapshot())
        refused += [said for client in clients if "icense" in (said := complaint_of(client))]
        clear(slurm)
    grants = files.stats()["grants"]
    submitted = sum(grants.values()) - sum(before.values())
    taken = grants["taken"] - before["taken"]
    print(f"{submitted} submissions, {taken} took tokens, {len(refused)} refused")
    assert taken > submitted / 10
    assert not refused


def complaint_of(client: subprocess.Popen[bytes]) -> str:
    """Why it ended early: Slurm also drops connections while it reconfigures."""
    return client.communicate()[1].decode()


@pytest.mark.parametrize(
    ("length", "outcome"), [(1000, "taken"), (1001, "taken"), (1002, None), (1024, None)]
)
def test_long_licences_leave_no_room_and_stay(
    slurm: PrivateSlurm, files: PluginFiles, length: int, outcome: str | None
) -> None:
    written = LONG.ljust(length, ",")
    shown = held(slurm, WRITER, f"--licenses={written}")["Licenses"]
    [record] = records(files)
    if outcome:
        assert (record.grant.outcome, shown) == (outcome, f"{written},sl0_stream,sl1_stream")
    else:
        assert (record.decision.reason, shown) == ("exempt_licenses", written)


def missing_bundle(files: PluginFiles) -> None:
    files.bundle.unlink()
    files.wait_for(lambda seen: not seen["bundle"]["loaded"])


def daemon_never_started(files: PluginFiles) -> None:
    files.snapshot.unlink()
    files.wait_for(lambda seen: not seen["snapshot"]["loaded"])


def daemon_dead(files: PluginFiles) -> None:
    publish(files, made_model.snapshot(age=100))


def switched_off(files: PluginFiles) -> None:
    files.off_file.touch()
    files.wait_for(lambda seen: seen["mode"] == "off")


def configuration_gone(files: PluginFiles) -> None:
    files.config.unlink()
    files.wait_for(lambda seen: seen["mode"] == "off")


@pytest.mark.parametrize(
    "situation",
    [missing_bundle, daemon_never_started, daemon_dead, switched_off, configuration_gone],
)
def test_without_all_that_belongs_to_a_decision_there_is_no_token(
    slurm: PrivateSlurm, files: PluginFiles, situation
) -> None:
    situation(files)
    try:
        assert held(slurm, WRITER, "--licenses=tool:2;other")["Licenses"] == "tool:2;other"
        slurm.wait_for_job(slurm.submit(WRITER, "--wrap=true"), "RUNNING", "COMPLETED")
    finally:
        files.off_file.unlink(missing_ok=True)


@pytest.mark.parametrize("situation", [missing_bundle, daemon_dead])
def test_written_tokens_are_taken_off_while_parts_of_sluice_are_down(
    slurm: PrivateSlurm, files: PluginFiles, situation
) -> None:
    """Else a job could hold a lane for long after."""
    situation(files)
    assert held(slurm, "--licenses=tool,sl0_stream:500")["Licenses"] == "tool"


# The gate itself


def test_slurm_makes_jobs_wait_at_a_closed_gate_and_lets_them_go(slurm: PrivateSlurm) -> None:
    """A capacity lease leaves one token of lane 1; deleting it opens the gate."""
    slurm.run(
        "scontrol", "create", "reservation", "reservationname=gate", "starttime=now", "duration=5",
        "users=root", "licenses=sl1_stream:999999", "flags=license_only,ignore_jobs",
    )  # fmt: skip
    first = slurm.submit(WRITER, "--wrap=sleep 100")
    slurm.wait_for_job(first, "RUNNING")
    second = slurm.submit(WRITER, "--wrap=true")
    other = slurm.submit("--job-name=bystander", "--wrap=true")
    slurm.wait_for_job(other, "RUNNING", "COMPLETED")
    deadline = time.monotonic() + 30
    while (waiting := slurm.job(second))["Reason"] == "None" and time.monotonic() < deadline:
        time.sleep(0.1)  # Slurm has not looked at it yet
    slurm.run("scontrol", "delete", "reservationname=gate")
    assert (waiting["JobState"], waiting["Reason"]) == ("PENDING", "Licenses")
    slurm.wait_for_job(second, "RUNNING", "COMPLETED")
    assert slurm.job(first)["JobState"] == "RUNNING"


# Modification


def test_an_administrators_changes_are_left_alone(slurm: PrivateSlurm, files: PluginFiles) -> None:
    before = files.stats()
    job = nobodys(slurm, "--hold")
    for licenses in ("sl0_stream:7,tool", "sl1_flush", "tool"):
        slurm.run("scontrol", "update", f"jobid={job}", f"licenses={licenses}")
        assert slurm.job(job)["Licenses"] == licenses
    slurm.run("scontrol", "update", f"jobid={job}", "licenses=", "timelimit=5")
    assert slurm.job(job)["Licenses"] in ("", NO_LICENSES)
    after = files.stats()
    assert after["modifications"] > before["modifications"]
    assert (after["stripped"], after["opt_outs"]) == (before["stripped"], before["opt_outs"])


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("sl0_stream", "tool:2"),  # nothing else was wished for: nothing is changed
        ("sl0_stream:999999,sl1_meta", "tool:2"),
        ("tool:3,sl0_stream:5", "tool:3"),
        ("sl0_stream,other;sl1_flush", "other"),
        ("other", "other"),
    ],
)
def test_a_user_cannot_add_tokens_to_his_job(
    slurm: PrivateSlurm, files: PluginFiles, written: str, kept: str
) -> None:
    before = files.stats()
    job = nobodys(slurm, "--hold", "--licenses=tool:2")
    update(slurm, job, f"licenses={written}")
    assert slurm.job(job)["Licenses"] == kept
    after = files.stats()
    assert after["stripped"] - before["stripped"] == ("sl" in written)
    assert after["opt_outs"] == before["opt_outs"]


def snapshot_with_tokens_of(job: int) -> bytes:
    return made_model.snapshot(holders=[{"job_id": job, "klass": "stream", "lane_mask": 3}])


@pytest.mark.parametrize(
    ("written", "kept", "opt_outs"),
    [
        ("tool:3,sl0_stream,sl1_stream", "tool:3,sl0_stream,sl1_stream", 0),
        ("sl1_stream:1;sl0_stream", "sl1_stream:1;sl0_stream", 0),
        ("sl0_stream:9,sl1_stream:9", "sl0_stream,sl1_stream", 0),
        ("sl0_stream,sl1_stream,sl0_flush", "sl0_stream,sl1_stream", 0),
        ("sl0_flush", "sl0_stream,sl1_stream", 0),  # a wish for others changes nothing
        ("tool:3", "tool:3", 1),
        ("sl0_stream", "sl0_stream", 1),
        ("", "", 1),
    ],
)
def test_a_user_may_keep_or_drop_what_sluice_gave_his_job(
    slurm: PrivateSlurm, files: PluginFiles, written: str, kept: str, opt_outs: int
) -> None:
    job = nobodys(slurm, "--hold", WRITER)
    assert slurm.job(job)["Licenses"] == "sl0_stream,sl1_stream"
    publish(files, snapshot_with_tokens_of(job))
    before = files.stats()["opt_outs"]["update"]
    update(slurm, job, f"licenses={written}")
    shown = slurm.job(job)["Licenses"]
    assert ("" if shown == NO_LICENSES else shown) == kept
    assert files.stats()["opt_outs"]["update"] - before == opt_outs


def test_a_user_who_drops_the_token_starts_at_a_closed_gate(
    slurm: PrivateSlurm, files: PluginFiles
) -> None:
    slurm.run(
        "scontrol", "create", "reservation", "reservationname=gate", "starttime=now", "duration=5",
        "users=root", "licenses=sl1_stream:1000000", "flags=license_only,ignore_jobs",
    )  # fmt: skip
    job = nobodys(slurm, WRITER)
    publish(files, snapshot_with_tokens_of(job))
    update(slurm, job, "licenses=")
    slurm.wait_for_job(job, "RUNNING")
    slurm.run("scontrol", "delete", "reservationname=gate")


def test_an_array_is_changed_as_a_whole(slurm: PrivateSlurm, files: PluginFiles) -> None:
    job = nobodys(slurm, "--hold", WRITER, "--array=1-5")
    publish(files, snapshot_with_tokens_of(job))
    update(slurm, job, "licenses=tool,sl0_stream,sl1_stream:4")
    assert slurm.job(job)["Licenses"] == "tool,sl0_stream,sl1_stream"
    update(slurm, f"{job}_2", "licenses=sl0_stream,sl1_stream,sl1_flush:3")
    assert slurm.job(f"{job}_2")["Licenses"] == "sl0_stream,sl1_stream"


def test_a_running_job_keeps_its_licences_when_its_user_wishes_for_tokens(
    slurm: PrivateSlurm, files: PluginFiles
) -> None:
    job = nobodys(slurm, "--licenses=tool:2", WRITER)
    slurm.wait_for_job(job, "RUNNING")
    update(slurm, job, "licenses=sl0_stream:50")
    assert slurm.job(job)["Licenses"] == "tool:2,sl0_stream,sl1_stream"
    assert used(slurm, "sl0_stream") == 1
    # Slurm lets a user remove all licences of a running job, and no others
    publish(files, snapshot_with_tokens_of(job))
    denied = as_nobody(slurm, "scontrol", "update", f"jobid={job}", "licenses=tool:2")
    assert denied.returncode != 0
    update(slurm, job, "licenses=")
    assert used(slurm, "sl0_stream") == 0


def test_everything_else_users_change_goes_through(slurm: PrivateSlurm) -> None:
    job = nobodys(slurm, "--hold", WRITER, "--time=10")
    for change in ("timelimit=5", "comment=mine", "name=other", "nice=5"):
        update(slurm, job, change)
    assert as_nobody(slurm, "scontrol", "release", str(job)).returncode == 0
    assert as_nobody(slurm, "scontrol", "hold", str(job)).returncode == 0
    shown = slurm.job(job)
    assert (shown["TimeLimit"], shown["JobName"]) == ("00:05:00", "other")
    assert shown["Licenses"] == "sl0_stream,sl1_stream"


# What operators see


def diagnose(slurm: PrivateSlurm, files: PluginFiles) -> list[dict[str, str]]:
    """What `sluice doctor` says of the tokens."""
    program = Path(sys.executable).with_name("sluice")
    environment = {"SLUICE_CONF": str(files.config)}
    done = slurm.run(program, "doctor", "--json", check=False, environment=environment)
    return [found for found in json.loads(done.stdout)["findings"] if found["topic"] == "tokens"]


def test_the_doctor_shows_grants_and_opt_outs(slurm: PrivateSlurm, files: PluginFiles) -> None:
    held(slurm, WRITER)
    lanes, counts = diagnose(slurm, files)
    assert (lanes["level"], lanes["text"]) == ("OK", "slurm.conf defines all 6")
    seen = files.stats()
    assert f"{seen['grants']['taken']} jobs took tokens" in counts["text"]
    assert f"{seen['opt_outs']['update']} by scontrol update" in counts["text"]


def test_the_doctor_names_the_tokens_that_slurm_conf_lacks(
    slurm: PrivateSlurm, files: PluginFiles
) -> None:
    with licenses_are(slurm, licenses_line(tokens=TOKENS[:5])):
        [missing, _] = diagnose(slurm, files)
    assert missing["level"] == "WARN"
    assert missing["remedy"] == f"Licenses={TOKENS[5]}:1000000"
