"""What became of the jobs of a replay with I/O: what storage did to them, and what the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.policies.structs import ACTIONS, REASONS
from sluice.sim.replay.outcomes import Outcomes

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class IoOutcomes(Outcomes):
    """One element a job."""

    policy: str
    """Its name."""
    contention: NDArray[Any]
    """contention.CONTENTION: of the last run."""
    choices: NDArray[Any]
    """policies.engine.CHOICE: what the policy did with the job."""

    @property
    def alone(self) -> NDArray[np.float64]:
        """Seconds the last run would have taken alone; NaN: never ran.

        Of a job that was killed or preempted, of what it had done by then.
        """
        nominal = self.replayable.workload.jobs["runtime"]
        return np.where(self.ran, np.minimum(self.contention["alone"], nominal), np.nan)

    @property
    def io_seconds_alone(self) -> NDArray[np.float64]:
        """Seconds inside bursts, had nobody else written."""
        return np.asarray(self.contention["io_alone"])

    @property
    def job_slowdown(self) -> NDArray[np.float64]:
        """Run time over run time alone, at least 1; NaN: never ran."""
        length = np.where(self.alone > 0, self.alone, 1.0)
        return np.where(self.alone > 0, np.maximum(self.runtime / length, 1.0), self.alone + 1.0)

    @property
    def lost_slot_seconds(self) -> NDArray[np.float64]:
        """Slot-seconds lost to interference, confinement and rate caps; 0: never ran."""
        lost = np.where(self.ran, self.runtime - self.alone, 0.0)
        return np.asarray(np.maximum(lost, 0.0) * self.replayable.workload.jobs["slots"])

    @property
    def delay(self) -> NDArray[np.float64]:
        """Seconds for which the policy itself delayed the job although it fitted; NaN: never ran.

        An upper bound: others may have taken its place meanwhile. What jobs behind lose or win
        is the difference of the waits of two replays.
        """
        return np.where(self.ran, self.choices["held"], np.nan)

    @property
    def action(self) -> NDArray[np.str_]:
        """What was decided last: a word of policies/core/vocabulary.h."""
        return np.asarray(np.array(ACTIONS)[self.choices["action"]])

    @property
    def reason(self) -> NDArray[np.str_]:
        """Why; `none`: the policy gives no reasons."""
        return np.asarray(np.array(REASONS)[self.choices["reason"]])
