"""What Slurm's commands print, read without being led astray by what users write."""

import os

import pytest

from sluice.cli import slurm_checks
from sluice.cli.findings import Site
from sluice.slurm import slurm_commands as commands
from sluice.slurm.errors import CommandFailedError
from sluice.slurm.records import Partition, QueuedJob, UserDefaults
from sluice.slurm.settings import Settings, preempting

ROW = {
    "JobID": "12",
    "JobArrayID": "12",
    "HetJobOffset": "N/A",
    "RestartCnt": "0",
    "UserID": "1000",
    "SubmitTime": "1795251076",
    "EligibleTime": "1795251077",
    "StartTime": "1795251079",
    "EndTime": "1795251379",
    "State": "RUNNING",
    "Account": "(null)",
    "Partition": "main",
    "QOS": "normal",
    "NumNodes": "2",
    "NumTasks": "8",
    "NumCPUs": "16",
    "TimeLimit": "5:00",
    "exit_code": "0",
    "Reason": "None",
    "Licenses": "tool:2,sl0_stream",
    "Name": "lammps",
}


def parsed(**fields: str) -> QueuedJob:
    return commands.parse_queue_row(commands.FIELD_END.join((ROW | fields).values()))


def test_a_row_of_squeue_is_a_job():
    job = parsed()
    assert (job.job_id, job.submission_id, job.uid, job.nodes, job.tasks) == (12, 12, 1000, 2, 8)
    assert (job.submit, job.start, job.end) == (1795251076, 1795251079, 1795251379)
    assert (job.eligible, job.licenses) == (1795251077, "tool:2,sl0_stream")
    assert (job.account, job.qos, job.time_limit, job.component) == (None, "normal", 5, None)
    assert job.is_running
    assert not job.is_array


@pytest.mark.parametrize(
    ("shown", "submission", "is_array"),
    [("12", 12, False), ("9_3", 9, True), ("9_[4-7%2]", 9, True), ("11+1", 12, False)],
)
def test_a_task_belongs_to_its_array_and_a_component_to_itself(shown, submission, is_array):
    job = parsed(JobArrayID=shown, HetJobOffset="1" if "+" in shown else "N/A")
    assert (job.submission_id, job.is_array) == (submission, is_array)
    assert job.component == (1 if "+" in shown else None)


def test_what_slurm_has_no_value_for_is_unknown():
    job = parsed(StartTime="N/A", EndTime="NONE", TimeLimit="UNLIMITED", NumTasks="4294967294")
    assert (job.start, job.end, job.time_limit, job.tasks) == (None, None, None, 0)


def test_a_range_of_nodes_counts_as_its_least():
    assert parsed(NumNodes="2-4").nodes == 2


@pytest.mark.parametrize("name", ["a b", "a\nb", f"a{commands.FIELD_END}b", "12 RUNNING\x1e", ""])
def test_no_name_shifts_a_field(name):
    job = parsed(Name=name)
    assert (job.name, job.state) == (name, "RUNNING")


def test_a_row_that_makes_no_sense_is_refused():
    with pytest.raises(CommandFailedError, match="cannot read"):
        commands.parse_queue_row("slurm_load_jobs error")


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("0:30", 0),
        ("5:00", 5),
        ("1:00:00", 60),
        ("2-03:04:00", 2 * 1440 + 3 * 60 + 4),
        ("UNLIMITED", None),
        ("NOT_SET", None),
        ("", None),
    ],
)
def test_time_limits_are_minutes(text, minutes):
    assert commands.parse_minutes(text) == minutes


@pytest.mark.parametrize(("status", "shown"), [("0", "0:0"), ("768", "3:0"), ("9", "0:9")])
def test_a_wait_status_is_written_as_sacct_does(status, shown):
    assert commands.parse_wait_status(status) == shown


def partition(name: str, tier: int, preempt_mode: str) -> Partition:
    return Partition(name=name, is_default=False, qos=None, tier=tier, preempt_mode=preempt_mode)


def test_the_controller_s_settings_are_read():
    controller = commands.parse_controller(
        "Configuration data as of 1795251080\n"
        "ClusterName             = lab\n"
        "JobSubmitPlugins        = lua,sluice\n"
        "PluginDir               = /a:/b\n"
        "PreemptType             = preempt/partition_prio\n"
        "PriorityFlags           = ACCRUE_ALWAYS,NO_NORMAL_ALL\n"
        "SchedulerParameters     = bf_interval=2,sched_interval=5\n"
        "SlurmUser               = slurm(64030)\n"
        "SLURM_VERSION           = 22.05.8\n"
        "\nSlurmctld(primary) at head is UP\n"
    )
    assert controller.cluster == "lab"
    assert controller.job_submit_plugins == ("lua", "sluice")
    assert controller.plugin_dirs == ("/a", "/b")
    assert controller.slurm_uid == 64030
    assert controller.slurm_version == "22.05.8"
    assert commands.parse_controller("JobSubmitPlugins = (null)").job_submit_plugins == ()


def test_partitions_are_read_with_what_preempts():
    line = "PartitionName=high Default=NO QoS=N/A PriorityTier=10 PreemptMode=OFF State=UP"
    assert commands.parse_partition(line) == partition("high", 10, "OFF")


@pytest.mark.parametrize(
    ("preempt_type", "names"), [("preempt/partition_prio", {"high"}), ("preempt/none", set())]
)
def test_a_partition_preempts_where_a_lower_one_can_be_preempted(preempt_type, names):
    settings = Settings()
    settings.controller = commands.parse_controller(f"PreemptType = {preempt_type}")
    settings.partitions = [
        partition("high", 10, "OFF"),
        partition("low", 1, "REQUEUE"),
        partition("safe", 0, "OFF"),
    ]
    assert preempting(settings) == names


def test_users_are_read_with_their_defaults():
    listed = (
        "Current Association Manager state\n\nUser Records\n\n"
        "UserName=alice(1000) DefAccount=physics DefWckey= AdminLevel=None\n"
        "UserName=bob(1001) DefAccount=(null) DefWckey= AdminLevel=None\n"
        "UserName=gone(4294967294) DefAccount=physics DefWckey= AdminLevel=None\n"
    )
    assert commands.parse_users(listed, {("alice", "physics"): "high"}) == [
        UserDefaults(1000, "physics", "high"),
        UserDefaults(1001, "", ""),
    ]
    assert commands.parse_users("\nNo users currently cached in Slurm.\n", {}) == []


def test_a_command_that_is_missing_or_hangs_is_named_with_a_remedy():
    with pytest.raises(CommandFailedError, match="`no-such-command` is not installed"):
        commands.run("no-such-command")
    with pytest.raises(CommandFailedError, match=r"`sleep 5` gave no answer within 0\.05 s"):
        commands.run("sleep", "5", timeout=0.05)
    with pytest.raises(CommandFailedError, match="`false` failed: exit code 1"):
        commands.run("false")


def test_the_qos_that_preempt_are_those_that_name_others():
    answer = "normal|\nhigh|normal,low\nlow|\nurgent|high\nbroken\n"
    assert commands.parse_preempting_qos(answer) == ["high", "urgent"]


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("normal|\nhigh|normal", ("OK", "left alone, as they preempt: QoS high")),
        ("normal|", ("WARN", "sacctmgr tells of no QoS that preempts")),
    ],
)
def test_the_doctor_names_the_qos_that_are_left_alone_as_they_preempt(
    tmp_path, monkeypatch, told, found
):
    """sacctmgr is a stand-in: a database cannot run here."""
    (tmp_path / "sacctmgr").write_text(f"#!/bin/sh\necho '{told}'\n")
    (tmp_path / "sacctmgr").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    controller = commands.parse_controller("PreemptType = preempt/qos")
    (finding,) = slurm_checks.preemption(Site(None, controller=controller))
    assert finding.level == found[0]
    assert found[1] in finding.text


def test_a_job_of_which_scontrol_tells_nothing_is_no_job_without_a_comment(monkeypatch):
    answer = "JobId=1 JobName=a AdminComment=site sluice(v=1,\nJobId=2 JobName=b\n"
    monkeypatch.setattr(commands, "run", lambda *_words, **_options: answer)
    assert commands.admin_comments([1, 2, 3]) == {1: "site sluice(v=1,\n", 2: ""}
