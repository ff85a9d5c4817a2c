"""The cluster snapshot: read through the core, written for it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sluice.policies._core import ffi, lib
from sluice.policies.container import Section, pack
from sluice.policies.structs import View, checked, new

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CLOCK_DIFFERENCE: int = lib.SLUICE_CLOCK_DIFFERENCE
"""Seconds by which a file may be ahead of its reader's clock."""


class Snapshot:
    """A snapshot that the core accepted."""

    def __init__(self, handle: Any) -> None:
        self.handle = ffi.gc(handle, lib.sluice_snapshot_destroy)

    @classmethod
    def parse(cls, content: bytes) -> Snapshot:
        """Validate and copy a snapshot in memory; raise CoreError with the reason."""
        out, error = ffi.new("struct sluice_snapshot **"), ffi.new("struct sluice_error *")
        checked(lib.sluice_snapshot_parse(content, len(content), out, error), error)
        return cls(out[0])

    @classmethod
    def load(cls, path: Path, owner_uid: int) -> Snapshot:
        """Read a file as the plugin does: it must belong to root or owner_uid alone."""
        out, error = ffi.new("struct sluice_snapshot **"), ffi.new("struct sluice_error *")
        checked(lib.sluice_snapshot_load(bytes(path), owner_uid, out, error), error)
        return cls(out[0])

    @property
    def checksum(self) -> int:
        return int(lib.sluice_snapshot_checksum(self.handle))

    @property
    def version(self) -> int:
        """Changes when what decisions are made alongside does."""
        return int(lib.sluice_snapshot_version(self.handle))

    @property
    def state(self) -> View:
        return View(lib.sluice_snapshot_state(self.handle))

    def corunners(self) -> list[View]:
        count = lib.sluice_snapshot_corunner_count(self.handle)
        return [View(lib.sluice_snapshot_corunner(self.handle, i)) for i in range(count)]

    def placed(self) -> list[View]:
        """Return the jobs with a block that are no co-runners."""
        count = lib.sluice_snapshot_placed_count(self.handle)
        return [View(lib.sluice_snapshot_placed(self.handle, i)) for i in range(count)]

    def targets(self) -> list[View]:
        """Return what is seen of single targets."""
        count = lib.sluice_snapshot_target_count(self.handle)
        return [View(lib.sluice_snapshot_target(self.handle, i)) for i in range(count)]

    def partition(self, name: str) -> View | None:
        """Return a partition; the default one for the empty name."""
        found = lib.sluice_snapshot_partition(self.handle, name.encode())
        return View(found) if found else None

    def user(self, uid: int) -> View | None:
        found = lib.sluice_snapshot_user(self.handle, uid)
        return View(found) if found else None

    def lane_speed(self, name: str) -> float:
        """Return a lane's rate as a share of its peers'; 1 where nothing is published."""
        return float(lib.sluice_snapshot_lane_speed(self.handle, name.encode()))

    def waited(self) -> dict[int, int]:
        """Return the seconds that each job with tokens was charged for, by job id."""
        count = lib.sluice_snapshot_holder_count(self.handle)
        holders = (lib.sluice_snapshot_holder_at(self.handle, i) for i in range(count))
        return {holder.job_id: holder.waited for holder in holders}

    def holder(self, job_id: int) -> View | None:
        """Return the tokens that a job was given and still has."""
        found = lib.sluice_snapshot_holder(self.handle, job_id)
        return View(found) if found else None


Item = Mapping[str, Any] | View | bytes
"""An element by the members of its C struct; bytes: elements that are packed and sorted."""


def packed(kind: str, item: Item) -> bytes:
    """Return the bytes of a C struct."""
    return item if isinstance(item, bytes) else bytes(ffi.buffer(new(kind, item)))


def pack_snapshot(
    *,
    state: Mapping[str, Any],
    corunners: Sequence[Item] = (),
    partitions: Sequence[Item] = (),
    users: Sequence[Item] = (),
    holders: Sequence[Item] = (),
    preempting_qos: Sequence[str] = (),
    lane_speeds: Mapping[str, float] = MappingProxyType({}),
    placed: Sequence[Item] = (),
    targets: Sequence[Item] = (),
) -> bytes:
    """Return the bytes of a snapshot."""

    def section(name: str, kind: str, items: Sequence[Item]) -> Section:
        return Section(
            getattr(lib, f"SLUICE_SECTION_{name}"),
            ffi.sizeof(kind),
            b"".join(packed(kind, item) for item in items),
        )

    return pack(
        lib.SLUICE_KIND_SNAPSHOT,
        lib.SLUICE_SNAPSHOT_VERSION,
        [
            section("STATE", "struct sluice_state", [state]),
            section("CORUNNER", "struct sluice_corunner", corunners),
            section("PARTITION", "struct sluice_partition", partitions),
            section("USER", "struct sluice_user", _sorted(users, "uid")),
            section("HOLDER", "struct sluice_holder", _sorted(holders, "job_id")),
            section("QOS", "struct sluice_qos", [{"name": name} for name in preempting_qos]),
            section(
                "LANE",
                "struct sluice_lane_speed",
                [{"name": name, "speed": speed} for name, speed in sorted(lane_speeds.items())],
            ),
            section("PLACED", "struct sluice_placed_job", placed),
            section("TARGET", "struct sluice_target", targets),
        ],
        created=state["taken"],
    )


def _sorted(items: Sequence[Item], member: str) -> Sequence[Item]:
    def key(item: Item) -> int:
        if isinstance(item, bytes):
            return 0
        return int(getattr(item, member) if isinstance(item, View) else item[member])

    return sorted(items, key=key)
