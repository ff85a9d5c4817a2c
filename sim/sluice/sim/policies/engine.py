"""The policies in C, bound: what decides about jobs in a replay (engine/policies/policies.h)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sluice.sim._engine import ffi, lib
from sluice.sim.engine import outlive, struct_dtype
from sluice.sim.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sluice.sim.policies.site_bundle import SiteBundle

CHOICE = struct_dtype("sluice_policy_result")
"""What a policy did with a job; action and reason are indices of policies.structs."""
GATE_NEED = struct_dtype("sluice_gate_need")


class Decider(Protocol):
    """Who decides in one replay: `table` goes to `engine.run`, `choices` is read after it."""

    @property
    def table(self) -> Any:
        """The struct sluice_replay_policy; NULL: nobody decides."""

    @property
    def choices(self) -> NDArray[Any]:
        """A CHOICE for each job."""


class Nobody:
    """Slurm alone; jobs may have been put on lanes beforehand."""

    table = ffi.NULL

    def __init__(self, jobs: int, lanes: NDArray[np.uint32] | None = None) -> None:
        """Take the lanes of each job as a bit mask (0: all)."""
        self.choices = np.zeros(jobs, CHOICE)
        self.choices["held_since"] = -1
        if lanes is not None:
            self.choices["lane_mask"] = lanes


class Gates:
    """Gates of fixed size, like licences that a site defines by hand."""

    def __init__(
        self,
        room: Sequence[float],
        needs: Sequence[tuple[NDArray[Any], NDArray[Any]]],
        *,
        jobs: int,
        max_delay: float,
    ) -> None:
        """Take the room of each gate and, for each, (jobs, amount that each needs).

        A job that was delayed for max_delay seconds starts without.
        """
        owners = np.concatenate([np.asarray(owner, np.int64) for owner, _ in needs])
        rows = np.zeros(len(owners), GATE_NEED)
        rows["gate"] = np.repeat(np.arange(len(room)), [len(owner) for owner, _ in needs])
        rows["amount"] = np.concatenate([amount for _, amount in needs])
        self._needs = np.ascontiguousarray(rows[np.argsort(owners, kind="stable")])
        counts = np.bincount(owners, minlength=jobs)
        self._first = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
        self._room = np.array(room, np.float64)
        self._jobs = jobs
        setup = ffi.new("struct sluice_gate_setup *")
        setup.room = ffi.cast("double *", self._room.ctypes.data)
        setup.gate_count = len(room)
        setup.job_count = jobs
        setup.first = ffi.cast("uint32_t *", self._first.ctypes.data)
        setup.needs = ffi.cast("struct sluice_gate_need *", self._needs.ctypes.data)
        setup.max_delay = max_delay
        policy = lib.sluice_gates_policy_new(setup)
        if policy == ffi.NULL:
            raise MemoryError
        self._policy = ffi.gc(policy, lib.sluice_gates_policy_destroy)

    @property
    def table(self) -> Any:
        """Valid as long as somebody holds it."""
        return ffi.gc(lib.sluice_gates_policy_table(self._policy), partial(outlive, self))

    @property
    def choices(self) -> NDArray[Any]:
        return results_of(lib.sluice_gates_policy_results(self._policy), self._jobs)


class Core:
    """Sluice: the decision core, by a bundle, deciding as it is deployed."""

    def __init__(self, site: SiteBundle, jobs: NDArray[Any], *, epoch: float) -> None:
        """Take the jobs of a workload (engine.JOB); epoch is the UTC second of time 0."""
        self.site = site
        self._jobs = np.ascontiguousarray(jobs)
        self._application = np.ascontiguousarray(site.application, np.uint32)
        self._submissions = ffi.from_buffer(
            "struct sluice_submission[]", b"".join(one.bytes for one in site.submissions)
        )
        self._bundle = self._parsed(site.bundle)
        self._config = ffi.new("struct sluice_config *")
        error = ffi.new("struct sluice_error *")
        text = site.config.encode()
        if lib.sluice_config_parse(b"sluice.conf", text, len(text), self._config, error):
            raise PolicyError(ffi.string(error.text).decode())
        self.setup = ffi.new(
            "struct sluice_core_setup *",
            {
                "bundle": self._bundle,
                "config": self._config,
                "jobs": ffi.cast("struct sluice_replay_job *", self._jobs.ctypes.data),
                "submissions": self._submissions,
                "application": ffi.cast("uint32_t *", self._application.ctypes.data),
                "job_count": len(jobs),
                "epoch": int(epoch),
            },
        )
        policy = lib.sluice_core_policy_new(self.setup)
        if policy == ffi.NULL:
            raise MemoryError
        self.handle = ffi.gc(policy, lib.sluice_core_policy_destroy)

    @staticmethod
    def _parsed(content: bytes) -> Any:
        out, error = ffi.new("struct sluice_bundle **"), ffi.new("struct sluice_error *")
        if lib.sluice_bundle_parse(content, len(content), out, error):
            raise PolicyError(ffi.string(error.text).decode())
        return ffi.gc(out[0], lib.sluice_bundle_destroy)

    @property
    def table(self) -> Any:
        """Valid as long as somebody holds it."""
        return ffi.gc(lib.sluice_core_policy_table(self.handle), partial(outlive, self))

    @property
    def choices(self) -> NDArray[Any]:
        return results_of(lib.sluice_core_policy_results(self.handle), len(self._jobs))


def results_of(rows: Any, jobs: int) -> NDArray[Any]:
    """Return a copy of C's rows of struct sluice_policy_result."""
    return np.frombuffer(ffi.buffer(rows, jobs * CHOICE.itemsize), CHOICE).copy()
