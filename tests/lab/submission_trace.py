"""A trace of submissions through the decision core, the cluster staying as one snapshot says."""

import json

from core_calls import join_lanes, strip_request

from sluice.policies import core
from sluice.policies.record import MAX_LANES, Situation, decide

PLENTY = (1_000_000,) * MAX_LANES
"""As if slurm.conf defined every token."""

ONLY_LIVE = ("version", "size", "boot", "number", "cluster")
"""Members of a record that depend on the slurmctld it was made in, not on the decision."""


def replay_submissions(jobs, *, bundle, snapshot, config):
    """Decide on each job at its own `time` (UTC s); its other members: struct sluice_request."""
    situation = Situation(bundle, snapshot)
    reserved = join_lanes(bundle.policy, config.policy)
    for number, job in enumerate(jobs, start=1):
        request = {name: value for name, value in job.items() if name != "time"}
        submission = core.submission_of(strip_request(reserved, request))
        yield decide(situation, config, submission, job["time"], number=number, totals=PLENTY)


def decision_line(record):
    """Return a record as one line of JSON: equal lines are equal decisions, to the last bit."""
    members = {name: value for name, value in record.to_dict().items() if name not in ONLY_LIVE}
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"))
