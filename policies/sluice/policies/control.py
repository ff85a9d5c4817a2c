"""The control loop of the core: the queue's jobs, polled together.

policies/core/control.h says what it does. A Loop keeps the array of jobs from poll to poll.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sluice.policies._core import ffi, lib
from sluice.policies.record import Record, Tokens
from sluice.policies.structs import CLASSES, RELEASES, View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sluice.policies.core import Config
    from sluice.policies.record import Situation

LATER: int = lib.SLUICE_CONTROL_LATER
WAITS: int = lib.SLUICE_CONTROL_WAITS
RUNS: int = lib.SLUICE_CONTROL_RUNS

ARRAY: int = lib.SLUICE_CONTROL_ARRAY
RECORDED: int = lib.SLUICE_CONTROL_RECORDED
GRANTED: int = lib.SLUICE_CONTROL_GRANTED
PREDICTED: int = lib.SLUICE_CONTROL_PREDICTED
NEXT: int = lib.SLUICE_CONTROL_NEXT
QUEUES: int = lib.SLUICE_CONTROL_QUEUES
ANYWHERE: int = lib.SLUICE_CONTROL_ANYWHERE
ROOM: int = lib.SLUICE_CONTROL_ROOM
SPARED: int = lib.SLUICE_CONTROL_SPARED

MOST_RELEASES: int = lib.SLUICE_CONTROL_RELEASES
"""That one poll commands."""

FIRST_CAPACITY = 1024


def release_text(release: str) -> str:
    """Explain a reason of a release in a sentence; one of another version stays a word."""
    if release not in RELEASES:
        return release
    return str(ffi.string(lib.sluice_release_text(RELEASES.index(release))).decode())


def new_rooms(count: int) -> Any:
    """Make an array of struct sluice_control_room."""
    return ffi.new("struct sluice_control_room[]", count)


def no_pressure() -> Any:
    """Return the struct sluice_pressure of a job of which nothing is known."""
    return ffi.new("struct sluice_pressure *")[0]


def new_facts() -> Any:
    """Make a struct sluice_control_facts."""
    return ffi.new("struct sluice_control_facts *")


K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Action(Generic[K]):
    """What is commanded for a job."""

    key: K
    release: str | None
    """Why its tokens are taken off; None: they are exchanged."""
    tokens: Tokens
    """Those that it gets instead."""


class Loop(Generic[K]):
    """The jobs of a queue, by any key, and what the core keeps of each."""

    def __init__(self) -> None:
        self._indices: dict[K, int] = {}
        self._keys: list[K] = []
        self._unused: list[int] = []
        self._count = 0
        self._capacity = 0
        self._jobs: Any = ffi.NULL
        self._submissions: Any = ffi.NULL
        self._handle: Any = ffi.NULL
        self._grow(FIRST_CAPACITY)

    def __contains__(self, key: K) -> bool:
        return key in self._indices

    def __getitem__(self, key: K) -> Any:
        """Return the struct sluice_control_job of a key, which stays valid until the next add."""
        return self._jobs[self._indices[key]]

    def add(self, key: K) -> Any:
        """Return the struct of a key; a new one is all zero."""
        index = self._indices.get(key)
        if index is None:
            if self._unused:
                index = self._unused.pop()
            else:
                if self._count == self._capacity:
                    self._grow(2 * self._capacity)
                index = self._count
                self._count += 1
                self._keys.append(key)
            self._indices[key] = index
            self._keys[index] = key
        return self._jobs[index]

    def remove(self, key: K) -> None:
        index = self._indices.pop(key)
        ffi.memmove(ffi.addressof(self._jobs, index), _NOBODY, _SIZE)
        self._unused.append(index)

    def __len__(self) -> int:
        return len(self._indices)

    def __iter__(self) -> Iterator[K]:
        return iter(self._indices)

    def reorder(self, priorities: Mapping[K, int]) -> None:
        """Take up other priorities of jobs, as far as they are there."""
        indices, jobs = self._indices, self._jobs
        for key, priority in priorities.items():
            if (index := indices.get(key)) is not None:
                jobs[index].priority = priority

    def find_room(self, rooms: Any, count: int, facts: Any) -> None:
        lib.sluice_control_room(self._handle, self._jobs, self._count, rooms, count, facts)

    def bound(self, facts: Any) -> None:
        lib.sluice_control_bound(self._handle, self._jobs, self._count, facts)

    def poll(
        self,
        situation: Situation,
        config: Config,
        facts: Any,
        submission_of: Callable[[K], View | None],
    ) -> Gates:
        """Decide again and size the gates.

        submission_of tells what a job was submitted with, None: unknown. It is asked for the few
        that are to be decided on.
        """
        out = ffi.new("struct sluice_control_gates *")
        asked = self._undecided(facts)
        known = {index: submission_of(self._keys[index]) for index in asked}
        for index, submission in known.items():
            self._submissions[index] = submission.struct if submission else ffi.NULL
        lib.sluice_control_poll(
            self._handle,
            self._jobs,
            self._submissions,
            self._count,
            situation.handle,
            config.struct,
            facts,
            out,
        )
        for index in asked:
            self._submissions[index] = ffi.NULL
        return Gates(out)

    def _undecided(self, facts: Any) -> list[int]:
        """Return the indices of the jobs that are to be decided on."""
        out = ffi.new("uint32_t[]", lib.SLUICE_CONTROL_DECISIONS)
        count = lib.sluice_control_undecided(self._handle, self._jobs, self._count, facts, out)
        return list(out[0:count])

    def actions(self) -> list[Action[K]]:
        """Return what has been commanded since `bound`, in order."""
        indices = ffi.new("uint32_t **")
        count = lib.sluice_control_actions(self._handle, indices)
        return [self._action(index) for index in indices[0][0:count]]

    def _action(self, index: int) -> Action[K]:
        verdict = self._jobs[index].verdict
        is_release = verdict.action == lib.SLUICE_VERDICT_RELEASE
        return Action(
            key=self._keys[index],
            release=RELEASES[verdict.release] if is_release else None,
            tokens=Tokens(CLASSES[verdict.tokens.klass], verdict.tokens.lane_mask),
        )

    def holders(self) -> bytes:
        """Return the holders of tokens, as the struct sluice_holder of a snapshot."""
        out = ffi.new("struct sluice_holder[]", self._count)
        count = lib.sluice_control_holders(self._handle, self._jobs, self._count, out)
        return bytes(ffi.buffer(out, count * ffi.sizeof("struct sluice_holder")))

    def starts(self, facts: Any) -> list[tuple[K, list[K]]]:
        """Return the jobs to decide on as they have just started, each with those in front."""
        order = ffi.new("uint32_t[]", self._count)
        due = ffi.new("uint32_t[]", lib.SLUICE_CONTROL_STARTS)
        found = ffi.new("uint32_t *")
        count = lib.sluice_control_starts(
            self._handle, self._jobs, self._count, facts, order, due, found
        )
        keys = [self._keys[index] for index in order[0:count]]
        return [(keys[place], keys[:place]) for place in due[0 : found[0]]]

    def decide(
        self, key: K, submission: View, situation: Situation, config: Config, facts: Any
    ) -> Record:
        """Decide on a job again."""
        arguments = submission.struct, situation.handle, config.struct, facts
        return Record(lib.sluice_control_decide(self._handle, self._indices[key], *arguments)[0])

    def decisions(self) -> Iterator[tuple[K, Record]]:
        """Yield the decisions of the last poll, with the key of the job of each."""
        for i in range(lib.sluice_control_decision_count(self._handle)):
            made = lib.sluice_control_decision(self._handle, i)
            yield self._keys[made.job], Record(made.record)

    def content(self) -> bytes:
        """Return the bytes of all jobs."""
        return bytes(ffi.buffer(self._jobs, self._count * _SIZE))

    def _grow(self, capacity: int) -> None:
        jobs = ffi.new("struct sluice_control_job[]", capacity)
        submissions = ffi.new("struct sluice_submission *[]", capacity)
        handle = lib.sluice_control_create(capacity)
        if handle == ffi.NULL:
            raise MemoryError
        if self._count:
            ffi.memmove(jobs, self._jobs, self._count * _SIZE)
        self._jobs, self._submissions, self._capacity = jobs, submissions, capacity
        self._handle = ffi.gc(handle, lib.sluice_control_destroy)


_SIZE: int = ffi.sizeof("struct sluice_control_job")
_NOBODY = ffi.new("struct sluice_control_job *")


class Gates:
    """How many tokens are let out, by name of the token."""

    def __init__(self, struct: Any) -> None:
        self.struct = struct

    def tokens(self, names: Mapping[str, tuple[int, str]]) -> dict[str, int]:
        """Return the gates that are to be imposed."""
        return {
            token: self.struct.tokens[CLASSES.index(klass)][lane]
            for token, (lane, klass) in names.items()
            if not self.struct.is_given_up[CLASSES.index(klass)][lane]
        }

    def given_up(self, names: Mapping[str, tuple[int, str]]) -> list[str]:
        """Return the tokens whose gates a job waited behind for too long."""
        return [
            token
            for token, (lane, klass) in names.items()
            if self.struct.is_given_up[CLASSES.index(klass)][lane]
        ]
