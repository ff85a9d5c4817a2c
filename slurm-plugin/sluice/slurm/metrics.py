"""What sluiced tells Prometheus: a text file for the textfile collector of its node_exporter.

It lies next to the snapshot and names no job and no user, so that everybody may read it. Counters
begin anew with sluiced, but for those that the plugin keeps. What is not known is left out.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.policies.container import write_atomically
from sluice.slurm import service
from sluice.slurm.status import learner_path, read_status, services
from sluice.slurm.turns import turns_now

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sluice.history_db.records import Coverage, HeldBurst
    from sluice.policies.core import Config
    from sluice.policies.record import Record
    from sluice.slurm.gates.leases import Account
    from sluice.slurm.gates.snapshot import LaneLoad
    from sluice.slurm.status import Status

INTERVAL = 15.0
"""Seconds from one file to the next: that of Prometheus itself."""
EVERYBODY_READS = 0o644
NANO = 1e-9

METRICS = {
    # name: (type, what it counts)
    "sluice_lost_node_hours": ("gauge", "lost by jobs to others' I/O, of this day and of 30 days"),
    "sluice_predicted_node_hours": ("gauge", "likewise, predicted to be lost by sharing"),
    "sluice_saved_node_hours": ("gauge", "likewise, predicted to be saved by what Sluice did"),
    "sluice_lane_load_bytes_per_second": ("gauge", "expected of the running jobs, by lane"),
    "sluice_lane_bandwidth_bytes_per_second": ("gauge", "that a lane is configured to do"),
    "sluice_target_bytes_per_second": ("gauge", "read and written lately, as servers counted it"),
    "sluice_updated_timestamp_seconds": ("gauge", "when sluiced wrote this file"),
    "sluice_on": ("gauge", "0: switched off by `sluice off`"),
    "sluice_mode": ("gauge", "1 for the mode in use"),
    "sluice_decisions_total": ("counter", "decisions that sluiced took up, by action and reason"),
    "sluice_jobs": ("gauge", "jobs of Slurm's queue, by state"),
    "sluice_wait_seconds_total": ("counter", "seconds that jobs have waited for tokens, in all"),
    "sluice_longest_wait_seconds": ("gauge", "Longest current wait for a token, in seconds"),
    "sluice_releases_total": ("counter", "jobs that were released from their tokens, by reason"),
    "sluice_gate_tokens": ("gauge", "tokens that a gate lets out"),
    "sluice_held_tokens": ("gauge", "tokens that running jobs hold"),
    "sluice_wanted_tokens": ("gauge", "tokens that waiting jobs want"),
    "sluice_plugin_up": ("gauge", "whether the plugin inside slurmctld answers"),
    "sluice_submissions_total": ("counter", "submissions that the plugin has seen"),
    "sluice_opt_outs_total": ("counter", "jobs whose users dropped Sluice, by means"),
    "sluice_submit_cpu_seconds": ("histogram", "processor time of a timed submission"),
    "sluice_ring_records": ("gauge", "decision records that wait in the plugin"),
    "sluice_ring_size": ("gauge", "decision records that the plugin has room for"),
    "sluice_records_lost_total": ("counter", "decision records that were lost, by place"),
    "sluice_bundle_timestamp_seconds": ("gauge", "when the bundle in use was written"),
    "sluice_snapshot_timestamp_seconds": ("gauge", "when the snapshot was written"),
    "sluice_poll_seconds": ("summary", "what polls of sluiced took"),
    "sluice_longest_poll_seconds": ("gauge", "the longest poll since the last file"),
    "sluice_failing": ("gauge", "1 for each thing that fails, by daemon and topic"),
    "sluice_service_runs": ("gauge", "whether the daemon of a service lives"),
    "sluice_service_works": ("gauge", "whether a service worked when it ran last"),
    "sluice_service_timestamp_seconds": ("gauge", "when a service ran last"),
    "sluice_coverage_share": ("gauge", "share of all jobs, node-seconds, bytes with a log"),
    "sluice_scored_predictions": ("gauge", "predictions of the last week, of jobs that have ended"),
    "sluice_true_predictions_share": ("gauge", "of those acted on, the share that came true"),
    "sluice_volumes_within_2_share": ("gauge", "likewise, with the volume right within 2"),
    "sluice_last_runs_within_2_share": ("gauge", "likewise, had the user's last run been told"),
    "sluice_history_bytes": ("gauge", "size of the history"),
    "sluice_program_up": ("gauge", "whether a program runs that sluiced is to run"),
    "sluice_program_start_timestamp_seconds": ("gauge", "when a program was started last"),
    "sluice_program_restarts_total": ("counter", "how often sluiced started a program again"),
    "sluice_program_exit_timestamp_seconds": ("gauge", "when a program ended last"),
    "sluice_turns_up": ("gauge", "whether sluice-turns runs, where TurnsPort is set"),
    "sluice_turns_agents": ("gauge", "agents of nodes that sluice-turns hears"),
    "sluice_turns_bursts": ("gauge", "bursts of now, by state"),
    "sluice_turns_holds_total": ("counter", "times that a burst was held"),
    "sluice_turns_held_seconds_total": ("counter", "seconds that bursts were held"),
    "sluice_turns_budgets_total": ("counter", "bursts that used up their budget"),
    "sluice_turns_trials_total": ("counter", "times that a held burst went, to see if holds help"),
    "sluice_turns_no_help_total": ("counter", "bursts not held because holds did not help"),
    "sluice_turns_covered_share": ("gauge", "share of written bytes that turns can hold"),
}
"""All there are; the docs, the dashboard and the alerts name no other."""

Labels = dict[str, str]
Sample = tuple[str, Labels, float]


@dataclass(slots=True)
class Metrics:
    """What is counted from poll to poll."""

    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    waited: float = 0.0
    holds: int = 0
    held_seconds: float = 0.0
    budgets: int = 0
    polls: int = 0
    poll_seconds: float = 0.0
    longest_poll: float = 0.0
    longest_wait: float = 0.0
    _follows: bool = False
    _began: float = field(default_factory=time.time)
    _due: float = 0.0

    def add_records(self, records: Sequence[Record]) -> None:
        for record in records:
            self.decisions[record.decision.action, record.decision.reason] += 1

    def add_waits(self, seconds: float, longest: float) -> None:
        """Take up what jobs with tokens have waited since the last poll, and one of them in all."""
        if self._follows:  # else an earlier sluiced has counted them
            self.waited += seconds
        self._follows = True
        self.longest_wait = longest

    def add_bursts(self, bursts: Sequence[HeldBurst]) -> None:
        held = [burst for burst in bursts if burst.is_held and burst.began >= self._began]
        self.holds += sum(burst.holds for burst in held)
        self.held_seconds += sum(burst.held for burst in held)
        self.budgets += sum(burst.ended == BUDGET for burst in held)

    def add_poll(self, seconds: float) -> None:
        self.polls += 1
        self.poll_seconds += seconds
        self.longest_poll = max(self.longest_poll, seconds)

    def is_due(self) -> bool:
        return time.monotonic() >= self._due

    def write(self, config: Config, seen: Situation) -> None:
        """Replace the file as a whole; raises OSError."""
        self._due = time.monotonic() + INTERVAL
        samples = [*self._own(), *of_site(config, seen)]
        write_atomically(metrics_path(config), text_of(samples).encode(), mode=EVERYBODY_READS)
        self.longest_poll = 0.0

    def _own(self) -> Iterator[Sample]:
        for (action, reason), count in self.decisions.items():
            yield "sluice_decisions_total", {"action": action, "reason": reason}, count
        yield "sluice_wait_seconds_total", {}, self.waited
        yield "sluice_longest_wait_seconds", {}, self.longest_wait
        yield "sluice_poll_seconds_sum", {}, self.poll_seconds
        yield "sluice_poll_seconds_count", {}, self.polls
        yield "sluice_longest_poll_seconds", {}, self.longest_poll
        yield "sluice_turns_holds_total", {}, self.holds
        yield "sluice_turns_held_seconds_total", {}, self.held_seconds
        yield "sluice_turns_budgets_total", {}, self.budgets


BUDGET = "budget"
"""How a burst ended that used up its budget (controller/turns/journal.c)."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What sluiced knows at the moment."""

    status: Status
    running: int
    pending: int
    accounts: Sequence[Account]
    releases: Mapping[str, int]
    """By reason."""
    plugin: Mapping[str, Any]
    """Its stats; empty: it does not answer."""
    lost: int
    """Records that sluiced lost, in the end."""
    coverage: Coverage | None
    loads: Sequence[LaneLoad] = ()
    targets: Mapping[str, float] = field(default_factory=dict)
    """B/s of each, as far as servers counted lately."""


def metrics_path(config: Config) -> Path:
    snapshot = Path(config.snapshot)
    return snapshot.with_name(snapshot.name + ".prom")


def of_site(config: Config, seen: Situation) -> Iterator[Sample]:
    yield "sluice_updated_timestamp_seconds", {}, time.time()
    yield "sluice_on", {}, not service.is_off(config)
    yield "sluice_mode", {"mode": config.mode}, 1
    yield "sluice_jobs", {"state": "running"}, seen.running
    yield "sluice_jobs", {"state": "pending"}, seen.pending
    for reason, count in seen.releases.items():
        yield "sluice_releases_total", {"reason": reason}, count
    for one in seen.accounts:
        labels = {"token": one.token, "lane": str(one.lane), "class": one.klass}
        if one.gate is not None:
            yield "sluice_gate_tokens", labels, one.gate
        yield "sluice_held_tokens", labels, one.held
        yield "sluice_wanted_tokens", labels, one.wanted
    for load in seen.loads:
        yield "sluice_lane_load_bytes_per_second", {"lane": load.lane}, load.rate
        if load.bandwidth:
            yield "sluice_lane_bandwidth_bytes_per_second", {"lane": load.lane}, load.bandwidth
    for target, rate in seen.targets.items():
        yield "sluice_target_bytes_per_second", {"target": target}, rate
    yield "sluice_records_lost_total", {"place": "sluiced"}, seen.lost
    yield from _of_plugin(seen.plugin)
    yield from _of_files(config)
    yield from _of_services(config, seen.status)
    if seen.coverage is not None and seen.coverage.jobs:
        whole = seen.coverage
        for name, part, total in (
            ("jobs", whole.logged_jobs, whole.jobs),
            ("node_seconds", whole.logged_node_seconds, whole.node_seconds),
            ("bytes", whole.logged_bytes, whole.bytes),
        ):
            if total:
                yield "sluice_coverage_share", {"of": name}, part / total
    yield from of_turns(config)


def _of_plugin(stats: Mapping[str, Any]) -> Iterator[Sample]:
    yield "sluice_plugin_up", {}, bool(stats)
    if not stats:
        return
    yield "sluice_submissions_total", {}, stats["submissions"]
    for means, count in stats["opt_outs"].items():
        yield "sluice_opt_outs_total", {"means": means}, count
    ring = stats["ring"]
    yield "sluice_ring_records", {}, ring["used"]
    yield "sluice_ring_size", {}, ring["size"]
    yield "sluice_records_lost_total", {"place": "plugin"}, ring["dropped"] + ring["lost"]
    timed = stats["cpu_ns"]["all"]
    below = 0
    for upper, count in timed["buckets"]:
        below += count
        bound = f"{upper * NANO:.3g}"
        yield "sluice_submit_cpu_seconds_bucket", {"le": bound}, below
    yield "sluice_submit_cpu_seconds_bucket", {"le": "+Inf"}, timed["count"]
    yield "sluice_submit_cpu_seconds_count", {}, timed["count"]
    yield "sluice_submit_cpu_seconds_sum", {}, _sum(timed["buckets"]) * NANO


def _sum(buckets: Sequence[Sequence[int]]) -> float:
    """Return about the sum, by the upper bounds: the plugin keeps no exact one."""
    return float(sum(upper * count for upper, count in buckets))


def _of_files(config: Config) -> Iterator[Sample]:
    for name, path in (("bundle", config.bundle), ("snapshot", config.snapshot)):
        with suppress(OSError):
            yield f"sluice_{name}_timestamp_seconds", {}, Path(path).stat().st_mtime
    with suppress(OSError):
        yield "sluice_history_bytes", {}, Path(config.history).stat().st_size


def _of_services(config: Config, own: Status) -> Iterator[Sample]:
    for topic in own.failing:
        yield "sluice_failing", {"daemon": "sluiced", "topic": topic}, 1
    for one in services(config):
        labels = {"service": one["service"]}
        yield "sluice_service_runs", labels, one["is_running"]
        if one["works"] is not None:
            yield "sluice_service_works", labels, one["works"]
        if one["ran"] is not None:
            yield "sluice_service_timestamp_seconds", labels, one["ran"]
    yield from _of_programs(own)
    if learner := read_status(learner_path(Path(config.history))):
        yield from _of_learner(learner)


def _of_learner(learner: Status) -> Iterator[Sample]:
    """Yield how right predictions were, and what Sluice brings."""
    for topic in learner.failing:
        yield "sluice_failing", {"daemon": "sluice-learn", "topic": topic}, 1
    for fact, name in (
        ("scored", "sluice_scored_predictions"),
        ("came_true", "sluice_true_predictions_share"),
        ("within_2", "sluice_volumes_within_2_share"),
        ("last_within_2", "sluice_last_runs_within_2_share"),
    ):
        if fact in learner.facts:
            yield name, {}, float(learner.facts[fact])
    for span in ("day", "month"):
        for name in ("lost", "predicted", "saved"):
            if (told := learner.facts.get(f"{span}_{name}_node_hours")) is not None:
                yield f"sluice_{name}_node_hours", {"of": span}, float(told)


def _of_programs(own: Status) -> Iterator[Sample]:
    """Yield how the programs fare that sluiced runs."""
    for name, row in own.children.items():
        labels = {"program": name}
        yield "sluice_program_up", labels, row["since"] is not None
        yield "sluice_program_restarts_total", labels, row["restarts"]
        if row["since"] is not None:
            yield "sluice_program_start_timestamp_seconds", labels, row["since"]
        if row["ended"] is not None:
            yield "sluice_program_exit_timestamp_seconds", labels, row["ended"]


def of_turns(config: Config) -> Iterator[Sample]:
    """Yield what sluice-turns counts; its totals begin anew with it."""
    if not config.turns_port:
        return
    now = turns_now(config)
    yield "sluice_turns_up", {}, now is not None
    if now is None:
        return
    yield "sluice_turns_agents", {}, int(now["agents"])
    for state in ("active", "holding"):
        yield "sluice_turns_bursts", {"state": state}, int(now[state])
    for count in ("trials", "no_help"):
        yield f"sluice_turns_{count}_total", {}, int(now.get(count, 0))
    if now["covered"] is not None:
        yield "sluice_turns_covered_share", {}, now["covered"]


def text_of(samples: Sequence[Sample]) -> str:
    """Write samples in Prometheus' text format, those of a metric together."""
    lines = []
    for name, (kind, meaning) in METRICS.items():
        ends = {"histogram": ("_bucket", "_count", "_sum"), "summary": ("_count", "_sum")}
        names = {name + end for end in ends.get(kind, ("",))}
        rows = [sample for sample in samples if sample[0] in names]
        if rows:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", *map(_line, rows)]
    return "\n".join([*lines, ""])


def _line(sample: Sample) -> str:
    name, labels, value = sample
    shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{shown}}} {float(value):.12g}" if shown else f"{name} {float(value):.12g}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
