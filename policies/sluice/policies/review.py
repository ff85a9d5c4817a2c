"""Reviews: what administrators rule on programs and pairs of them.

A review comes from `sluice review` or from a page; its number follows from what it says, so both
give a bundle the same bytes.
"""

from __future__ import annotations

import json
import pwd
import re
import zlib
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any

from sluice.policies import core
from sluice.policies._core import ffi, lib
from sluice.policies.core import PATTERNS, RULINGS, UNKNOWN, CoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sluice.policies.structs import View

MAX_REVIEWS: int = lib.SLUICE_MAX_REVIEWS
"""Of a bundle."""
PAIRS = ("apart", "together")
RULED = tuple(ruling for ruling in RULINGS if ruling != "none")
CLASS_PATTERNS = {"stream": "aw", "flush": "ws", "meta": "metadata"}
"""Treated as a class is treated as the pattern that the class is made for."""
TREATMENTS = (*(pattern for pattern in PATTERNS if pattern != UNKNOWN), *CLASS_PATTERNS)


class ReviewError(CoreError):
    """A review that makes no sense; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Which jobs a review is about: those that agree with all that is given."""

    uid: int | None = None
    account: str = ""
    partition: str = ""
    name: str = ""
    """Of the job, without its numbers: `run_#`."""
    script: int = 0
    """Signature of the job script (`sluice why`)."""
    program: str = ""
    """What the job's steps execute, by the history; known by user and job name at submission."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", core.name_stem(self.name) if self.name else "")

    def __bool__(self) -> bool:
        return self != Selector()

    @property
    def terms(self) -> int:
        """How many conditions there are: of two reviews, the one with more counts."""
        return len(self.to_json())

    def selects(self, submission: View) -> bool:
        """Return whether it is about a submission; one of a program is not known by it."""
        return not self.program and (
            self.uid in {None, submission.uid}
            and self.account in {"", submission.account}
            and self.partition in {"", submission.partition}
            and self.name in {"", core.name_stem(submission.name)}
            and self.script in {0, submission.script_signature}
        )

    def to_json(self) -> dict[str, Any]:
        """Return what is given, a script's signature in hexadecimal."""
        given = {name: value for name, value in asdict(self).items() if value not in ("", None)}
        if not given.pop("script"):
            return given
        return given | {"script": f"{self.script:016x}"}

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Selector:
        script = int(str(members.get("script", "0")), 16)
        return cls(**{**members, "script": script})

    def identities(self, runs_of: Callable[[str], Iterable[tuple[int, str]]]) -> list[Any]:
        """Return the struct sluice_identity of each kind of job that it selects.

        runs_of: users and job names that ran a program.
        """
        if not self.program:
            return [self._identity(self.uid, self.name)]
        found = {
            (uid, name)
            for uid, job_name in runs_of(self.program)
            if self.uid in (None, uid) and self.name in ("", name := core.name_stem(job_name))
        }
        return [self._identity(uid, name) for uid, name in sorted(found)]

    def _identity(self, uid: int | None, name: str) -> Any:
        members = {
            "uid": uid or 0,
            "name": name,
            "account": self.account,
            "partition": self.partition,
            "script_signature": self.script,
        }
        identity = core.identity_of(core.submission(members)).struct
        if uid is None:
            identity.user = 0
        return identity[0]


@dataclass(frozen=True, slots=True)
class Review:
    """A rule, and its author."""

    ruling: str
    of: Selector
    other: Selector = field(default_factory=Selector)
    """The other side of a pair."""
    treat_as: str = ""
    """A pattern or a class, as it was said."""
    until: int = 0
    """UTC seconds; 0: it has no end."""
    comment: str = ""
    by: str = ""
    made_at: int = 0
    """UTC seconds."""

    def __post_init__(self) -> None:
        """Raise ReviewError where it does not say what its ruling needs."""
        if self.ruling not in RULED:
            raise ReviewError(f"no ruling {self.ruling!r}; one of {', '.join(RULED)}")
        if not self.of:
            raise ReviewError("say which jobs: user, account, partition, name, script or program")
        if self.is_pair != bool(self.other):
            raise ReviewError(
                f"{self.ruling}: say of which two"
                if self.is_pair
                else f"{self.ruling} is about one program, not about a pair"
            )
        if (self.ruling == "treat") != bool(self.treat_as):
            raise ReviewError("`treat` needs a pattern or class, and nothing else does")
        if self.treat_as and self.treat_as not in TREATMENTS:
            raise ReviewError(f"{self.treat_as!r} is none of {', '.join(TREATMENTS)}")
        sides = sorted((self.of, self.other), key=lambda side: json.dumps(side.to_json()))
        if self.is_pair and sides[0] is not self.of:
            object.__setattr__(self, "other", self.of)
            object.__setattr__(self, "of", sides[0])

    @property
    def is_pair(self) -> bool:
        return self.ruling in PAIRS

    @property
    def pattern(self) -> str:
        """What the core treats the jobs as; empty where they are not treated as anything."""
        return CLASS_PATTERNS.get(self.treat_as, self.treat_as)

    @property
    def subject(self) -> tuple[Selector, Selector, bool]:
        """What it settles: of two reviews of one subject the later one counts."""
        return self.of, self.other, self.ruling == "never_delay"

    @property
    def number(self) -> int:
        """What it is called by: it follows from what is ruled, not from who ruled it."""
        said = [self.ruling, self.of.to_json(), self.other.to_json(), self.pattern, self.until]
        return zlib.crc32(json.dumps(said, sort_keys=True).encode()) or 1

    @property
    def name(self) -> str:
        return f"{self.number:08x}"

    @property
    def summary(self) -> str:
        """Say it in a line, as the audit keeps it."""
        sides = [
            ", ".join(f"{term} {value}" for term, value in side.to_json().items())
            for side in (self.of, self.other)
            if side
        ]
        treated = f" {self.treat_as}" if self.treat_as else ""
        until = f", until {day_text(self.until)}" if self.until else ""
        return f"{self.ruling}{treated}: {' / '.join(sides)}{until}"

    def is_in_force(self, now: int) -> bool:
        return not self.until or now < self.until

    def to_json(self) -> dict[str, Any]:
        sides = {"of": self.of.to_json()} | ({"with": self.other.to_json()} if self.other else {})
        kept = ("ruling", "treat_as", "until", "comment", "by", "made_at")
        return {"id": self.name, **sides, **{name: getattr(self, name) for name in kept}}

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Review:
        given = {f.name: members[f.name] for f in fields(cls) if f.name in members}
        sides = {
            "of": Selector.from_json(members["of"]),
            "other": Selector.from_json(members.get("with", {})),
        }
        return cls(**{**given, **sides})


def packed(
    reviews: Iterable[Review], now: int, runs_of: Callable[[str], Iterable[tuple[int, str]]]
) -> bytes:
    """Return the section of a bundle: those in force at now, the most specific first.

    Raises ReviewError if there are more than a bundle holds.
    """
    found = sorted(
        (review for review in reviews if review.is_in_force(now)),
        key=lambda review: (-review.of.terms - review.other.terms, review.number),
    )
    rows = [row for review in found for row in _rows(review, runs_of)]
    if len(rows) > MAX_REVIEWS:
        raise ReviewError(
            f"{len(rows)} reviews; a bundle holds {MAX_REVIEWS} (a program counts once for each "
            "user and job name): undo some, or name accounts and partitions instead of users"
        )
    return b"".join(rows)


def _rows(review: Review, runs_of: Callable[[str], Iterable[tuple[int, str]]]) -> Iterator[bytes]:
    others = review.other.identities(runs_of) if review.is_pair else [None]
    for of in review.of.identities(runs_of):
        for other in others:
            row = ffi.new("struct sluice_review *")
            row.number, row.until = review.number, review.until
            row.ruling = RULINGS.index(review.ruling)
            row.pattern = PATTERNS.index(review.pattern) if review.pattern else 0
            row.of = of
            if other is not None:
                setattr(row, "with", other)
            yield bytes(ffi.buffer(row))


def selector(
    *,
    user: str = "",
    account: str = "",
    partition: str = "",
    name: str = "",
    script: str = "",
    program: str = "",
) -> Selector:
    """Return a selector from words as people write them; raise ReviewError."""
    return Selector(
        uid=_uid(user) if user else None,
        account=account,
        partition=partition,
        name=name,
        script=_signature(script) if script else 0,
        program=program,
    )


def _uid(user: str) -> int:
    if user.isdecimal():
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise ReviewError(f"no user {user!r} here; give the uid") from None


def _signature(script: str) -> int:
    if re.fullmatch(r"[0-9a-fA-F]{16}", script) and int(script, 16):
        return int(script, 16)
    raise ReviewError(f"{script!r} is no signature; `sluice why JOB` shows 16 hexadecimal digits")


def end_of(until: str | date) -> int:
    """Return UTC seconds of a day's end (local time), or of a moment; 0 for nothing."""
    if until == "":
        return 0
    try:
        moment = datetime.fromisoformat(until) if isinstance(until, str) else until
        if isinstance(until, str) and len(until) == len("2027-03-01"):
            moment = date.fromisoformat(until)
    except ValueError:
        raise ReviewError(f"until: {until!r} is no day; write 2027-03-01") from None
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time(23, 59, 59))
    seconds = int(moment.timestamp())
    if seconds <= 0:
        raise ReviewError(f"until: {until} is before 1970")
    return seconds


def day_text(until: int) -> str:
    """Return the local day and time at which a review ends."""
    return datetime.fromtimestamp(until, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
