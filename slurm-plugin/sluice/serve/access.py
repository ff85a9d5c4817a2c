"""Who asks: a user whom the site's proxy names in a header, or who has a token.

The header counts only where nobody but the proxy can send it: on the unix socket, or on loopback
where the site says so. Tokens lie in a file that the service alone can read, a line each:

    ann  0f3a…   # a user of Slurm's, and at least TOKEN_LENGTH characters

Operators may change something; everybody else may look. Whose jobs somebody sees is another
question, which Slurm's PrivateData answers (`visibility.py`), for operators of the page too.
"""

from __future__ import annotations

import hashlib
import hmac
import pwd
import secrets
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.serve.site import Site
    from sluice.slurm.visibility import Viewer

TOKEN_LENGTH = 24
"""Characters of a token at least: none that is shorter stands up to guessing."""
MOST_BYTES = 1 << 16
"""Of a request's body."""


class AccessError(Exception):
    """The settings let nobody in, or too many; the text says what to do."""


class HiddenError(Exception):
    """PrivateData hides all of this page from who asks; the text says so."""


@dataclass(frozen=True, slots=True)
class Who:
    """Somebody who may read pages."""

    name: str
    viewer: Viewer
    is_operator: bool

    def told(self, failed: str) -> str:
        """Return why nothing about all users' jobs was computed, where no name may be in it."""
        return failed if self.viewer.sees_all or not failed else "see the log of sluice serve"

    @property
    def role(self) -> str:
        return "operator" if self.is_operator else "viewer"


@dataclass(frozen=True, slots=True)
class Token:
    """A line of the file of tokens, without the token itself."""

    user: str
    digest: str


class Door:
    """Tells who somebody is, and whether a form is one of ours."""

    def __init__(
        self,
        site: Site,
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
                "nobody could log in: name the proxy's header with --user-header, or a file of "
                "tokens with --tokens"
            )
        self._site = site
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
        return self._site.latest.of(path, "tokens", lambda: read_tokens(path))

    def token(self, text: str) -> Token | None:
        """Return the line that has this token."""
        digest = _digest(text.strip())
        found = [one for one in self.tokens() if hmac.compare_digest(one.digest, digest)]
        return found[0] if found else None

    def is_valid(self, user: str, digest: str) -> bool:
        """Whether a token that somebody logged in with is still in the file."""
        return Token(user, digest) in self.tokens()

    def who(self, user: str) -> Who | None:
        """Return what a user may do; None for somebody whom this machine does not know."""
        try:
            uid = pwd.getpwnam(user).pw_uid
        except (KeyError, ValueError):
            return None
        return Who(user, self._site.privacy.viewer(uid), user in self._operators)

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
