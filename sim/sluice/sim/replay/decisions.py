"""Replays a trace of submissions through the decision core.

Traces of submissions: JSON Lines, one object a submission. The members are those of struct
sluice_request (policies/core/request.h), what a user asked Slurm for, and `time`, the UTC second of
the submission. A member that is absent or null was not given.

The first form of the simulator: the state of the cluster stays as one snapshot says.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.policies import core
from sluice.policies.record import MAX_LANES, Situation, decide, join_lanes, strip_request
from sluice.sim.engine import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sluice.policies.bundle import Bundle
    from sluice.policies.core import Config, View
    from sluice.policies.record import Record
    from sluice.policies.snapshot import Snapshot


TIMES = range(1 << 40)  # UTC seconds: far enough, and no sum overflows


@dataclass(frozen=True, slots=True)
class Submitted:
    """One line of a trace."""

    time: int
    """UTC seconds."""
    request: Mapping[str, Any]
    """Members of struct sluice_request."""
    submission: View
    """struct sluice_submission: what the plugin makes of the request."""


def read_trace(name: str, lines: Iterable[str]) -> Iterator[Submitted]:
    """Yield the submissions of a trace in its order; blank lines are skipped.

    name is the file's, for errors.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield parse_line(line)
        except ValueError as error:
            raise TraceError(f"{name}:{number}: {error}") from error


def parse_line(line: str) -> Submitted:
    """Parse one line; a ValueError says what is wrong."""
    try:
        request = json.loads(line, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply; give one flat JSON object a line") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON ({error}); give one object a line") from None
    if not isinstance(request, dict):
        raise ValueError(  # noqa: TRY004 - the line is wrong, not a caller
            "no JSON object; write {…} with the members of struct sluice_request"
        )
    time = request.pop("time", None)
    if not _is_whole(time) or time not in TIMES:
        raise ValueError("no time; give `time` as whole UTC seconds")
    return Submitted(time, request, _submission(request))


def _submission(request: dict[str, Any]) -> View:
    """Turn a request into what the plugin would make of it."""
    try:
        return core.submission_of(request)
    except (AttributeError, TypeError, OverflowError, UnicodeEncodeError):
        for name, value in request.items():
            _check_member(name, value)
        raise


def _check_member(name: str, value: Any) -> None:
    try:
        core.submission_of({name: value})
    except AttributeError:
        raise ValueError(
            f"unknown member {name}; use those of struct sluice_request (policies/core/request.h)"
        ) from None
    except (TypeError, OverflowError, UnicodeEncodeError):
        raise ValueError(
            f"{name} cannot be {json.dumps(value)[:80]}; see struct sluice_request "
            "(policies/core/request.h)"
        ) from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of a submission")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


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
