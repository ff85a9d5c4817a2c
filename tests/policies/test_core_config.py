"""sluice.conf: one parser, for the plugin, the daemon and the command line."""

from __future__ import annotations

import os
import pwd

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.policies import core


def parse(text: str) -> core.Config:
    return core.parse_config("sluice.conf", text.encode())


def test_an_empty_file_gives_the_documented_defaults():
    config = parse("")
    default = core.default_config()
    assert config == default
    shown = config.to_dict() | {f"policy.{k}": v for k, v in config.policy.to_dict().items()}
    for key in core.config_keys():
        value = shown[key.member]
        if key.kind in ("number", "setting"):
            assert value == float(key.fallback), key.key
        elif key.kind not in ("lane", "rule"):
            assert value == key.fallback, key.key


def test_every_kind_of_key_is_taken_over():
    me = pwd.getpwuid(os.getuid())
    config = parse(
        f"""
        # the steps of trust
        mode = Advise            # case does not matter, comments may follow
        Bundle=/srv/model.bundle
        ModeOf = off users={me.pw_name},4711 Partitions=a,b
        Controlled=Users=7 Accounts=p
        Controlled = Qos=q
        Include = cron, Preempt
        FollowInterval=250
        DarshanLogs = /a , /b
        Tolerance=1.5
        Lane=sl0 Targets=4 Bandwidth=20G Operations=1K
        Lane=sl1\tBandwidth=1.5M\tTargets=2
        """
    )
    assert config.mode == "advise"
    assert config.bundle == "/srv/model.bundle"
    [rule] = config.mode_rules
    assert (rule.mode, rule.by) == ("off", ("user", "partition"))
    assert (rule.users, rule.partitions) == (f"{me.pw_uid},4711", "a,b")
    found = [(rule.users, rule.accounts, rule.qos) for rule in config.controlled]
    assert found == [("7", "p", ""), ("", "", "q")]
    assert config.include_kinds == 1 << 6 | 1 << 2
    assert config.follow_ms == 250
    assert config.darshan_logs == "/a,/b"
    assert config.policy.tolerance == 1.5
    lanes = [
        (lane.name, lane.targets, lane.bandwidth, lane.operations) for lane in config.policy.lanes
    ]
    assert lanes == [("sl0", 4, 20 * 2**30, 1024), ("sl1", 2, 1.5 * 2**20, 0)]


@pytest.mark.parametrize(
    "text", ["200G", "200g", "200GB", "200GiB", "200G/s", "200GB/s", "200GiB/s", "204800MB/s"]
)
def test_a_rate_may_have_the_unit_that_people_write(text):
    (lane,) = core.parse_config("site", f"Lane=a Targets=1 Bandwidth={text}".encode()).policy.lanes
    assert lane.bandwidth == 200 * 2**30


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("Mode=observe\nColour=red\n", 2, "unknown key Colour; remove the line"),
        ("Mode=strict", 1, "give off, observe, advise or enforce"),
        ("\n\nTolerance=0.5", 3, "Tolerance=0.5; give a number between 1 and 1000"),
        ("Tolerance=1.2.3", 1, "give a number between"),
        ("Tolerance=nan", 1, "give a number between"),
        ("Lane=a Bandwidth=200Gb/s", 1, "give a number between"),
        ("Lane=a Bandwidth=200GB/h", 1, "give a number between"),
        ("Lane=a Bandwidth=GB/s", 1, "give a number between"),
        ("Tolerance=", 1, "give a number between"),
        ("Tolerance=0x2", 1, "give a number between"),
        ("MaxDelay=1\nmaxdelay=1", 2, "MaxDelay is there twice; remove one"),
        ("FollowInterval=200.5", 1, "whole number"),
        ("FollowInterval=5", 1, "give a number between 100 and 60000"),
        ("Bundle=model.bundle", 1, "path that starts with /"),
        ("Bundle=/" + "x" * 300, 1, "use a shorter path"),
        ("Bundle", 1, "write Key=value"),
        ("DarshanLogs=/a,,/b", 1, "remove a comma"),
        ("DarshanLogs=" + "x" * 1100, 1, "shorten it"),
        ("Include=batch", 1, "Include=batch is no kind of job; use reservation, deadline"),
        ("Lane=sl0", 1, "needs Targets=N"),
        ("Lane=sl0 Targets=0", 1, "give a number between 1 and"),
        ("Lane=sl0 Targets=1.5", 1, "a whole number"),
        ("Lane=sl0 Targets=1 Targets=1", 1, "one each of Targets=N"),
        ("Lane=sl0 Targets=1 Colour=red", 1, "one each of Targets=N"),
        ("Lane=sl0 Targets=1 Operations=0", 1, "give a number between 1 and"),
        ("Lane=SL0 Targets=1", 1, "lower-case letter"),
        ("Lane=a Targets=1\nLane=a Targets=1", 2, "lane a is there twice"),
        ("\n".join(f"Lane=l{i} Targets=1" for i in range(17)), 17, "more than 16 lanes"),
        ("Mode=off\0", 1, "NUL byte"),
    ],
)
def test_an_error_names_file_line_and_remedy(text: str, line: int, says: str):
    with pytest.raises(core.CoreError) as error:
        parse(text)
    assert str(error.value).startswith(f"sluice.conf:{line}: ")
    assert says in str(error.value)


def test_an_unknown_user_is_an_error_that_names_key_and_user():
    with pytest.raises(
        core.CoreError, match=r"sluice\.conf: Controlled: no user nobody-at-all; correct"
    ):
        parse("Controlled=Users=root,nobody-at-all")


@pytest.mark.parametrize("uid", ["4294967295", "99999999999", "-1"])
def test_a_number_that_is_no_uid_is_looked_up_as_a_name(uid: str):
    with pytest.raises(core.CoreError, match="no user"):
        parse(f"ModeOf=off Users={uid}")


def test_only_a_file_of_a_reasonable_size_is_read(tmp_path):
    """A pipe in its place would keep sluiced waiting for ever."""
    pipe, giant = tmp_path / "pipe", tmp_path / "giant"
    os.mkfifo(pipe)
    giant.touch()
    os.truncate(giant, 1 << 40)
    for path, says in ((pipe, "not a regular file"), (giant, "at most 1048576 are possible")):
        with pytest.raises(core.CoreError, match=says):
            core.read_config(path)


def test_an_error_in_a_file_of_any_name_is_said(tmp_path):
    path = tmp_path / os.fsdecode(b"\xff.conf")
    path.write_text("Bundel=/x")
    with pytest.raises(core.CoreError, match="Bundel"):
        core.read_config(path)


@given(st.integers(10_000, 999_999_999_999), st.integers(0, 3))
def test_decimal_numbers_are_read_to_the_last_bit(digits: int, places: int):
    text = f"{digits // 10**places}.{digits % 10**places:0{places}d}" if places else str(digits)
    config = parse(f"MetadataCapacity={text}")
    assert config.policy.metadata_capacity == float(text)


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_parsed_or_refused(content: bytes):
    try:
        config = core.parse_config("x", content)
    except core.CoreError:
        return
    assert config.mode in core.MODES
    assert config.checksum == core.crc64(content)
