"""The cases that show what Sluice's gates gain, and what becomes of their jobs.

Both cases hold the same two programs (measured_programs.py) and differ in one number:

- `WIDE`: VICTIM on 8 nodes, then STREAM on 1. Sharing costs 8 nodes the time for which
  the stream starves them; waiting costs 1 node the rest of the victim's run time.
- `EQUAL`: both on 1 node. Waiting would cost more than it saves, so Sluice must do
  nothing.

A job's other nodes wait for its I/O, as in any bulk-synchronous program; here the writing
is done on its first node. A *bystander* that only computes is in each case: nobody may
touch it.
"""

from dataclasses import dataclass

BYSTANDER = "analysis"
COMPUTING = 8.0  # seconds that the bystander computes


@dataclass(frozen=True)
class Case:
    name: str
    victim_nodes: int
    why: str


WIDE = Case("wide victim", 8, "a wide job that a narrow stream would starve")
EQUAL = Case("equal widths", 1, "the same two programs on one node each")


@dataclass(frozen=True)
class Outcome:
    """What became of a job. Seconds; times since the epoch."""

    job_id: int
    name: str
    nodes: int
    action: str  # decided at submission
    lanes: tuple[str, ...]  # of the tokens with which it started
    submitted: float
    started: float
    ended: float
    io: float
    alone: float  # what it takes with nobody else there

    @property
    def writes(self) -> bool:
        return self.name != BYSTANDER

    @property
    def wait(self) -> float:
        return self.started - self.submitted

    @property
    def run(self) -> float:
        return self.ended - self.started

    @property
    def lost(self) -> float:
        """Node-seconds lost to others and to waiting; can be just below 0, by noise."""
        return self.nodes * (self.run - self.alone + self.wait)


@dataclass(frozen=True)
class Run:
    """One run of a case in one mode."""

    case: Case
    mode: str
    jobs: tuple[Outcome, ...]  # in the order of their submission

    @property
    def lost(self) -> float:
        """Node-seconds, of all jobs."""
        return sum(job.lost for job in self.jobs)

    def job(self, name: str) -> Outcome:
        return next(job for job in self.jobs if job.name == name)


@dataclass(frozen=True)
class Prediction:
    """By how many node-seconds the core expects enforce to lower the loss."""

    low: float
    expected: float
    high: float
