"""What the plugin decides on, records and notes inside a real slurmctld."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import made_model
import pytest
from plugin_harness import PluginFiles, drain, install
from private_slurm import REEXECUTES, PrivateSlurm, slurm_version
from transcript import clear, held_jobs

from sluice.policies.record import Record

pytestmark = pytest.mark.slurm

NOTE = re.compile(
    r"sluice\(v=1,rec=([0-9a-f]{16})-(\d+),act=(\w+),why=(\w+),pat=(\w+),"
    r"conf=([01]\.\d\d),class=(\w+),slow=(\d+\.\d\d)\)"
)
KNOWN = ("--hold", "--job-name=checkpoint_7", "--nodes=1", "--wrap=srun ./checkpoint")


@pytest.fixture(autouse=True)
def _started(guarded: PrivateSlurm, files: PluginFiles) -> Iterator[None]:
    """Advise, with a bundle that knows root's checkpoint jobs."""
    install(files.bundle, made_model.bundle(uid=0))
    install(files.snapshot, made_model.snapshot())
    files.configure(Mode="advise")
    files.wait_for(lambda seen: seen["mode"] == "advise" and seen["snapshot"]["loaded"])
    drain(files.socket)
    yield
    clear(guarded)


def records(files: PluginFiles) -> list[Record]:
    return [Record.parse(content) for content in drain(files.socket)]


def test_a_known_job_is_recorded_and_noted(guarded: PrivateSlurm, files: PluginFiles) -> None:
    before = int(time.time())
    job = guarded.job(guarded.submit(*KNOWN))
    [record] = records(files)
    assert record.cluster == "lab"
    assert record.mode == "advise"
    assert before <= record.now <= time.time()
    assert record.submission.uid == 0
    assert record.submission.name == "checkpoint_7"
    assert record.submission.launcher == "sbatch"
    assert record.submission.partition == "main"  # the default, from the snapshot
    assert record.prediction.evidence == "user_name"
    note = NOTE.fullmatch(job["AdminComment"])
    assert note
    boot, number, action, reason, pattern, confidence, klass, _slowdown = note.groups()
    assert (int(boot, 16), int(number)) == record.key
    assert (action, reason) == (record.decision.action, record.decision.reason)
    assert pattern == record.prediction.profile.pattern
    assert float(confidence) == pytest.approx(record.prediction.profile.confidence, abs=0.005)
    assert klass == record.prediction.klass


def test_the_note_is_all_that_advise_changes(guarded: PrivateSlurm, files: PluginFiles) -> None:
    guarded.submit(*KNOWN)
    files.configure(Mode="observe")
    files.wait_for(lambda seen: seen["mode"] == "observe")
    guarded.submit(*KNOWN)
    advised, observed = held_jobs(guarded)
    assert NOTE.search(advised)
    assert re.sub(r"AdminComment=\S+  ?", "", advised) == observed


def test_an_admin_comment_stays_as_it_is(guarded: PrivateSlurm, bulk_submit: Path) -> None:
    guarded.run(bulk_submit, "1", "checkpoint_", "approved by ops")
    [job] = held_jobs(guarded)
    assert re.search(r"AdminComment=approved by ops +StdErr=", job)


@dataclass(frozen=True)
class Case:
    """A command and what the plugin should make of it; reason "" for a decision."""

    command: str
    launcher: str
    flags: tuple[str, ...] = ()
    reason: str = ""


@pytest.mark.parametrize(
    "case",
    [
        Case("srun -n1 true", "srun"),
        Case("salloc -n1 true", "salloc", reason="exempt_interactive"),
        Case("srun --immediate -n1 true", "srun", ("immediate",), "exempt_interactive"),
        Case("srun -I5 -n1 true", "srun", ("immediate",), "exempt_interactive"),
        Case("srun --pty -n1 true", "srun", ("pty",), "exempt_interactive"),
        Case("sbatch --hold --array=0-9:3%2 --wrap=x", "sbatch", ("array",)),
        Case("sbatch --hold --partition=long,main --wrap=x", "sbatch"),
        Case("sbatch --hold --licenses=tool:2 --wrap=x", "sbatch"),
        Case("sbatch --hold --begin=now+99 --wrap=x", "sbatch", ("deadline",), "exempt_deadline"),
        Case("sbatch --test-only --wrap=x", "sbatch", ("test_only",)),
    ],
    ids=lambda case: case.command,
)
def test_every_way_to_submit_is_seen_for_what_it_is(
    guarded: PrivateSlurm, files: PluginFiles, case: Case
) -> None:
    guarded.run(*case.command.split())
    [record] = records(files)
    assert record.submission.launcher == case.launcher
    assert record.submission.flags == case.flags
    if case.reason:
        assert record.decision.reason == case.reason
    else:
        assert not record.decision.reason.startswith("exempt")


def test_the_sizes_of_a_job_are_seen(guarded: PrivateSlurm, files: PluginFiles) -> None:
    guarded.submit(
        "--hold", "--array=1-7%2", "--nodes=2", "--ntasks=6", "--cpus-per-task=1",
        "--time=1:00:00", "--mem-per-cpu=10M", "--account=physics", "--wrap=x",
    )  # fmt: skip
    [record] = records(files)
    seen = record.submission
    assert (seen.nodes, seen.tasks, seen.cpus_per_task, seen.time_limit) == (2, 6, 1, 60)
    assert (seen.array_tasks, seen.memory_mib, seen.account) == (7, 30, "physics")


def test_a_heterogeneous_job_is_decided_on_its_leader(
    guarded: PrivateSlurm, files: PluginFiles
) -> None:
    script = guarded.directory / "job.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    guarded.run("sbatch", "--hold", "--job-name=checkpoint_1", "-n1", ":", "-n2", script)
    leader, follower = records(files)
    assert leader.submission.flags == ("het",)
    assert follower.submission.flags == ("het", "het_later")
    assert follower.decision.reason == "het_component"
    first, second = held_jobs(guarded)
    assert "AdminComment=sluice(" in first
    assert "AdminComment" not in second


def test_updates_pass_and_are_counted(guarded: PrivateSlurm, files: PluginFiles) -> None:
    job = guarded.submit(*KNOWN)
    comment = guarded.job(job)["AdminComment"]
    before = files.stats()["modifications"]
    guarded.run("scontrol", "update", f"jobid={job}", "timelimit=5", "licenses=tool:1")
    guarded.run("scontrol", "release", str(job))
    guarded.run("scontrol", "hold", str(job))
    after = guarded.job(job)
    assert (after["TimeLimit"], after["Licenses"]) == ("00:05:00", "tool:1")
    assert after["AdminComment"] == comment
    assert files.stats()["modifications"] == before + 3


def test_a_noted_job_runs(guarded: PrivateSlurm) -> None:
    job = guarded.submit("--job-name=checkpoint_8", "--wrap=true")
    guarded.wait_for_job(job, "COMPLETED")
    assert NOTE.fullmatch(guarded.job(job)["AdminComment"])


def test_reconfigure_and_restart_lose_nothing_but_the_boot(
    guarded: PrivateSlurm, files: PluginFiles
) -> None:
    boot = files.stats()["boot"]
    guarded.reconfigure()
    if slurm_version() >= REEXECUTES:  # loads the plugin anew, so it is another boot
        seen = files.wait_for(lambda seen: seen["boot"] != boot and seen["snapshot"]["loaded"])
        boot = seen["boot"]
    guarded.submit(*KNOWN)
    [record] = records(files)
    assert record.boot == int(boot, 16)
    guarded.kill_controller()
    guarded.start_controller()
    seen = files.wait_for(lambda seen: seen["boot"] != boot and seen["snapshot"]["loaded"])
    guarded.submit(*KNOWN)
    # a killed controller may hand over once more what was just acknowledged
    [record] = [one for one in records(files) if one.boot == int(seen["boot"], 16)]
    assert record.number == 1
