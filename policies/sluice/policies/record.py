"""Decision records, made, read back and made again, and the tokens that they grant."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.policies._core import ffi, lib
from sluice.policies.structs import CLASSES, MODES, CoreError, View, new

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sluice.policies.bundle import Bundle
    from sluice.policies.core import Config
    from sluice.policies.snapshot import Snapshot


LICENSES_SIZE: int = lib.SLUICE_LICENSES_SIZE
"""Bytes that a job's licences may have, with their end."""
MIN_TOTAL: int = lib.SLUICE_MIN_TOTAL
"""With fewer in slurm.conf a token counts as undefined."""
TOTAL_UNKNOWN = 0xFFFFFFFF
"""A total that slurmctld does not tell."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """One token of the class on each lane of the mask."""

    klass: str = "none"
    lane_mask: int = 0


@dataclass(frozen=True, slots=True)
class Stripped:
    """A user's text without the tokens that it names."""

    text: str
    items: int
    """Items taken off."""
    lanes: int
    """Mask of the lanes whose granted token the text names."""


def token_name(policy: View, lane: int, klass: str) -> str:
    """Name the token of a lane and class: `sl0_stream`; lane 0 is `all` where there are none."""
    out = ffi.new("char[]", lib.SLUICE_TOKEN_SIZE)
    lib.sluice_token_name(policy.struct, lane, CLASSES.index(klass), out)
    return str(ffi.string(out).decode())


def token_names(policy: View) -> dict[str, tuple[int, str]]:
    """Map the names of all tokens of a policy to lane and class."""
    return {
        token_name(policy, lane, klass): (lane, klass)
        for lane in range(max(1, policy.lane_count))
        for klass in CLASSES
        if klass != "none"
    }


def append(policy: View, tokens: Tokens, text: str) -> str | None:
    """Add tokens behind a user's licences; None if the result would be too long."""
    raw = text.encode(errors="surrogateescape")
    if len(raw) >= LICENSES_SIZE:
        return None
    out = ffi.new("char[]", raw + bytes(LICENSES_SIZE - len(raw) - 1))
    if lib.sluice_licenses_append(policy.struct, _struct(tokens), out) != 0:
        return None
    return str(ffi.string(out).decode(errors="surrogateescape"))


def strip(
    policy: View, text: str, granted: Tokens | None = None, *, for_tasks: bool = False
) -> Stripped:
    """Take lane tokens off a user's own text, except those granted, which may be named."""
    raw = ffi.new("char[]", text.encode(errors="surrogateescape"))
    given = _struct(granted) if granted else ffi.NULL
    wish = lib.SLUICE_WISH_FOR_TASKS if for_tasks else lib.SLUICE_WISH_LICENSES
    stripped = lib.sluice_licenses_strip(policy.struct, ffi.NULL, given, wish, raw)
    result = ffi.string(raw).decode(errors="surrogateescape")
    return Stripped(result, stripped.items, stripped.lanes)


def _struct(tokens: Tokens) -> Any:
    return new("struct sluice_tokens", {"klass": tokens.klass, "lane_mask": tokens.lane_mask})


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
        record = cls.__new__(cls)
        record.struct = struct  # no other has it, so that it need not be copied
        return record

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
    turn: int = 0,
    since: Sequence[Mapping[str, Any]] = (),
) -> Record:
    """Decide on a submission at time now (UTC seconds), as the plugin does.

    situation None: there is no valid bundle. totals: how many tokens of the job's class
    the controller has, by lane; what is missing is 0. turn: for how many jobs a block was chosen
    before; since: the latest of them (struct sluice_placed_job) that the snapshot lacks.
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
            "place": {"turn": turn, "since_count": len(since), "since": [*since]},
        },
    )
    handle = situation.handle if situation else ffi.NULL
    with _workspace() as workspace:
        lib.sluice_record_decide(workspace, handle, config.struct, struct)
        _place(workspace, situation, config, struct, ffi.addressof(struct, "place"))
    _grant(situation, struct, totals, ffi.addressof(struct, "grant"))
    return Record(struct)


def replay(record: Record, situation: Situation | None, config: Config) -> bytes:
    """Make a record's decision again; the bytes equal record.decision.bytes."""
    mode = ffi.new("struct sluice_config *", config.struct[0])
    mode.mode, mode.mode_rule_count = MODES.index(record.mode_at_most), 0
    out = ffi.new("struct sluice_decision *")
    _decide(situation, mode, ffi.addressof(record.struct, "submission"), record.now, out)
    return bytes(ffi.buffer(out))


def replay_place(record: Record, situation: Situation | None, config: Config) -> bytes:
    """Choose a record's block again; the bytes equal record.place.bytes."""
    out = ffi.new("struct sluice_place *")
    out.turn, out.since_count = record.struct.place.turn, record.struct.place.since_count
    out.since = record.struct.place.since
    with _workspace() as workspace:
        _place(workspace, situation, config, record.struct, out)
    return bytes(ffi.buffer(out))


def _place(
    workspace: Any, situation: Situation | None, config: Config, record: Any, out: Any
) -> None:
    lib.sluice_decide_block(
        workspace,
        situation.handle if situation else ffi.NULL,
        config.struct,
        record.mode,
        ffi.addressof(record, "submission"),
        ffi.addressof(record, "decision"),
        out,
    )


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
        record.turns,
        situation.bundle.policy.struct if situation else ffi.NULL,
        ffi.addressof(record, "submission"),
        ffi.addressof(record, "decision"),
        ffi.new("uint32_t[]", [*totals, *[0] * (MAX_LANES - len(totals))]),
        out,
    )
