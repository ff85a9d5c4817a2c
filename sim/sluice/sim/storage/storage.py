"""The storage system under a replay: what engine/storage/mean_field.h is made of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sluice.sim.errors import StorageModelError
from sluice.sim.storage.mean_field import configuration

if TYPE_CHECKING:
    from collections.abc import Mapping

TARGETS_A_SLOT = 0.16
"""So that about a sixth of the machine fills the storage, writing at the rate of its nodes."""
TARGETS_A_SERVER = 8


@dataclass(frozen=True, slots=True)
class Storage:
    """Lanes and the numbers of a storage model."""

    lanes: tuple[tuple[float, float], ...]
    """(targets, servers) of each."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Of SLUICE_MEAN_FIELD_FIELDS; others keep their defaults."""
    sharing: str = "fifo"
    """A key of mean_field.SHARING."""
    seed: int | None = None
    """With one, every number is multiplied by a random factor."""
    spread: float = 0.0
    """Standard deviation of the logarithm of that factor."""

    @property
    def targets(self) -> float:
        return sum(targets for targets, _ in self.lanes)

    def number(self, name: str) -> float:
        """Return one of SLUICE_MEAN_FIELD_FIELDS as it is without a seed: what a site knows."""
        return float(getattr(configuration(self.numbers), name))

    def shared(self, sharing: str) -> Storage:
        """Return the same storage that divides itself otherwise."""
        return replace(self, sharing=sharing)

    def configuration(self) -> Any:
        """Return the struct sluice_mean_field_config."""
        return configuration(
            self.numbers,
            lanes=self.lanes,
            sharing=self.sharing,
            seed=self.seed,
            spread=self.spread,
        )


def storage_for(
    slots: int, *, lanes: int = 4, targets: int | None = None, sharing: str = "fifo"
) -> Storage:
    """Return a storage system for a machine of so many slots, divided into equal lanes.

    Targets that do not divide evenly go to the first lanes.
    """
    if targets is None:
        targets = max(lanes, round(TARGETS_A_SLOT * slots))
    if not 1 <= lanes <= targets:
        raise StorageModelError(
            f"{lanes} lanes of {targets} targets; give each lane a target at least"
        )
    sizes = [targets // lanes + (lane < targets % lanes) for lane in range(lanes)]
    return Storage(tuple((size, size / TARGETS_A_SERVER) for size in sizes), sharing=sharing)
