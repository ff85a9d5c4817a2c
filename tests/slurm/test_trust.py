"""Modes of some jobs on a real slurmctld: who waits for tokens, and who does not."""

import json
from collections import Counter
from collections.abc import Iterator

import pytest
from gated import (
    LONG,
    STREAM,
    TOKENS,
    configure,
    gates,
    leases,
    licenses,
    running,
    submit,
    waits,
)
from plugin_harness import PluginFiles, drain
from private_slurm import PrivateSlurm
from sluiced import Sluiced, wait_for

from sluice.cli.report import EXIT_CODES
from sluice.history_db.records import Bundle as StoredBundle
from sluice.history_db.store import Store
from sluice.policies.bundle import Bundle
from sluice.policies.record import Record

pytestmark = pytest.mark.slurm

PARTITIONS = {"main": "Default=YES", "trial": ""}
# Sharing costs more than waiting, so nobody is released to share.
WAITING_IS_FREE = "WaitPrice=0\nMinSaving=0\n"
DRAWN = 24  # jobs: that no lot of a half, or each, leaves one alone has a chance of 2 ** -23
VERDICTS = EXIT_CODES.values()
TRIAL = {"Mode": "observe", "ModeOf": "enforce Partitions=trial"}


@pytest.fixture(scope="module")
def slurm(guarded_slurm) -> Iterator[PrivateSlurm]:
    with guarded_slurm("trust", {"Licenses": licenses()}, nodes=4, partitions=PARTITIONS) as slurm:
        yield slurm


@pytest.fixture
def sluiced(slurm: PrivateSlurm, files: PluginFiles) -> Iterator[Sluiced]:
    """Enforces in one partition alone, and all of its gates are closed."""
    for leftover in files.directory.iterdir():
        leftover.unlink()
    daemon = Sluiced(slurm, files)
    configure(daemon, WAITING_IS_FREE, **TRIAL)
    daemon.start()
    files.wait_for(lambda seen: seen["furthest_mode"] == "enforce" and seen["bundle"]["loaded"])
    daemon.wait_until_followed()
    wait_for(lambda: set(leases(slurm)) == set(TOKENS))
    drain(files.socket)
    yield daemon
    slurm.run("scancel", "--quiet", "--user=root", check=False)
    wait_for(lambda: not slurm.run("squeue", "--noheader").stdout)
    assert daemon.stop() == 0
    assert not leases(slurm)


def releases(daemon: Sluiced) -> dict[int, str]:
    with Store(daemon.history, read_only=True) as store:
        return {row.job_id: row.reason for row in store.gates.releases()}


def holder_and_waiter(slurm: PrivateSlurm) -> tuple[int, int]:
    holder = submit(slurm, "heavy", "--partition=trial", LONG)
    running(slurm, holder)
    waiter = submit(slurm, "heavy", "--partition=trial", LONG)
    waits(slurm, waiter)
    return holder, waiter


def test_jobs_wait_in_the_partition_that_is_enforced_and_nowhere_else(sluiced, slurm):
    _, waiter = holder_and_waiter(slurm)
    others = [submit(slurm, "heavy", LONG), submit(slurm, "heavy", "-p", "main,trial", LONG)]
    running(slurm, *others)
    for job in others:
        assert slurm.job(job)["Licenses"] in {"", "(null)"}
    told = wait_for(lambda: sluiced.run("why", str(waiter)).stdout)
    assert "Mode was enforce by rule 1 of ModeOf, for its partition" in told
    wait_for(lambda: "Mode was observe: the job was not touched" in
             sluiced.run("why", str(others[0])).stdout)  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("Accounts=phys", ["--account=phys"]),
        ("Qos=bulk", ["--qos=bulk"]),
        ("Qos=bulk Accounts=phys", ["--qos=bulk", "--account=phys"]),
    ],
)
def test_jobs_of_one_rule_wait_and_no_others(sluiced, slurm, rule, words):
    # the rule before it enforces, too: only after a moment without any is this one in force
    for settings, mode in (({}, "observe"), ({"ModeOf": f"enforce {rule}"}, "enforce")):
        configure(sluiced, WAITING_IS_FREE, Mode="observe", **settings)
        sluiced.files.wait_for(lambda seen, mode=mode: seen["furthest_mode"] == mode)
    wait_for(lambda: set(leases(slurm)) == set(TOKENS))
    running(slurm, submit(slurm, "heavy", *words, LONG))
    other = submit(slurm, "heavy", *words[1:], LONG)
    waiter = submit(slurm, "heavy", *words, LONG)
    waits(slurm, waiter)
    running(slurm, other)
    told = wait_for(lambda: sluiced.run("why", str(waiter)).stdout)
    assert "Mode was enforce by rule 1 of ModeOf" in told


def test_status_gates_and_doctor_raise_no_alarm_where_some_jobs_are_enforced(sluiced, slurm):
    holder_and_waiter(slurm)
    running(slurm, submit(slurm, "heavy", LONG))
    found = wait_for(lambda: not sluiced.diagnose("gates", "tokens", "reservations") or None)
    assert found
    facts = gates(sluiced)
    assert (facts["mode"], facts["furthest_mode"]) == ("observe", "enforce")
    assert facts["gates"][STREAM]["gate"] is not None
    assert not facts["differences"]
    assert "enforce for the jobs that ModeOf names" in sluiced.command("gates")
    assert any("observe, for some enforce" in row["text"] for row in sluiced.findings())


def test_a_step_down_releases_the_jobs_that_it_concerns(sluiced, slurm):
    _, waiter = holder_and_waiter(slurm)
    stuck = submit(slurm, "heavy", "--partition=trial", "-N4", "--exclusive", LONG)
    wait_for(lambda: slurm.job(stuck)["Licenses"] == STREAM)
    configure(sluiced, WAITING_IS_FREE, Mode="enforce", ModeOf="advise Partitions=trial")
    running(slurm, waiter)
    wait_for(lambda: releases(sluiced).get(waiter) == releases(sluiced).get(stuck) == "mode")
    assert set(leases(slurm)) == set(TOKENS)


# The holdout


def test_the_lot_leaves_jobs_alone_and_history_why_and_report_show_it(sluiced, slurm):
    policy = f"{WAITING_IS_FREE}Holdout=0.5\n"
    configure(sluiced, policy, Mode="enforce")
    loaded = Bundle.read(sluiced.files.bundle)
    sluiced.files.wait_for(lambda seen: seen["bundle"]["checksum"] == f"{loaded.checksum:016x}")
    drain(sluiced.files.socket)  # what was decided by another bundle
    holder = submit(slurm, "heavy", "--hold", LONG)
    content = sluiced.files.bundle.read_bytes()
    with Store(sluiced.history) as store:
        store.models.add_model(b"", {}, [], created=loaded.created)
        store.models.add_bundle(
            StoredBundle(loaded.checksum, 1, str(sluiced.files.bundle), loaded.created, content)
        )
    jobs = [
        holder,
        *(submit(slurm, "heavy", "--hold", f"--comment={i}", LONG) for i in range(1, DRAWN)),
    ]
    sluiced.wait_until_joined(*jobs)
    grants = {job: grant_of(sluiced, job) for job in jobs}
    assert set(grants.values()) == {"held_out", "taken"}
    for job, grant in grants.items():
        licences = slurm.job(job)["Licenses"]
        assert (licences == STREAM) == (grant == "taken"), (job, grant, licences)

    alone = [job for job, grant in grants.items() if grant == "held_out"]
    acted_on = [job for job, grant in grants.items() if grant == "taken"]
    slurm.run("scontrol", "release", str(acted_on[0]))
    running(slurm, acted_on[0])
    slurm.run("scontrol", "release", ",".join(map(str, (acted_on[1], alone[0]))))
    running(slurm, alone[0])
    waits(slurm, acted_on[1])
    assert "drawn for the holdout, so it is left alone" in sluiced.command("why", str(alone[0]))
    assert "holdout" not in sluiced.command("why", str(acted_on[1]))

    done = sluiced.run("report", "--no-levers", "--json")
    assert done.returncode in VERDICTS, done.stderr
    told = json.loads(done.stdout)
    assert told["decisions"]["grants"] == dict(Counter(grants.values()))
    found = told["holdout"]
    assert (found["share"], found["drawn"], found["held_out"]) == (0.5, DRAWN, len(alone))
    said = f"{len(alone)} of {DRAWN}"
    assert said in sluiced.run("report", "--no-levers").stdout


def grant_of(daemon: Sluiced, job: int) -> str:
    with Store(daemon.history, read_only=True) as store:
        rows = store.decisions.decisions_for_job(job)
    grants = {str(Record.parse(row.record).grant.outcome) for row in rows if not row.is_second}
    assert len(grants) == 1
    return grants.pop()


# The audit


def switches(daemon: Sluiced) -> list[tuple[str, str, str | None]]:
    entries = daemon.sluice("audit")["entries"]
    found = [one for one in entries if one["subject"] == "switch"]
    return [(one["after"], one["reason"], one["user"]) for one in found]


def test_the_audit_says_who_switched_and_set_what(sluiced):
    def modes() -> list[str]:
        entries = sluiced.sluice("audit")["entries"]
        return [one["after"] for one in entries if one["subject"] == "ModeOf"]

    wait_for(lambda: modes() == ["enforce Partitions=trial"])
    configure(sluiced, WAITING_IS_FREE, **TRIAL | {"ModeOf": "enforce Partitions=trial,main"})
    wait_for(lambda: modes() == ["enforce Partitions=trial", "enforce Partitions=trial,main"])
    assert sluiced.run("off", "--reason", "why not").stderr == ""
    sluiced.command("on", "--reason", "better now")
    assert switches(sluiced) == [("off", "why not", "root"), ("on", "better now", "root")]
    lines = sluiced.command("audit", "--since", "1h", "-P", "--format", "what,after").splitlines()
    assert "switch|on" in lines


def test_off_works_without_a_history_and_the_audit_hears_of_it_from_sluiced(sluiced):
    history = sluiced.history
    away = history.with_name("away")
    wait_for(lambda: sluiced.sluice("audit")["entries"])
    history.rename(away)
    history.mkdir()
    done = sluiced.run("off", "--reason", "no history")
    assert done.returncode == 0
    assert "will hear of it from sluiced" in done.stderr
    history.rmdir()
    away.rename(history)
    wait_for(lambda: switches(sluiced) == [("off", "no history", "root")])
    sluiced.command("on")
