"""Decision records: made, read back, and made again from their inputs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sluice.policies._core import ffi, lib
from sluice.policies.structs import MODES, CoreError, View, new

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluice.policies.bundle import Bundle
    from sluice.policies.core import Config
    from sluice.policies.snapshot import Snapshot

RECORD_SIZE: int = ffi.sizeof("struct sluice_record")
MAX_LANES: int = lib.SLUICE_MAX_LANES


class Record(View):
    """A struct sluice_record."""

    __slots__ = ()

    @classmethod
    def parse(cls, content: bytes) -> Record:
        """Read the bytes of a record of this version."""
        if len(content) != RECORD_SIZE:
            raise CoreError(f"a record has {RECORD_SIZE} bytes, not {len(content)}")
        struct = ffi.new("struct sluice_record *")
        ffi.buffer(struct)[:] = content
        if struct.version != lib.SLUICE_RECORD_VERSION or struct.size != RECORD_SIZE:
            raise CoreError(
                f"a record of version {struct.version}; this Sluice reads "
                f"{lib.SLUICE_RECORD_VERSION}"
            )
        return cls(struct)

    @property
    def key(self) -> tuple[int, int]:
        """What tells it from all others: (boot, number)."""
        return self.boot, self.number

    @property
    def prediction(self) -> View:
        return View(self.struct.decision.prediction)


class Situation:
    """Bundle and snapshot made ready for decisions."""

    def __init__(self, bundle: Bundle, snapshot: Snapshot | None) -> None:
        self.bundle = bundle
        self.snapshot = snapshot
        handle = lib.sluice_situation_create(
            bundle.handle, snapshot.handle if snapshot else ffi.NULL
        )
        if handle == ffi.NULL:
            raise MemoryError
        self.handle = ffi.gc(handle, lib.sluice_situation_destroy)


def decide(
    situation: Situation | None,
    config: Config,
    submission: View,
    now: int,
    *,
    boot: int = 0,
    number: int = 0,
    cluster: str = "",
    totals: Sequence[int] = (),
) -> Record:
    """Decide on a submission at time now (UTC seconds), as the plugin does.

    situation None: there is no valid bundle. totals: how many tokens of the job's class
    the controller has, by lane; what is missing is 0.
    """
    struct = new(
        "struct sluice_record",
        {
            "boot": boot,
            "number": number,
            "now": now,
            "config_checksum": config.checksum,
            "cluster": cluster,
            "submission": submission,
        },
    )
    handle = situation.handle if situation else ffi.NULL
    with _workspace() as workspace:
        lib.sluice_record_decide(workspace, handle, config.struct, struct)
    _grant(situation, struct, totals, ffi.addressof(struct, "grant"))
    return Record(struct)


def replay(record: Record, situation: Situation | None, config: Config) -> bytes:
    """Make a record's decision again; the bytes equal record.decision.bytes."""
    mode = ffi.new("struct sluice_config *", config.struct[0])
    mode.mode = MODES.index(record.mode)
    out = ffi.new("struct sluice_decision *")
    _decide(situation, mode, ffi.addressof(record.struct, "submission"), record.now, out)
    return bytes(ffi.buffer(out))


def _decide(situation: Situation | None, config: Any, submission: Any, now: int, out: Any) -> None:
    handle = situation.handle if situation else ffi.NULL
    with _workspace() as workspace:
        lib.sluice_decide(workspace, handle, config, submission, now, out)


@contextmanager
def _workspace() -> Iterator[Any]:
    workspace = lib.sluice_workspace_create()
    if workspace == ffi.NULL:
        raise MemoryError
    try:
        yield workspace
    finally:
        lib.sluice_workspace_destroy(workspace)


def replay_grant(record: Record, situation: Situation | None) -> bytes:
    """Make a record's grant again; the bytes equal record.grant.bytes."""
    out = ffi.new("struct sluice_grant *")
    _grant(situation, record.struct, record.grant.totals, out)
    return bytes(ffi.buffer(out))


def _grant(situation: Situation | None, record: Any, totals: Sequence[int], out: Any) -> None:
    lib.sluice_tokens_grant(
        record.mode,
        situation.bundle.policy.struct if situation else ffi.NULL,
        ffi.addressof(record, "submission"),
        ffi.addressof(record, "decision"),
        ffi.new("uint32_t[]", [*totals, *[0] * (MAX_LANES - len(totals))]),
        out,
    )
