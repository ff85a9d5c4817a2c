"""Logins: a user that the site's proxy names in a header, or that has a token.

The header counts only where nothing but the proxy can send it: on the unix socket, or on loopback
where the site says so. Tokens lie in a file that only the service can read, a line each:

    ann  0f3a…   # a user of Slurm's, and at least TOKEN_LENGTH characters

Operators may change something; all others may look. The jobs that a user sees are another question,
which Slurm's PrivateData answers (`visibility.py`), for operators of the page too.
"""

from __future__ import annotations

import hashlib
import hmac
import pwd
import secrets
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sluice.slurm.service import stamp_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeVar

    Made = TypeVar("Made")

TOKEN_LENGTH = 24
"""Characters of a token at least: none that is shorter stands up to guessing."""
MOST_BYTES = 1 << 16
"""Of a request's body."""


class AccessError(Exception):
    """The settings let no user in, or too many; the text says what to do."""


class Latest:
    """Something made of a file, and made anew when the file has changed."""

    def __init__(self) -> None:
        self._made: dict[object, tuple[object, object]] = {}

    def of(self, path: Path, kind: object, make: Callable[[], Made]) -> Made:
        """Return what make returns; what it returned before, while the file is the same."""
        stamp = stamp_of(path)
        known = self._made.get(kind)
        if known is not None and known[0] == (path, stamp):
            return known[1]  # type: ignore[return-value] # made by the same kind's make
        made = make()
        self._made[kind] = ((path, stamp), made)
        return made

    def for_seconds(self, seconds: float, kind: object, make: Callable[[], Made]) -> Made:
        """Return what make returns; what it returned before, for so long."""
        known, now = self._made.get(kind), time.monotonic()
        if isinstance(known, tuple) and isinstance(known[0], float) and known[0] > now:
            return known[1]  # type: ignore[return-value] # made by the same kind's make
        made = make()
        self._made[kind] = (now + seconds, made)
        return made


class User(NamedTuple):
    """A user that has logged in."""

    name: str
    is_operator: bool

    @property
    def role(self) -> str:
        return "operator" if self.is_operator else "viewer"


@dataclass(frozen=True, slots=True)
class Token:
    """A line of the file of tokens, without the token itself."""

    user: str
    digest: str


class Door:
    """Knows users by header or token, and forms of these pages."""

    def __init__(
        self,
        *,
        user_header: str | None,
        tokens: Path | None,
        operators: frozenset[str],
    ) -> None:
        """Trust user_header (None: no header) and the file of tokens (None: no tokens).

        Raises AccessError where the file cannot be used.
        """
        if not (user_header or tokens):
            raise AccessError(
                "no user could log in: name the proxy's header with --user-header, or a file of "
                "tokens with --tokens"
            )
        self._latest = Latest()
        self.user_header, self._tokens, self._operators = user_header, tokens, operators
        self._key = secrets.token_bytes(32)
        self.tokens()

    @property
    def takes_tokens(self) -> bool:
        return self._tokens is not None

    def tokens(self) -> list[Token]:
        """Read the file of tokens again if it has changed."""
        path = self._tokens
        if path is None:
            return []
        return self._latest.of(path, "tokens", lambda: read_tokens(path))

    def token(self, text: str) -> Token | None:
        """Return the line that has this token."""
        digest = _digest(text.strip())
        found = [one for one in self.tokens() if hmac.compare_digest(one.digest, digest)]
        return found[0] if found else None

    def is_valid(self, user: str, digest: str) -> bool:
        """Whether the token of a login is still in the file."""
        return Token(user, digest) in self.tokens()

    def user(self, name: str) -> User | None:
        """Return a user with the role; None for one that this machine does not know."""
        try:
            pwd.getpwnam(name)
        except (KeyError, ValueError):
            return None
        return User(name, name in self._operators)

    def form_token(self, user: str) -> str:
        """Return what a form of this user carries, which no other site can know."""
        return hmac.new(self._key, user.encode(), hashlib.sha256).hexdigest()

    def is_own_form(self, user: str, carried: str) -> bool:
        return hmac.compare_digest(self.form_token(user).encode(), carried.encode())


def read_tokens(path: Path) -> list[Token]:
    """Read a file of tokens; raise AccessError where others could read it, or a line is wrong."""
    try:
        status, text = path.stat(), path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise AccessError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise AccessError(f"{path}: others may read the tokens; chmod 600 {path}")
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or len(words[1]) < TOKEN_LENGTH:
            raise AccessError(
                f"{path}:{number}: a line is a user and a token of at least {TOKEN_LENGTH} "
                "characters, as `openssl rand -hex 32` makes them"
            )
        found.append(Token(words[0], _digest(words[1])))
    return found


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
