"""The decision core in C, for Python: words, settings, submissions, interference.

Bundles, snapshots and records have modules of their own.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.policies._core import ffi, lib
from sluice.policies.container import read_regular
from sluice.policies.structs import (
    ACTIONS,
    CLASSES,
    EVIDENCE,
    GRANTS,
    IN_TURNS,
    LAUNCHERS,
    MODE_BY,
    MODES,
    PATTERNS,
    REASONS,
    RULINGS,
    UNKNOWN,
    CoreError,
    View,
    checked,
    new,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np

    Numbers = np.ndarray[Any, np.dtype[np.float64]]
    Indices = np.ndarray[Any, np.dtype[np.uint32]]

__all__ = [
    "ACTIONS",
    "CLASSES",
    "EVIDENCE",
    "GRANTS",
    "IN_TURNS",
    "LAUNCHERS",
    "MODES",
    "MODE_BY",
    "PATTERNS",
    "REASONS",
    "RULINGS",
    "UNKNOWN",
    "CoreError",
    "View",
]

NAME_SIZE: int = lib.SLUICE_NAME_SIZE
"""Bytes that a name is cut to, with its end."""
MAX_NUMBERS: int = lib.SLUICE_MAX_NUMBERS
"""Numbers among the arguments of a submit line that are looked at: the first ones."""
AGES = tuple(lib.sluice_ages[i] for i in range(lib.SLUICE_AGES - 1))
"""Seconds up to which evidence counts as of one age; what is older is of one more."""


def crc64(content: bytes) -> int:
    """Return the checksum that guards bundles, snapshots and configurations."""
    return int(lib.sluice_crc64(content, len(content)))


# Words


def sentence(list_name: str, word: str) -> str:
    """Explain a word in a sentence: `sentence("reason", "no_bundle")`.

    The lists are pattern, class, action, reason, grant, in_turns, evidence, mode_by and ruling.
    """
    words = {
        "pattern": PATTERNS,
        "class": CLASSES,
        "action": ACTIONS,
        "reason": REASONS,
        "grant": GRANTS,
        "in_turns": IN_TURNS,
        "evidence": EVIDENCE,
        "mode_by": MODE_BY,
        "ruling": RULINGS,
    }[list_name]
    text = getattr(lib, f"sluice_{list_name}_text")(words.index(word))
    return str(ffi.string(text).decode())


@dataclass(frozen=True, slots=True)
class ProfileField:
    """A number of a profile, as policies/core/profile.h lists them."""

    name: str
    unit: str
    text: str


def _profile_fields() -> tuple[ProfileField, ...]:
    fields: list[ProfileField] = []
    while lib.sluice_profile_field_name(len(fields)):
        fields.append(
            ProfileField(
                *(
                    ffi.string(function(len(fields))).decode()
                    for function in (
                        lib.sluice_profile_field_name,
                        lib.sluice_profile_field_unit,
                        lib.sluice_profile_field_text,
                    )
                )
            )
        )
    return tuple(fields)


PROFILE_FIELDS = _profile_fields()


# sluice.conf


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """A key of sluice.conf."""

    key: str
    kind: str
    """path, list, number, setting, mode, lane or rule."""
    member: str
    """Of struct sluice_config; `policy.x`: of its policy."""
    fallback: str
    text: str


def config_keys() -> list[ConfigKey]:
    """All keys in the order of the documentation."""
    out = ffi.new("struct sluice_config_key *")
    keys: list[ConfigKey] = []
    while lib.sluice_config_describe(len(keys), out):
        texts = (out.key, out.kind, out.member, out.fallback, out.text)
        keys.append(ConfigKey(*(ffi.string(text).decode() for text in texts)))
    return keys


def nearest_key(word: str) -> str | None:
    """Return the key that may have been meant; None where none is near."""
    raw = word.encode(errors="surrogateescape")
    nearest = lib.sluice_config_nearest_key(raw, len(raw))
    return str(ffi.string(nearest).decode()) if nearest else None


def setting(config: View, key: ConfigKey) -> Any:
    """Return the value of a key of sluice.conf; of one that may be repeated, a tuple."""
    value: Any = config
    for member in key.member.split("."):
        value = getattr(value, member)
    return value


def setting_texts(config: View) -> dict[str, str]:
    """Return each key of sluice.conf with its value, as it would stand there."""
    return {key.key: _setting_text(key.key, setting(config, key)) for key in config_keys()}


def _setting_text(key: str, value: Any) -> str:
    if isinstance(value, tuple):
        text_of_line = {"ModeOf": _mode_text, "Controlled": _jobs_text, "Lane": _lane_text}[key]
        return "; ".join(map(text_of_line, value))
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _lane_text(lane: View) -> str:
    text = f"{lane.name} Targets={lane.targets} Bandwidth={lane.bandwidth:.15g}"
    operations = f" Operations={lane.operations:.15g}" if lane.operations else ""
    return f"{text}{operations}{' Place=blocks' if lane.has_blocks else ''}"


def _mode_text(rule: View) -> str:
    return f"{rule.mode} {_jobs_text(rule)}"


def _jobs_text(rule: View) -> str:
    members = ("users", "accounts", "qos", "partitions", "lanes")
    return " ".join(
        f"{name.title()}={getattr(rule, name)}" for name in members if getattr(rule, name)
    )


class Config(View):
    """The settings in sluice.conf, by the member names of struct sluice_config."""

    __slots__ = ("checksum",)

    def __init__(self, struct: Any, checksum: int) -> None:
        super().__init__(struct)
        self.checksum = checksum
        """CRC-64 of the text; 0 for the defaults."""


def furthest_mode(config: View) -> str:
    """Return the mode of the jobs with which Sluice goes furthest."""
    return str(MODES[lib.sluice_furthest_mode(config.struct)])


def mode_text(config: View) -> str:
    """Say how far Sluice goes: `observe`, `observe, for some enforce`."""
    furthest = furthest_mode(config)
    mode = str(config.mode)
    return mode if furthest == mode else f"{mode}, for some {furthest}"


def mode_of(config: View, policy: View, submission: View, lane_mask: int) -> str:
    """Return how far Sluice goes with a job on these lanes; 0: they are not decided."""
    out = ffi.new("struct sluice_job_mode *")
    lib.sluice_mode_of(config.struct, policy.struct, submission.struct, lane_mask, out)
    return str(MODES[out.mode])


@ffi.def_extern(error=-1)  # type: ignore[untyped-decorator]  # cffi has no types
def sluice_uid_of(name: Any, uid: Any) -> int:
    try:
        uid[0] = pwd.getpwnam(ffi.string(name).decode()).pw_uid
    except (KeyError, UnicodeDecodeError):
        return -1
    return 0


def default_config() -> Config:
    struct = ffi.new("struct sluice_config *")
    lib.sluice_config_init(struct)
    return Config(struct, 0)


def parse_config(name: str, text: bytes) -> Config:
    """Parse the text of a configuration; errors call the file by name."""
    struct = ffi.new("struct sluice_config *")
    error = ffi.new("struct sluice_error *")
    checked(lib.sluice_config_parse(os.fsencode(name), text, len(text), struct, error), error)
    if lib.sluice_config_resolve_users(struct, lib.sluice_uid_of, error) != 0:
        raise CoreError(f"{name}: {text_of(error.text)}")
    return Config(struct, crc64(text))


def read_config(path: Path) -> Config:
    """Read a configuration; raise OSError and CoreError."""
    return parse_config(str(path), read_regular(path, lib.SLUICE_CONFIG_MAX_BYTES))


def read_config_lines(path: Path) -> Config:
    """Read of a configuration that may be broken the lines that are right; never fail.

    For who must act whatever is wrong, as `sluice off`: what cannot be read has its default.
    """
    try:
        text = read_regular(path, lib.SLUICE_CONFIG_MAX_BYTES)
    except (OSError, CoreError):
        text = b""
    config, kept = default_config(), b""
    for line in text.splitlines():
        try:
            config = parse_config(str(path), kept + line + b"\n")
        except CoreError:
            continue
        kept += line + b"\n"
    return config


def check_trust(path: Path, owner_uid: int) -> None:
    """Raise CoreError if the plugin in a slurmctld of this uid would not read a configuration.

    Owner, mode and kind of the file, and its size, judged by the plugin's own code.
    """
    content, size = ffi.new("void **"), ffi.new("size_t *")
    error = ffi.new("struct sluice_error *")
    most = lib.SLUICE_CONFIG_MAX_BYTES
    checked(lib.sluice_read_trusted_file(bytes(path), owner_uid, most, content, size, error), error)
    lib.sluice_free(content[0])


# Submissions


def submission(members: Mapping[str, Any] | View) -> View:
    """Make a struct sluice_submission of its members; what is not given is 0 or empty."""
    return View(new("struct sluice_submission", members))


def submission_of(request: Mapping[str, str | int | None]) -> View:
    """Make a submission of what a user asked: members of struct sluice_request."""
    struct = ffi.new("struct sluice_request *")
    texts = []
    for name, value in request.items():
        if value is None:
            continue
        if isinstance(value, str):
            texts.append(ffi.new("char[]", value.encode(errors="surrogateescape")))
            setattr(struct, name, texts[-1])
        else:
            setattr(struct, name, value)
    out = ffi.new("struct sluice_submission *")
    lib.sluice_submission_of(struct, out)
    return View(out)


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a submit line says behind the script or program: struct sluice_arguments."""

    hash: int
    """Of all words."""
    numbers: tuple[float, ...]
    """The first ones; 0: there is none."""

    @classmethod
    def of(cls, struct: View) -> Arguments | None:
        """None: the submit line is not known."""
        return cls(struct.hash, struct.numbers) if struct.hash else None

    def members(self) -> dict[str, Any]:
        """Return the members of the struct: as asdict, which takes ten times as long."""
        return {name: getattr(self, name) for name in self.__slots__}


def arguments_of(line: str) -> Arguments | None:
    text = line.encode(errors="surrogateescape")[: lib.SLUICE_TEXT_LIMIT]
    out = ffi.new("struct sluice_arguments *")
    lib.sluice_arguments_of(text, len(text), out)
    return Arguments.of(View(out))


def script_signature(script: bytes) -> int:
    return int(lib.sluice_script_signature(script, len(script)))


def name_stem(name: str) -> str:
    """Return what runs of an application have in common: the name without its numbers.

    Cut to NAME_SIZE bytes, less a character that the cut went through.
    """
    out = ffi.new("char[]", NAME_SIZE)
    lib.sluice_name_stem(name.encode(errors="surrogateescape"), out)
    return str(ffi.string(out).decode(errors="ignore"))


def application_key(submission: View, evidence: str) -> int:
    """Key of the application table for one kind of evidence; 0 if the submission has none."""
    return int(lib.sluice_application_key(submission.struct, EVIDENCE.index(evidence)))


def identity_of(submission: View) -> View:
    """Return the struct sluice_identity by which reviews know a job."""
    out = ffi.new("struct sluice_identity *")
    lib.sluice_identity_of(submission.struct, out)
    return View(out)


def is_block(first: int, count: int) -> bool:
    """Whether so many targets from the first on are a block (placement.h)."""
    return bool(lib.sluice_is_block((first, count), MAX_TARGETS))


def takes_turns(in_turns: str) -> bool:
    """Whether that is one whose bursts take turns: a word of `grant.in_turns`."""
    return bool(lib.sluice_takes_turns(IN_TURNS.index(in_turns)))


def counts(prediction: View) -> bool:
    """Whether runs of the user's own are behind a prediction; any other is only reported."""
    return bool(lib.sluice_prediction_counts(prediction.struct))


def is_own(prediction: View) -> bool:
    """Whether a prediction tells what the user's runs did, be they confirmed or not."""
    return counts(prediction) or bool(prediction.evidence == "unconfirmed")


def size_key(key: int, size: float) -> int:
    """Key of the entry for this very size; 0 if there is no key or no size."""
    return int(lib.sluice_application_size_key(key, size))


# Interference


def default_interference() -> dict[str, float]:
    """Return the coefficients of struct sluice_interference that a site starts from."""
    members = View(new("struct sluice_interference")).to_dict().items()
    return {name: value for name, value in members if isinstance(value, float)}


def pressure_of(
    profile: View | Mapping[str, Any], model: View, policy: View, lane_mask: int = 0
) -> View:
    """Return what a job of this profile presses on the lanes of the mask (0: all)."""
    out = ffi.new("struct sluice_pressure *")
    lib.sluice_pressure_of(
        new("struct sluice_profile", profile), model.struct, policy.struct, lane_mask, out
    )
    return View(out)


def traffic_features(profile: View | Mapping[str, Any]) -> list[float]:
    """Return where a profile lies among the kinds of traffic, as the interference model does."""
    out = ffi.new("double[]", lib.SLUICE_TRAFFIC_FEATURES)
    lib.sluice_traffic_features(new("struct sluice_profile", profile), out)
    return list(out)


def reading_share(profile: View | Mapping[str, Any]) -> float:
    """Return the share of a profile's bytes that are read."""
    return float(lib.sluice_profile_reading_share(new("struct sluice_profile", profile)))


def log_efficiency(profile: View, model: View) -> float:
    """Return ln of the rate alone of a profile's kind of traffic, over that of its targets."""
    return float(lib.sluice_log_efficiency(profile.struct, model.struct))


def pressures(views: Sequence[View]) -> Any:
    """Return an array of struct sluice_pressure, as guaranteed_shares takes them."""
    return ffi.new("struct sluice_pressure[]", [view.struct[0] for view in views])


def guaranteed_shares(model: View, pressures: Any, members: Indices, sizes: Indices) -> Numbers:
    """Return the logarithm of the guaranteed share of each set's victim, its first member.

    members: indices of pressures, so many of each set as sizes says.
    """
    import numpy as np  # noqa: PLC0415 - likewise

    if not sizes.all() or sizes.sum() != len(members) or members.max() >= len(pressures):
        raise CoreError("a set has no victim, or members that are not among the pressures")
    out = np.empty(len(sizes))
    lib.sluice_guaranteed_shares(
        model.struct, pressures, _indices(members), _indices(sizes), len(sizes), _doubles(out)
    )
    return out


def _doubles(array: Numbers) -> Any:
    return ffi.from_buffer("double[]", array)


def _indices(array: Indices) -> Any:
    return ffi.from_buffer("uint32_t[]", array)


def _pointers(pressures: Sequence[View]) -> Any:
    return ffi.new("struct sluice_pressure *[]", [item.struct for item in pressures])


def rate_share(victim: View, others: Sequence[View], model: View, z: float = 0.0) -> float:
    """Rho: the victim's rate while all others are active, over its rate alone."""
    return float(
        lib.sluice_rate_share(victim.struct, _pointers(others), len(others), model.struct, z)
    )


def io_factor(victim: View, others: Sequence[View], model: View, z: float = 0.0) -> float:
    """I: how much longer the victim's I/O takes among the others."""
    return float(
        lib.sluice_io_factor(victim.struct, _pointers(others), len(others), model.struct, z)
    )


def job_slowdown(victim: View, io_factor: float) -> float:
    """Slowdown of the whole job whose I/O takes io_factor times as long."""
    return float(lib.sluice_job_slowdown(victim.struct, io_factor))


def class_of(profile: View | Mapping[str, Any], policy: View) -> str:
    klass: int = lib.sluice_class_of(new("struct sluice_profile", profile), policy.struct)
    return CLASSES[klass]


def normal_quantile(quantile: float) -> float:
    return float(lib.sluice_normal_quantile(quantile))


Z90 = normal_quantile(0.95)
"""Standard deviations to either side of an interval that nine in ten values lie in."""
QUANTILE = float(lib.sluice_quantile)
"""Of the predicted slowdown, that decisions are held to."""
HARMLESS_SLOWDOWN = float(lib.sluice_harmless_slowdown)
MAX_TARGETS: int = lib.SLUICE_MAX_TARGETS
WIDE = float(lib.sluice_wide_spread)
"""Spread (sd of ln) above which one run in ten is off by a factor of two: as in decide.c."""
