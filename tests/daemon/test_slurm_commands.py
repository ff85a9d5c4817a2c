"""What Slurm's commands print, read without being led astray by what users write."""

import os
from pathlib import Path

import pytest

from sluice.slurm import slurm_commands as commands
from sluice.slurm.doctor.controller import preemption
from sluice.slurm.doctor.findings import Site
from sluice.slurm.gates.snapshot import Settings, preempting
from sluice.slurm.records import CommandFailedError, Partition, UserDefaults


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
    (finding,) = preemption(Site(Path("sluice.conf"), controller=controller))
    assert finding.level == found[0]
    assert found[1] in finding.text


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ("SlurmctldHost=a\nSlurmctldHost=b\n", ""),
        ("SlurmctldHost=a\nInclude others.conf\n", ""),
        ("SlurmctldHost=a\n", "no sign of life"),
    ],
)
def test_a_backup_controller_is_waited_for_where_the_first_host_is_dead(
    tmp_path, monkeypatch, hosts, said
):
    """To find out that a host does not answer takes Slurm as long as TCPTimeout."""
    (tmp_path / "slurm.conf").write_text(hosts)
    (tmp_path / "others.conf").write_text("SlurmctldHost=b\n")
    monkeypatch.setenv("SLURM_CONF", f"{tmp_path}/slurm.conf")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\nsleep 1.5\necho 'Slurmctld(backup) at b is UP'\nexit 1\n")
    scontrol.chmod(0o755)
    with commands.PING.asked_first():
        if said:
            with pytest.raises(CommandFailedError, match=said):
                commands.PING.check()
        else:
            commands.PING.check()
        assert bool(commands.PING.silence) == bool(said)
