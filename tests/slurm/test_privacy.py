"""Who sees whose jobs: Slurm's PrivateData holds for every command of Sluice."""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec

import made_model
import numpy as np
import pytest
from plugin_harness import PluginFiles, drain, install
from private_slurm import PrivateSlurm
from sluiced import PATIENCE, Sluiced, wait_for

from sluice.serve.site import Site
from sluice.slurm.slurm_commands import parse_controller, parse_users
from sluice.slurm.visibility import viewer

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users"),
]

ANN, BOB = 65534, 5  # uids that every Debian has
NAME = "bobs_program"
PRIVATE = "jobs,reservations"
SOON = 25.0
"""Seconds: a poll, and much patience where many tests share two cores."""
LICENSES = ",".join(f"all_{klass}:1000000" for klass in ("stream", "flush", "meta"))


@pytest.fixture(scope="module")
def slurm(guarded_slurm) -> Iterator[PrivateSlurm]:
    settings = {"Licenses": LICENSES, "PrivateData": PRIVATE}
    with guarded_slurm("privacy", settings) as slurm:
        yield slurm


@pytest.fixture
def sluiced(slurm: PrivateSlurm, files: PluginFiles) -> Iterator[Sluiced]:
    for leftover in files.directory.iterdir():
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    heavy = made_model.profile(np.random.default_rng(1), "aw")
    content = made_model.bundle_of_names({NAME: heavy}, "", created=int(time.time()))
    install(files.bundle, content)
    files.bundle.chmod(0o640)
    files.configure(Mode="enforce", FollowInterval=100)
    daemon = Sluiced(slurm, files).start()
    files.wait_for(lambda seen: seen["mode"] == "enforce")
    daemon.wait_until_followed()
    drain(files.socket)
    yield daemon
    for uid in (ANN, BOB):
        slurm.run("scancel", f"--user={uid}", check=False)
    wait_for(lambda: not slurm.run("squeue", "--noheader").stdout)
    if daemon.process.poll() is None:
        daemon.stop()


def as_user(uid: int) -> tuple[str, ...]:
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")


def submit(slurm: PrivateSlurm, uid: int, name: str, *options: str) -> int:
    words = ("sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp", "-J", name, *options)
    return int(slurm.run(*as_user(uid), *words, "--wrap=sleep 600").stdout)


def sluice(daemon: Sluiced, uid: int, *words: str) -> subprocess.CompletedProcess[str]:
    return daemon.run(*words, wrapper=("env", "--chdir=/", *as_user(uid)))


def asked(daemon: Sluiced, uid: int, *words: str):
    done = sluice(daemon, uid, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_users_see_their_own_jobs_and_root_sees_all(sluiced, slurm):
    bobs = submit(slurm, BOB, NAME)
    wait_for(lambda: bobs in {row.job_id for row in sluiced.snapshot().corunners()})
    sluiced.wait_until_loaded()
    anns = submit(slurm, ANN, NAME)  # she knows the name, not that this user has such a job
    sluiced.wait_until_joined(bobs, anns)

    assert [row["job_id"] for row in asked(sluiced, ANN, "decisions")["decisions"]] == [anns]
    assert [row["job_id"] for row in asked(sluiced, BOB, "decisions")["decisions"]] == [bobs]
    assert {bobs, anns} <= {row["job_id"] for row in asked(sluiced, 0, "decisions")["decisions"]}
    own = ("decisions", "--user", str(ANN), "--since", "1d")
    assert [row["job_id"] for row in asked(sluiced, ANN, *own)["decisions"]] == [anns]
    assert asked(sluiced, BOB, *own)["decisions"] == []

    done = sluice(sluiced, ANN, "why", str(bobs))
    assert done.returncode == 1
    assert f"no job {bobs} is known of yours" in done.stderr
    story = asked(sluiced, ANN, "why", str(anns))
    assert story["job"]["uid"] == ANN
    assert story["coverage"] is None
    assert asked(sluiced, 0, "why", str(bobs))["job"]["name"] == NAME
    words = sluice(sluiced, ANN, "why", str(anns)).stdout
    assert f"Job {anns} {NAME} of nobody" in words

    [met] = asked(sluiced, 0, "why", str(anns))["record"]["decision"]["coruns"]
    assert met["job_id"] == bobs
    [met] = story["record"]["decision"]["coruns"]
    assert (met["job_id"], met["nodes"]) == (None, None)
    assert "Another user's job: together for" in words

    scored = asked(sluiced, ANN, "model", "score")
    assert (scored["coverage"], scored["all"]["jobs"]) == (None, 0)


def test_answers_and_pages_follow_private_data_within_a_poll(sluiced, slurm):
    """And not with what is asked of the controller once a minute."""
    bobs = submit(slurm, BOB, NAME)
    sluiced.wait_until_joined(bobs)
    pages = Site(sluiced.files.config, None)
    for private_data, told in [("usage", [bobs]), (PRIVATE, [])]:
        slurm.settings["PrivateData"] = private_data
        slurm.write_config()
        slurm.reconfigure()
        deadline = time.monotonic() + SOON
        while told != [
            row["job_id"] for row in asked(sluiced, ANN, "decisions")["decisions"]
        ] or pages.privacy.viewer(ANN).sees_all != bool(told):
            assert time.monotonic() < deadline
        done = sluice(sluiced, ANN, "why", str(bobs))
        assert (done.returncode, NAME in done.stdout) == ((0, True) if told else (1, False))


def test_users_predict_for_themselves_alone(sluiced):
    sluiced.wait_for_snapshots()
    assert asked(sluiced, ANN, "predict", "-J", NAME)["best_guess"] == "aw"
    done = sluice(sluiced, ANN, "predict", "-J", NAME, "--user", str(BOB))
    assert done.returncode == 1
    assert "jobs of your own" in done.stderr


def test_the_gates_balance_for_those_who_see_a_part(sluiced, slurm):
    """Slurm shows her neither these jobs nor the leases: no alarm, with sluiced or without."""
    slurm.wait_for_job(submit(slurm, BOB, NAME), "RUNNING")
    wait_for(lambda: asked(sluiced, 0, "gates")["gates"][0]["held"] == 1)
    facts = asked(sluiced, ANN, "gates")
    assert (facts["differences"], facts["hidden"]) == ([], [])
    assert facts["gates"][0]["held"] == 1
    assert facts["gates"][0]["gate"] is not None

    findings = asked(sluiced, ANN, "doctor")["findings"]
    assert {row["level"] for row in findings} <= {"OK", "SKIP"}, findings
    skipped = {row["topic"] for row in findings if row["level"] == "SKIP"}
    assert {"gates", "history", "bundle", "snapshot", "plugin"} <= skipped

    sluiced.stop()
    facts = asked(sluiced, ANN, "gates")
    assert (facts["differences"], facts["hidden"]) == ([], ["jobs", "reservations"])
    words = sluice(sluiced, ANN, "gates").stdout
    assert "Slurm hides jobs and reservations of others from you" in words
    assert "open" not in words.replace("all gates are open", "")


def test_what_users_cannot_be_told_says_so(sluiced, slurm):
    anns = submit(slurm, ANN, "mine")
    sluiced.wait_until_joined(anns)
    done = sluice(sluiced, ANN, "why", str(anns), "--replay")
    assert done.returncode == 1
    assert "readable only for its owner and the service group" in done.stderr
    commands = [
        ["history"],
        ["history", "top", "writers"],
        ["site", "targets"],
        ["model", "list"],
        ["model", "publish"],
        ["audit"],
        ["review", "list", "--all"],
        ["review", "show", "1"],
        ["review", "reject", str(anns)],
        ["review", "undo", "1"],
    ]
    if find_spec("darshan"):  # not in the roots of other Slurm versions
        commands.append(["model", "train"])
    for words in commands:
        done = sluice(sluiced, ANN, *words)
        assert done.returncode == 1, words
        assert "and the service group" in done.stderr, words
    sluiced.stop()
    done = sluice(sluiced, ANN, "decisions")
    assert done.returncode == 1
    assert "is sluiced running?" in done.stderr


def test_who_may_not_switch_sluice_off_is_told_so_at_each_step(sluiced):
    """And not that all gates are open, because Slurm does not show her any lease."""
    sluiced.files.config.chmod(0o600)
    done = sluice(sluiced, ANN, "off")
    assert done.returncode == 1
    assert "sluice.conf: Permission denied; going on with" in done.stderr
    assert "so Sluice stays on" in done.stderr
    assert "does not show the leases to this user" in done.stderr
    assert "All gates are open" not in done.stdout


def test_nobody_else_reads_the_files(sluiced):
    sluiced.wait_for_snapshots(3)
    assert sluice(sluiced, 0, "off").returncode == 0
    files = [path for path in sluiced.files.directory.iterdir() if path.is_file()]
    modes = {path.name: path.stat().st_mode & 0o777 for path in files}
    # the site's own, and sums without names, for Prometheus
    for name in ("sluice.conf", "sluiced.log", "cluster.snapshot.prom"):
        modes.pop(name)
    assert {"history.db", "history.db-wal", "cluster.snapshot", "off"} <= modes.keys()
    assert set(modes.values()) <= {0o640, 0o600}, modes
    assert modes["history.db"] == modes["cluster.snapshot"] == 0o640


def test_modes_that_let_others_read_are_found_and_repaired(sluiced):
    sluiced.wait_for_snapshots()
    directory = sluiced.files.directory
    wrong = [directory / "history.db", directory / "model.bundle"]
    for path in wrong:
        path.chmod(0o644)
    [found] = [row for row in asked_of_the_doctor(sluiced) if row["topic"] == "files"]
    assert found["level"] == "WARN"
    for path in wrong:
        assert f"{path}: mode 644" in found["text"]
    assert "restart sluiced" in found["remedy"]
    sluiced.stop()
    sluiced.start()
    wait_for(lambda: {path.stat().st_mode & 0o777 for path in wrong} == {0o640})
    sluiced.wait_for_snapshots()
    [found] = [row for row in asked_of_the_doctor(sluiced) if row["topic"] == "files"]
    assert found["level"] == "OK"


def asked_of_the_doctor(daemon: Sluiced):
    return json.loads(sluice(daemon, 0, "doctor", "--json").stdout)["findings"]


REFUSED = {
    b"\xff\xfe\n": "in JSON",
    b"[]\n": "in JSON",
    b"[" * 100_000 + b"\n": "in JSON",
    b'{"command": "why"}\n': "in JSON",
    b"x" * 300_000: "one line of at most",
    b"": "one line of at most",
    b'{"command": "drop", "arguments": {}}\n': "does not answer this",
    b'{"command": "why", "arguments": {"job": 3}}\n': "job is a text",
    b'{"command": "why", "arguments": {"job": "x"}}\n': "no job number",
    b'{"command": "why", "arguments": {"job": "99999999999999999999999"}}\n': "such a",
    b'{"command": "decisions", "arguments": {"limit": -1}}\n': "limit is a number",
    b'{"command": "decisions", "arguments": {"limit": 1, "users": "ann"}}\n': "users is a list",
    b'{"command": "predict", "arguments": {}}\n': "a job is described by",
    b'{"command": "predict", "arguments": {"request": {"flags": 1}}}\n': "a job is described by",
    b'{"command": "predict", "arguments": {"request": {"uid": 4294967296}}}\n': "uid is a number",
    b'{"command": "predict", "arguments": {"request": {"name": "a\\u0000"}}}\n': "name is a text",
}


def test_nothing_that_a_client_says_or_leaves_unsaid_disturbs_sluiced(sluiced):
    sluiced.wait_for_snapshots(3)
    path = sluiced.files.directory / "sluiced.sock"
    for request, says in REFUSED.items():
        answer = ask(path, request)
        if answer or len(request) < 1000:
            assert says in answer.get("error", ""), (request[:80], answer)
    silent = [connect(path) for _ in range(2)]
    assert "answer" not in ask(path, b'{"command": "gates", "arguments": {}}\n')
    assert sluice(sluiced, ANN, "decisions").returncode == 0  # places of one user are two
    for client in silent:
        client.close()
    sluiced.wait_for_snapshots(3)
    assert "Traceback" not in sluiced.log.read_text()


def connect(path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(PATIENCE)
    client.connect(str(path))
    return client


def ask(path, request: bytes) -> dict[str, str]:
    """Return the answer, or none, where it hung up before it had heard all of that."""
    with connect(path) as client:
        answer = bytearray()
        with suppress(ConnectionError):
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            while part := client.recv(1 << 16):
                answer += part
        return json.loads(answer) if answer else {}


def test_operators_see_all_by_the_accounting():
    """As `scontrol show assoc_mgr flags=users` printed it on 22.05."""
    users = parse_users(
        "UserName=root(0) DefAccount=root DefWckey= AdminLevel=Administrator\n"
        "UserName=eve(7) DefAccount=a DefWckey= AdminLevel=Operator\n"
        "UserName=ann(8) DefAccount=a DefWckey= AdminLevel=None\n",
        {},
    )
    controller = parse_controller("SlurmUser = slurm(64030)\nPrivateData = jobs,usage\n")
    assert controller.private_data == ("jobs", "usage")
    sees_all = {uid: viewer(uid, controller, users).sees_all for uid in (0, 7, 8, 9, 64030)}
    assert sees_all == {0: True, 7: True, 8: False, 9: False, 64030: True}
    assert viewer(8, controller, users).sees(8)
    assert not viewer(8, controller, users).sees(7)
    assert not viewer(8, controller, users).sees(None)
    open_site = parse_controller("PrivateData = none\n")
    assert viewer(9, open_site, users).sees(7)
