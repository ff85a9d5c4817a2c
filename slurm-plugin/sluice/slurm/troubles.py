"""Says once what is wrong, and once that it is well again: a daemon must not fill the log."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sluice.history_db.errors import HistoryError
from sluice.policies.core import CoreError
from sluice.slurm.errors import SlurmError
from sluice.slurm.status import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger("sluiced")

EXPECTED = (SlurmError, HistoryError, CoreError, OSError)
"""What may fail in operation. Anything else is a bug and ends the daemon with a traceback."""


class Troubles:
    """What fails at the moment, by topic."""

    def __init__(self, status: Status | None = None, logger: logging.Logger = log) -> None:
        self._texts: dict[str, str] = {}
        self._status = status or Status()
        self._log = logger

    def __len__(self) -> int:
        return len(self._texts)

    @contextmanager
    def about(self, topic: str, errors: tuple[type[Exception], ...] = EXPECTED) -> Iterator[None]:
        """Go on after one of these errors in this block."""
        try:
            yield
        except errors as error:
            text = str(error)
            if self._texts.get(topic) != text:
                self._log.warning("%s: %s", topic, text)
            self._texts[topic] = text
            self._status.fails(topic, text)
        else:
            self._status.works(topic)
            if self._texts.pop(topic, None) is not None:
                self._log.info("%s: works again", topic)
