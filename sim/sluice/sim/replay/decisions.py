"""Replays a trace through the decision core: what the plugin would have decided, byte for byte.

The first form of the simulator: the state of the cluster stays as one snapshot says.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sluice.policies import core
from sluice.policies.record import MAX_LANES, Situation, decide
from sluice.policies.tokens import join_lanes, strip_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice.policies.bundle import Bundle
    from sluice.policies.core import Config
    from sluice.policies.record import Record
    from sluice.policies.snapshot import Snapshot
    from sluice.sim.trace.submissions import Submitted

PLENTY = (1_000_000,) * MAX_LANES
"""Replay assumes that slurm.conf defines every token, as it should."""

ONLY_LIVE = ("version", "size", "boot", "number", "cluster")
"""Members of a record that depend on the slurmctld it was made in, not on the decision."""


def replay_trace(
    submissions: Iterable[Submitted],
    *,
    bundle: Bundle | None,
    snapshot: Snapshot | None,
    config: Config,
) -> Iterator[Record]:
    """Decide on each submission at its own time, in order.

    Without a bundle every job is left alone; without a snapshot nobody knows the co-runners.
    """
    situation = Situation(bundle, snapshot) if bundle else None
    reserved = join_lanes(bundle.policy if bundle else config.policy, config.policy)
    for number, submitted in enumerate(submissions, start=1):
        submission = submitted.submission
        if config.mode != "off":
            submission = core.submission_of(strip_request(reserved, submitted.request))
        yield decide(situation, config, submission, submitted.time, number=number, totals=PLENTY)


def decision_line(record: Record) -> str:
    """Return a record as one line of JSON: equal lines are equal decisions, to the last bit."""
    members = {name: value for name, value in record.to_dict().items() if name not in ONLY_LIVE}
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"))
