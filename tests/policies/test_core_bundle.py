"""A bundle is accepted as a whole or refused with a reason."""

from __future__ import annotations

import os
import struct
from typing import Any

import pytest
from core_calls import write_bundle
from core_cases import (
    FLUSHING,
    MODEL,
    NOW,
    STREAMING,
    application,
    bundle_bytes,
    policy,
    snapshot,
    submission,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.policies import core
from sluice.policies._core import ffi, lib
from sluice.policies.bundle import HEAD_BYTES, Bundle, policy_in
from sluice.policies.container import GUARDED, HEADER
from sluice.policies.snapshot import Snapshot, pack_snapshot


def small_bundle() -> bytes:
    return bundle_bytes(
        application(FLUSHING),
        application(STREAMING, submission(uid=7), number=2),
        text='{"märz": 1}',
        conf="Lane=sl0 Targets=1",
    )


def small_snapshot() -> bytes:
    return pack_snapshot(
        state={"sequence": 3, "taken": NOW},
        corunners=[{"job_id": 1, "klass": "stream", "profile": STREAMING}],
        partitions=[{"name": "batch", "flags": ["default"]}],
        users=[{"uid": 1, "account": "a"}, {"uid": 2, "account": "b"}],
        lane_speeds={"sl1": 0.25},
    )


def section(content: bytes, name: str) -> tuple[int, int]:
    """Where a section starts, and where its row in the table does."""
    wanted = getattr(lib, f"SLUICE_SECTION_{name}")
    count = struct.unpack_from("<I", content, 48)[0]
    for row in range(HEADER, HEADER + 24 * count, 24):
        number, _size, offset, _count = struct.unpack_from("<IIQQ", content, row)
        if number == wanted:
            return offset, row
    raise AssertionError(name)


def sealed(content: bytearray) -> bytes:
    """The content under a checksum that fits."""
    checksum = core.crc64(bytes(content[GUARDED:]))
    struct.pack_into("<Q", content, 8, checksum)
    return bytes(content)


def test_a_bundle_is_read_back_as_it_was_written():
    bundle = Bundle.parse(small_bundle())
    assert bundle.created == NOW
    assert bundle.policy == policy("Lane=sl0 Targets=1")
    assert bundle.interference == MODEL
    assert bundle.text == '{"märz": 1}'
    assert [a.id for a in bundle.applications()] == [1, 2]
    first = next(iter(bundle.applications()))
    assert {k: v for k, v in first.profile.to_dict().items() if k in FLUSHING} == {
        **FLUSHING,
        "share": first.profile.share,
    }


@pytest.mark.parametrize("count", [0, 1, 2, 3, 100])
def test_every_application_is_found_and_no_other(count: int):
    jobs = [submission(uid=uid) for uid in range(count + 1)]
    bundle = Bundle.parse(
        bundle_bytes(*(application(FLUSHING, job, number=job.uid + 1) for job in jobs[:count]))
    )
    found = [bundle.predict(job) for job in jobs]
    assert [p.application for p in found] == [*range(1, count + 1), 0]
    assert found[-1].evidence == "none"


@pytest.mark.parametrize("content", [small_bundle(), small_snapshot()], ids=["bundle", "snapshot"])
@pytest.mark.parametrize("change", ["truncate", "flip"])
def test_every_truncation_and_every_flipped_bit_is_refused(content: bytes, change: str):
    parse = Bundle.parse if content == small_bundle() else Snapshot.parse
    parse(content)
    if change == "truncate":
        damaged = [content[:size] for size in range(len(content))] + [content + b"\0"]
    else:
        damaged = [
            content[:i] + bytes([content[i] ^ 1 << bit]) + content[i + 1 :]
            for i in range(len(content))
            for bit in range(8)
        ]
    assert len(damaged) > 700
    for broken in damaged:
        with pytest.raises(core.CoreError) as error:
            parse(broken)
        assert str(error.value)


@settings(max_examples=500)
@given(st.data())
def test_damage_under_a_fitting_checksum_is_refused_or_harmless(data: st.DataObject):
    content = bytearray(small_bundle())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(GUARDED, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    try:
        bundle = Bundle.parse(sealed(content))
    except core.CoreError:
        return
    for job in (submission(), submission(uid=99, name="other")):
        prediction = bundle.predict(job)
        assert prediction.evidence in core.EVIDENCE
        assert 0 <= prediction.profile.confidence <= 1


def patched(name: str, offset: int, layout: str, *values: Any) -> bytes:
    content = bytearray(small_bundle())
    struct.pack_into(layout, content, section(content, name)[0] + offset, *values)
    return sealed(content)


def patched_row(name: str, offset: int, layout: str, value: int) -> bytes:
    content = bytearray(small_bundle())
    struct.pack_into(layout, content, section(content, name)[1] + offset, value)
    return sealed(content)


def patched_header(member: str, layout: str, value: int) -> bytes:
    content = bytearray(small_bundle())
    offset = ffi.offsetof("struct sluice_container_header", member)
    struct.pack_into(layout, content, offset, value)
    return sealed(content)


def test_the_policy_is_found_in_the_head_of_a_bundle_also_of_another_version():
    content = bytearray(small_bundle())
    struct.pack_into("<I", content, 20, 99)
    assert policy_in(bytes(content[:HEAD_BYTES])) == policy("Lane=sl0 Targets=1")


@given(st.binary(max_size=600))
def test_where_there_is_no_policy_none_is_found(head: bytes):
    assert policy_in(head) is None


APPLICATION = ffi.sizeof("struct sluice_application")
EXPONENTS = ffi.offsetof("struct sluice_application", "exponent")
AGREEMENT = ffi.offsetof("struct sluice_application", "agreement")
ARGUMENT = ffi.offsetof("struct sluice_application", "argument")
PLACE = ffi.offsetof("struct sluice_application", "argument_place")
SPREAD = ffi.offsetof("struct sluice_profile", "spread")
PROFILE = ffi.offsetof("struct sluice_application", "profile")
IO_SHARE = [field.name for field in core.PROFILE_FIELDS].index("io_share")
NEWEST = ffi.offsetof("struct sluice_application", "newest")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (patched_header("kind", "<I", 2), "kind is 2"),
        (patched_header("version", "<I", 99), "version is 99, this Sluice reads 11"),
        (patched_header("unused", "<Q", 1), "fixed"),
        (patched_header("section_table", "<I", 72), "fixed"),
        (patched_header("section_count", "<I", 33), "33 sections do not fit"),
        (patched_row("TEXT", 0, "<I", lib.SLUICE_SECTION_REVIEW), "twice"),
        (patched_row("APPLICATION", 0, "<I", 77), "section 3 is missing"),
        (patched_row("APPLICATION_INDEX", 4, "<I", 2), "elements of 2 bytes"),
        (patched_row("APPLICATION", 8, "<Q", 2**63), "out of place"),
        (patched_row("APPLICATION", 16, "<Q", 2**61), "past the end"),
        (patched_row("POLICY", 16, "<Q", 0), "one policy"),
        (patched("POLICY", 0, "<d", 2.0), "MinConfidence is 2"),
        (patched("POLICY", 8, "<d", float("nan")), "Tolerance is"),
        (patched("POLICY", 80, "<I", 17), "17 lanes"),
        (patched("POLICY", 88, "<B", ord("S")), "lane 0"),
        (patched("INTERFERENCE", 0, "<d", float("inf")), "stream_level"),
        (patched("INTERFERENCE", 56, "<d", 0.5), "capacity is 0.5"),
        (patched("APPLICATION", 0, "<Q", 0), "not found by its key"),
        (patched("APPLICATION", 0, "<Q", 12345), "not found by its key"),
        (patched("APPLICATION", 8, "<I", lib.SLUICE_EVIDENCE_CONFIRMED), "evidence 4"),
        (patched("APPLICATION", 16, "<d", 8.0), "sizes 0 to 0, but its size is 8"),
        (patched("APPLICATION", 16, "<3d", 8.0, 9.0, 16.0), "sizes 9 to 16"),
        (patched("APPLICATION", 16, "<3d", 8.0, 0.5, 16.0), "sizes 0.5 to 16"),
        (patched("APPLICATION", 16, "<3d", 8.0, 1.0, float("nan")), "sizes 1 to nan"),
        (patched("APPLICATION", EXPONENTS, "<f", 5.0), "chunk_bytes follow the size"),
        (patched("APPLICATION", EXPONENTS, "<f", float("nan")), "chunk_bytes follow the size"),
        (patched("APPLICATION", EXPONENTS + 4 * IO_SHARE, "<f", 1.0), "io_share follow the size"),
        (patched("APPLICATION", AGREEMENT, "<f", 1.5), "borne out by 1.5"),
        (patched("APPLICATION", ARGUMENT, "<d", 3.0), "follows number 0 from 0 to 0, but is for 3"),
        (patched("APPLICATION", PLACE, "<I", 9), "follows number 9"),
        (patched("APPLICATION", NEWEST, "<q", -1), "ended before 1970"),
        (patched("AGEING", 0, "<f", 0.0), "ages by a factor of 0"),
        (patched("AGEING", 4, "<f", float("nan")), "ages by a factor of"),
        (patched_row("AGEING", 16, "<Q", 0), "how evidence ages"),
        (patched("APPLICATION", PROFILE + SPREAD, "<f", -0.5), "chunk_bytes has spread -0.5"),
        (patched("APPLICATION", APPLICATION + PROFILE, "<d", -2.0), "chunk_bytes is -2"),
        (patched("APPLICATION_INDEX", 0, "<4I", 1, 2, 1, 0), "3 index slots"),
        (patched("APPLICATION_INDEX", 0, "<4I", 1, 9, 0, 0), "points nowhere"),
        (patched("APPLICATION_INDEX", 0, "<4I", 1, 1, 0, 0), "not found by its key"),
        (patched_row("APPLICATION_INDEX", 16, "<Q", 3), "index of 3 slots"),
        (patched_row("APPLICATION_INDEX", 16, "<Q", 2), "index of 2 slots"),
        (patched("TEXT", 3, "<B", 0xFF), "not UTF-8"),
        (patched("TEXT", 3, "<B", 0), "not UTF-8"),
    ],
)
def test_what_cannot_be_trusted_is_refused_with_its_reason(content: bytes, says: str):
    with pytest.raises(core.CoreError, match=says):
        Bundle.parse(content)


# The file


def write_small(path):
    return write_bundle(
        path,
        policy=policy(),
        interference=MODEL,
        applications=[application(FLUSHING)],
        text="{}",
        created=NOW,
    )


def test_a_bundle_is_replaced_as_a_whole_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "model.bundle"
    write_small(path)
    before = path.stat()
    content = write_small(path)
    assert path.read_bytes() == content
    assert path.stat().st_ino != before.st_ino
    assert path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["model.bundle"]
    assert Bundle.load(path, os.getuid()).checksum == Bundle.parse(content).checksum


def test_a_bundle_that_the_core_would_refuse_is_not_written(tmp_path):
    path = tmp_path / "model.bundle"
    with pytest.raises(core.CoreError, match="confidence"):
        write_bundle(
            path,
            policy=policy(),
            interference=MODEL,
            applications=[application({**FLUSHING, "confidence": 1.5})],
            text="{}",
            created=NOW,
        )
    assert not list(tmp_path.iterdir())


def test_a_failed_write_keeps_the_old_file_and_no_rest(tmp_path, monkeypatch):
    path = tmp_path / "model.bundle"
    before = write_small(path)

    def no_space(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        write_small(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.bundle"]


def replace_by_link(path):
    path.rename(path.with_name("target"))
    path.symlink_to("target")


def replace_by_fifo(path):
    path.unlink()
    os.mkfifo(path)


def replace_by_directory(path):
    path.unlink()
    path.mkdir()


def make_huge(path):
    with path.open("r+b") as file:
        file.truncate(lib.SLUICE_MAX_BUNDLE_BYTES + 1)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: path.unlink(), "No such file"),
        (lambda path: path.chmod(0o664), "mode 664 lets others write it; use chmod go-w"),
        (lambda path: path.chmod(0o646), "mode 646"),
        (replace_by_link, "symbolic link"),
        (replace_by_fifo, "not a regular file"),
        (replace_by_directory, "not a regular file"),
        (make_huge, "at most 134217728"),
        (lambda path: path.write_bytes(b""), "too few for a header"),
    ],
)
def test_a_file_that_somebody_else_could_have_made_is_refused(tmp_path, spoil, says):
    path = tmp_path / "model.bundle"
    write_small(path)
    spoil(path)
    with pytest.raises(core.CoreError, match=says) as error:
        Bundle.load(path, os.getuid())
    assert str(error.value).startswith(str(path)[:100])


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_foreign_owner_is_refused_but_for_the_trusted_one(tmp_path):
    path = tmp_path / "model.bundle"
    write_small(path)
    os.chown(path, 4711, -1)
    with pytest.raises(core.CoreError, match="owned by uid 4711; it must belong to root"):
        Bundle.load(path, 1234)
    assert Bundle.load(path, 4711).application_count == 1


# The snapshot


def test_a_snapshot_is_read_back_as_it_was_written(tmp_path):
    path = tmp_path / "cluster.snapshot"
    content = pack_snapshot(
        state={"sequence": 9, "taken": NOW, "flags": ["off"], "pending": 3},
        corunners=[{"job_id": 5, "klass": "stream", "profile": STREAMING, "lane_mask": 2}],
        partitions=[{"name": "a"}, {"name": "b", "flags": ["default", "preempts"], "qos": "q"}],
        users=[{"uid": 9, "account": "nine"}, {"uid": 4, "account": "four", "qos": "low"}],
        lane_speeds={"sl1": 0.3, "sl0": 1.0},
    )
    path.write_bytes(content)
    path.chmod(0o644)
    read = Snapshot.load(path, os.getuid())
    assert read.checksum == Snapshot.parse(content).checksum
    assert read.state.to_dict() == {
        "sequence": 9,
        "taken": NOW,
        "flags": ["off"],
        "running": 0,
        "pending": 3,
        "unknown": 0,
    }
    (corunner,) = read.corunners()
    assert (corunner.job_id, corunner.klass, corunner.lane_mask) == (5, "stream", 2)
    assert corunner.profile.chunk_bytes == 2**20
    assert read.partition("").name == "b"
    assert read.partition("a").flags == ()
    assert read.partition("c") is None
    assert (read.user(4).qos, read.user(9).account, read.user(5)) == ("low", "nine", None)
    assert [read.lane_speed(name) for name in ("sl0", "sl1", "sl2")] == [1.0, 0.3, 1.0]


def test_views_go_back_into_a_snapshot_unchanged():
    first = snapshot({"job_id": 5, "klass": "stream", "profile": STREAMING})
    again = snapshot(*first.corunners())
    assert [c.bytes for c in again.corunners()] == [c.bytes for c in first.corunners()]


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"users": [{"uid": 1}, {"uid": 1}]}, "not sorted"),
        ({"corunners": [{"profile": {"rate": -3.0}}]}, "rate is -3"),
        ({"corunners": [{"profile": {"rate": 1e31}}]}, "rate is 1e\\+31"),
        ({"corunners": [{"profile": {"io_share": 1.01}}]}, "io_share is 1.01"),
        ({"corunners": [{"profile": {"log_sd": float("nan")}}]}, "log_sd is"),
        ({"corunners": [{"profile": {"share": {"owc": 0.5}}}]}, "add up to 0.5"),
        ({"corunners": [{}] * 257}, "257 elements"),
        ({"lane_speeds": {"sl0": 0.0}}, "lane sl0 has a speed of 0"),
        ({"lane_speeds": {"sl0": 1.01}}, "lane sl0 has a speed of 1.01"),
        ({"lane_speeds": {"sl0": float("nan")}}, "lane sl0 has a speed of"),
        ({"lane_speeds": dict.fromkeys(map(str, range(17)), 0.5)}, "17 elements"),
        ({"targets": [{}, {"lane": 16}]}, "target 1 makes no sense"),
        ({"targets": [{"target": 512}]}, "target 0 makes no sense"),
        ({"targets": [{"used": -1.0}]}, "target 0 makes no sense"),
        ({"targets": [{"capacity": float("nan")}]}, "target 0 makes no sense"),
        ({"targets": [{"missing": 1.01}]}, "target 0 makes no sense"),
    ],
)
def test_a_snapshot_that_makes_no_sense_is_refused(parts, says):
    with pytest.raises(core.CoreError, match=says):
        Snapshot.parse(pack_snapshot(state={"taken": NOW}, **parts))


def test_bundle_and_snapshot_are_told_apart():
    with pytest.raises(core.CoreError, match="kind is 2, wanted 1"):
        Bundle.parse(small_snapshot())
    with pytest.raises(core.CoreError, match="kind is 1, wanted 2"):
        Snapshot.parse(small_bundle())
