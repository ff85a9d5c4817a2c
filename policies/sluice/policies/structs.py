"""C structs of the core as Python values, both ways.

What a struct looks like is known from the headers alone (through cffi), so nothing here
lists members, except those that mean more than their C type says.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from sluice.policies._core import ffi, lib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class CoreError(Exception):
    """The core refused something; the text says what, why and what to do."""


def checked(result: int, error: Any) -> None:
    """Raise what a function of the core wrote into its struct sluice_error."""
    if result != 0:
        raise CoreError(text_of(error.text))


def text_of(array: Any) -> str:
    """Return the text of a char array; bytes that are not UTF-8 survive a round trip."""
    raw: bytes = ffi.string(array)
    return raw.decode(errors="surrogateescape")


def _words(enum: str, prefix: str) -> tuple[str, ...]:
    names = ffi.typeof(f"enum {enum}").elements
    return tuple(
        names[value].removeprefix(prefix).lower()
        for value in sorted(names)
        if not names[value].endswith("_COUNT")
    )


def _named(count: int, name: Any) -> tuple[str, ...]:
    return tuple(ffi.string(name(i)).decode() for i in range(count))


PATTERNS = _named(lib.SLUICE_PATTERN_COUNT, lib.sluice_pattern_name)
UNKNOWN: str = PATTERNS[lib.SLUICE_PATTERN_UNKNOWN]
"""The pattern of what cannot be told."""
CLASSES = _named(lib.SLUICE_CLASS_COUNT, lib.sluice_class_name)
ACTIONS = _named(lib.SLUICE_ACTION_COUNT, lib.sluice_action_name)
REASONS = _named(lib.SLUICE_REASON_COUNT, lib.sluice_reason_name)
EVIDENCE = _named(lib.SLUICE_EVIDENCE_COUNT, lib.sluice_evidence_name)
RULINGS = _named(lib.SLUICE_RULING_COUNT, lib.sluice_ruling_name)
GRANTS = _named(lib.SLUICE_GRANT_COUNT, lib.sluice_grant_name)
TURNS_SCOPES = _named(lib.SLUICE_TURNS_FOR_COUNT, lib.sluice_turns_scope_name)
IN_TURNS = _named(lib.SLUICE_IN_TURNS_COUNT, lib.sluice_in_turns_name)
MODES = _named(lib.SLUICE_MODE_COUNT, lib.sluice_mode_name)
MODE_BY = _words("sluice_mode_by", "SLUICE_MODE_BY_")
"""What a rule of ModeOf can name of a job."""
RELEASES = _named(lib.SLUICE_RELEASE_COUNT, lib.sluice_release_name)
FIELD_NAMES = _named(lib.SLUICE_PROFILE_FIELD_COUNT, lib.sluice_profile_field_name)
LAUNCHERS = _words("sluice_launcher", "SLUICE_LAUNCHER_")

_WORDS = {
    "pattern": PATTERNS,
    "klass": CLASSES,
    "action": ACTIONS,
    "reason": REASONS,
    "evidence": EVIDENCE,
    "outcome": GRANTS,
    "turns": TURNS_SCOPES,
    "in_turns": IN_TURNS,
    "mode": MODES,
    "mode_at_most": MODES,
    "launcher": LAUNCHERS,
    "ruling": RULINGS,
}
"""Members that hold a value of an enum."""

_FLAGS = {
    ("struct sluice_submission", "flags"): _words("sluice_submission_flags", "SLUICE_SUBMIT_"),
    ("struct sluice_state", "flags"): _words("sluice_state_flags", "SLUICE_STATE_"),
    ("struct sluice_record", "mode_by"): MODE_BY,
    ("struct sluice_rule", "by"): MODE_BY,
    ("struct sluice_partition", "flags"): _words("sluice_partition_flags", "SLUICE_PARTITION_"),
}
"""What the bits of a member are called, from bit 0."""

_COUNTS = {
    "alternatives": "alternative_count",
    "coruns": "corun_count",
    "lanes": "lane_count",
    "mode_rules": "mode_rule_count",
    "since": "since_count",
    "controlled": "controlled_count",
    "meaning": "outputs",
}
"""Arrays of which only the first so many elements are in use."""

_IDENTITIES = frozenset(
    {
        "hash",
        "boot",
        "bundle_checksum",
        "config_checksum",
        "key",
        "script_signature",
        "snapshot_checksum",
        "submit_line_hash",
    }
)
"""64-bit numbers without an order: JSON shows them as 16 hexadecimal digits."""


class View:
    """A copy of a C struct, read-only.

    Texts are str, enums their JSON names, flags a tuple of words, nested structs views,
    arrays tuples without their unused end, quantities that were not measured None.
    """

    __slots__ = ("struct",)

    def __init__(self, struct: Any) -> None:
        """Copy struct, a cdata of a struct type or a pointer to one."""
        kind = ffi.typeof(struct)
        if kind.kind == "pointer":
            kind, struct = kind.item, struct[0]
        self.struct = ffi.new(f"{kind.cname} *", struct)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _value(self.struct, name)

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *(name for name, _ in ffi.typeof(self.struct).item.fields)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, View) and self.bytes == other.bytes

    def __hash__(self) -> int:
        return hash(self.bytes)

    def __repr__(self) -> str:
        return f"<{ffi.typeof(self.struct).item.cname} {self.to_dict()}>"

    @property
    def bytes(self) -> bytes:
        """The struct itself."""
        return bytes(ffi.buffer(self.struct))

    def to_dict(self) -> dict[str, Any]:
        """Return the same as nested dicts that JSON takes, 64-bit identities in hexadecimal."""
        return {
            name: _plain(name, getattr(self, name))
            for name, _ in ffi.typeof(self.struct).item.fields
            if name != "reserved"
        }


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, View):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(name, item) for item in value]
    if name in _IDENTITIES and isinstance(value, int):
        return f"{value:016x}"
    if isinstance(value, str):
        return value.encode(errors="surrogateescape").decode(errors="replace")
    return value


def _value(struct: Any, name: str) -> Any:
    owner = ffi.typeof(struct).item.cname
    value = getattr(struct, name)
    if name in _WORDS:
        words = _WORDS[name]
        return words[value] if value < len(words) else "?"
    if flags := _FLAGS.get((owner, name)):
        return tuple(word for bit, word in enumerate(flags) if value >> bit & 1)
    if name == "share" and owner == "struct sluice_profile":
        return dict(zip(PATTERNS, value, strict=True))
    if name == "spread" and owner == "struct sluice_profile":
        spreads = zip(FIELD_NAMES, value, strict=True)
        return {field: spread for field, spread in spreads if spread != -1.0}
    if isinstance(value, ffi.CData):
        return _nested(struct, name, value)
    return None if value == -1.0 and owner == "struct sluice_profile" else value


def _nested(struct: Any, name: str, value: Any) -> Any:
    kind = ffi.typeof(value)
    if kind.kind == "array" and kind.item.cname == "char":
        return text_of(value)
    if kind.kind == "array":
        items = value[0 : getattr(struct, _COUNTS[name])] if name in _COUNTS else value
        return tuple(View(item) if kind.item.kind == "struct" else item for item in items)
    return View(value)


def new(kind: str, members: Mapping[str, Any] | View | None = None) -> Any:
    """Make a C struct, e.g. `struct sluice_profile`, from what a View of it shows.

    What is not given is 0 or the empty text, unknown in a profile, and else the default.
    """
    struct = ffi.new(f"{kind} *")
    if kind == "struct sluice_profile":
        lib.sluice_profile_init(struct)
    elif kind == "struct sluice_policy":
        lib.sluice_policy_init(struct)
    elif kind == "struct sluice_interference":
        lib.sluice_interference_init(struct)
    elif kind == "struct sluice_turns_settings":
        lib.sluice_turns_settings_init(struct)
    if isinstance(members, View):
        struct[0] = members.struct[0]
        return struct
    setters = _setters(kind)
    for name, value in (members or {}).items():
        if name not in setters:
            raise CoreError(f"{kind} has no member {name!r}")
        setters[name](struct, value)
    return struct


@cache
def _setters(owner: str) -> dict[str, Callable[[Any, Any], None]]:
    """Return what sets each member of a struct: asking cffi anew for each value takes longest."""
    return {name: _setter(owner, name, field.type) for name, field in ffi.typeof(owner).fields}


def _setter(owner: str, name: str, kind: Any) -> Callable[[Any, Any], None]:
    if name in _WORDS:
        words = _WORDS[name]
        return lambda struct, value: setattr(struct, name, _index(name, words, value))
    if flags := _FLAGS.get((owner, name)):
        return lambda struct, value: setattr(
            struct, name, sum(1 << _index(name, flags, word) for word in value)
        )
    if kind.kind == "struct":
        return lambda struct, value: setattr(struct, name, new(kind.cname, value)[0])
    if kind.kind == "array":
        return _array_setter(name, kind)
    return lambda struct, value: setattr(struct, name, -1.0 if value is None else value)


def _array_setter(name: str, kind: Any) -> Callable[[Any, Any], None]:
    def set_items(struct: Any, value: Any) -> None:
        for i, item in enumerate(value):
            getattr(struct, name)[i] = new(kind.item.cname, item)[0]
        setattr(struct, _COUNTS[name], len(value))

    if name == "share":
        return lambda struct, value: setattr(
            struct, name, [value.get(pattern, 0.0) for pattern in PATTERNS]
        )
    if name == "spread":
        return lambda struct, value: setattr(
            struct, name, [value.get(field, -1.0) for field in FIELD_NAMES]
        )
    if kind.item.cname == "char":
        return lambda struct, value: setattr(struct, name, _text(value, kind.length - 1))
    if kind.item.kind == "struct":
        return set_items
    return lambda struct, value: setattr(struct, name, value)


def _text(value: str, most: int) -> bytes:
    return value.encode(errors="surrogateescape")[:most].split(b"\0", 1)[0]


def _index(name: str, words: tuple[str, ...], word: str) -> int:
    if word not in words:
        raise CoreError(f"{name} cannot be {word!r}; use one of {', '.join(words)}")
    return words.index(word)
