"""The kill switch: while one of its files is there, Sluice is off."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sluice.policies import core

if TYPE_CHECKING:
    from sluice.policies.core import Config


def off_files(config: Config) -> list[Path]:
    """Return the OffFile of the configuration, and the default one, which always counts.

    `sluice off` makes the default one where it cannot read the configuration: sluiced goes on
    with the last good one, of which nobody else knows.
    """
    paths = (Path(config.off_file), Path(core.default_config().off_file))
    return list(dict.fromkeys(paths))


def present(config: Config) -> list[Path]:
    """Return those of the files that are there; none: Sluice is on."""
    return [path for path in off_files(config) if _exists(path)]


def is_off(config: Config) -> bool:
    return bool(present(config))


def _exists(path: Path) -> bool:
    """Whether the file is there, as far as this user may see."""
    try:
        path.lstat()
    except OSError:
        return False
    return True
