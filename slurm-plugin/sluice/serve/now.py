"""The page *now*: lanes, running jobs with I/O, jobs held for I/O, slow targets, metadata.

All is of the latest snapshot, the history and the status files of the daemons. Users who may not
see others' jobs see their own, and of the lanes how busy they are, not how many bytes that is.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from sluice.interference.target_speeds import Lanes, target_speeds
from sluice.policies.core import CLASSES
from sluice.policies.record import token_name
from sluice.serve import loads
from sluice.serve.tables import (
    RATE,
    SECONDS,
    SHARE,
    Cell,
    Column,
    Page,
    Table,
    job_cell,
    moment,
    number,
    words,
)
from sluice.slurm.gates.snapshot import lane_loads, mean_of
from sluice.slurm.status import learner_path, read_status
from sluice.slurm.turns import turns_now
from sluice.slurm.views.formatting import (
    NOTHING,
    amount_text,
    duration_text,
    share_text,
    time_text,
)
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sluice.history_db.records import Job
    from sluice.history_db.store import Store
    from sluice.policies.core import View
    from sluice.serve.site import Reader, Site
    from sluice.slurm.gates.snapshot import LaneLoad

Facts = dict[str, Any]

TARGETS_SECONDS = 60
"""For so long the speeds of targets stand, as in sluiced."""
LOADS_SECONDS = 60
"""Likewise what is drawn over time."""
BENEFIT_SPANS = {"day": "today", "month": "in 30 days"}
BENEFIT = {"lost": "lost", "predicted": "predicted to be lost", "saved": "saved"}
REFRESH_SECONDS = 5
"""A page that is looked at is renewed no faster, whatever FollowInterval is."""
LEVELS = ((0.05, "idle"), (0.35, "little"), (0.7, "some"), (1.0, "busy"))
"""What users who may not see all jobs are told of a lane's load."""
FULL = "full"


@dataclass(slots=True)
class _Jobs:
    """What the history knows of jobs, and whose the viewer may see."""

    store: Store
    reader: Reader
    cluster: str | None
    names: dict[int, str] = field(default_factory=dict)
    """Of users, by uid: who asks for one asks a directory service."""

    def job(self, job_id: int) -> Job | None:
        return self.store.jobs.job(job_id, self.cluster)

    def visible(self, job: Job | None) -> bool:
        return self.reader.viewer.sees(job.uid if job else None)

    def user(self, uid: int) -> str:
        if uid not in self.names:
            self.names[uid] = user_text(uid)
        return self.names[uid]

    def facts(self, job_id: int, job: Job | None) -> Facts:
        uid = job.uid if job else None
        return {
            "job_id": job_id,
            "name": job.name if job else None,
            "user": None if uid is None else self.user(uid),
        }


class Now:
    """Collects the facts of one request."""

    def __init__(self, site: Site, store: Store, reader: Reader) -> None:
        self._site, self._store, self._who = site, store, reader
        self._jobs = _Jobs(store, reader, site.cluster)
        self._snapshot = site.snapshot
        self._policy = site.policy
        self._now = site.now

    def facts(self) -> Facts:
        """Return what programs get; of others' jobs only what the viewer may see."""
        turns = turns_now(self._site.config)
        return {
            "now": self._now,
            "mode": self._site.config.mode,
            "is_off": self._site.is_off,
            "is_followed": self._site.is_followed,
            "snapshot": self._state(),
            "lanes": list(self._lanes()),
            "writing": self._writing,
            "waiting": list(self._waiting()),
            "targets": self._targets(),
            "turns": None if turns is None else self._turns(turns),
            "benefit": self._benefit(),
        }

    def loads(self, waiting: Sequence[Facts]) -> list[Table]:
        """Draw lanes and targets over time, for users who see all jobs."""
        if not self._who.viewer.sees_all:
            return []

        def draw() -> list[Table]:
            return loads.tables(self._store, self._policy, self._site.cluster, self._now, waiting)

        drawn: list[Table] = self._site.latest.for_seconds(LOADS_SECONDS, "loads", draw)
        return drawn

    def _benefit(self) -> Facts | None:
        """Return the node-hours that sluice-learn added up, as a report does; None: not yet."""
        learner = read_status(learner_path(self._site.history))
        names = [f"{span}_{name}_node_hours" for span in BENEFIT_SPANS for name in BENEFIT]
        if not self._who.viewer.sees_all or learner is None or names[0] not in learner.facts:
            return None
        told = {name: learner.facts[name] for name in names}
        return told | {"computed": learner.ran.get("scoring")}

    def _state(self) -> Facts | None:
        if self._snapshot is None:
            return None
        state = self._snapshot.state
        age = max(0, self._now - state.taken)
        counts = {"running": state.running, "pending": state.pending, "unknown": state.unknown}
        return {
            "taken": state.taken,
            "age": age,
            "is_stale": age > self._policy.max_snapshot_age,
            **(counts if self._who.viewer.sees_all else {}),
        }

    @cached_property
    def _corunners(self) -> list[View]:
        return self._snapshot.corunners() if self._snapshot else []

    @cached_property
    def _writing(self) -> list[Facts]:
        """Running jobs that matter to storage, as the viewer may see them, the heaviest first."""
        found = []
        for corunner in self._corunners:
            job = self._jobs.job(corunner.job_id)
            if not self._jobs.visible(job):
                continue
            profile = corunner.profile
            found.append(
                {
                    **self._jobs.facts(corunner.job_id, job),
                    "nodes": corunner.nodes,
                    "lanes": self._lane_names(corunner.lane_mask),
                    "class": corunner.klass,
                    "pattern": profile.pattern,
                    "chunk_bytes": profile.chunk_bytes,
                    "confidence": profile.confidence,
                    "load": mean_of(profile, "rate"),
                    "metadata": mean_of(profile, "metadata_rate"),
                    "expected_end": corunner.expected_end,
                }
            )
        return sorted(found, key=lambda row: -(row["load"] or 0.0))

    def _lane_names(self, mask: int) -> list[str]:
        """Name the lanes of a mask; none: all of them."""
        lanes = self._policy.lanes
        return [lane.name for bit, lane in enumerate(lanes) if mask >> bit & 1]

    def _lanes(self) -> Iterator[Facts]:
        gates, holders = self._gates(), self._holders()
        for bit, load in enumerate(lane_loads(self._policy, self._corunners)):
            yield {
                "lane": load.lane,
                "bandwidth": load.bandwidth,
                "speed": self._speed(load.lane),
                **self._lane_load(load),
                "tokens": [
                    self._token(bit, klass, gates, holders) for klass in CLASSES if klass != "none"
                ],
            }

    def _speed(self, lane: str) -> float:
        return self._snapshot.lane_speed(lane) if self._snapshot else 1.0

    def _lane_load(self, load: LaneLoad) -> Facts:
        level = _level(load.share)
        if self._who.viewer.sees_all:
            return {"jobs": load.jobs, "load": load.rate, "share": load.share, "level": level}
        return {"jobs": None, "load": None, "share": None, "level": level}

    def _holders(self) -> list[tuple[View, Job | None]]:
        """Return who holds or wants tokens, and their jobs."""
        if self._snapshot is None:
            return []
        holders = map(self._snapshot.holder, self._snapshot.waited())
        return [(one, self._jobs.job(one.job_id)) for one in holders if one is not None]

    def _gates(self) -> Mapping[str, int]:
        """Return the tokens that gates let out, where sluiced lives to tell; others are open."""
        if self._site.config.mode != "enforce" or self._site.is_off or not self._site.is_followed:
            return {}
        latest = self._store.gates.latest_running_set()
        return latest.gates if latest else {}

    def _token(
        self,
        bit: int,
        klass: str,
        gates: Mapping[str, int],
        holders: list[tuple[View, Job | None]],
    ) -> Facts:
        name = token_name(self._policy, bit, klass)
        here = [job for one, job in holders if one.klass == klass and one.lane_mask >> bit & 1]
        waiting = sum(_is_waiting(job) for job in here)
        return {
            "token": name,
            "class": klass,
            "gate": gates.get(name),
            "held": len(here) - waiting,
            "waiting": waiting,
        }

    def _waiting(self) -> Iterator[Facts]:
        """Yield the jobs that wait and want tokens: how long, and how much longer at most."""
        waited = self._snapshot.waited() if self._snapshot else {}
        for holder, job in self._holders():
            if not _is_waiting(job) or not self._jobs.visible(job):
                continue
            seconds = waited[holder.job_id]
            yield {
                **self._jobs.facts(holder.job_id, job),
                "class": holder.klass,
                "lanes": self._lane_names(holder.lane_mask),
                "waited": seconds,
                "at_most": max(0.0, self._policy.max_delay - seconds),
            }

    def _targets(self) -> list[Facts]:
        """Return the storage targets that are slow, judged at most once a minute."""
        config, store = self._site.config, self._store

        def judge() -> list[Facts]:
            found = target_speeds(store, Lanes.of(config), self._now)
            return [asdict(one) | {"published": one.published} for one in found]

        judged: list[Facts] = self._site.latest.for_seconds(TARGETS_SECONDS, "targets", judge)
        return [one for one in judged if one["verdict"] == "slow"]

    def _turns(self, found: Facts) -> Facts:
        """Leave out the bursts of jobs that the viewer may not see, and which jobs go first."""
        bursts = []
        for burst in found["bursts"]:
            job = self._jobs.job(burst["job_id"])
            if self._jobs.visible(job):
                bursts.append(self._jobs.facts(burst["job_id"], job) | burst)
        if self._who.viewer.sees_all:
            return found | {"bursts": bursts}
        own = [burst | {"state": burst["state"].partition(" ")[0]} for burst in bursts]
        return {"mode": found["mode"], "bursts": own}


def _is_waiting(job: Job | None) -> bool:
    return job is not None and job.start is None and job.end is None


def _level(share: float | None) -> str:
    if share is None:
        return NOTHING
    return next((word for end, word in LEVELS if share < end), FULL)


# How it looks

JOB = (Column("job", "Job", job_cell, "job_id"), Column("name", "Name"), Column("user", "User"))
LANES = Column("lanes", "Lanes", of=lambda row: ", ".join(row["lanes"]) or "all")
WRITING = (
    *JOB,
    Column("nodes", "Nodes", number),
    LANES,
    Column("pattern", "Pattern"),
    Column("load", "Writes on average", RATE),
    Column("metadata", "Metadata a second", partial(number, text="{:.3g}".format)),
    Column("ends", "Expected end", moment, "expected_end"),
)
WAITING = (
    *JOB,
    Column("class", "Class"),
    LANES,
    Column("waited", "Waits for", SECONDS),
    Column("at_most", "Longer at most", SECONDS),
)
TARGETS = (
    Column("target", "Target"),
    Column("speed", "Speed", partial(number, text=share_text, tone="warn")),
    Column("low", "at least", SHARE),
    Column("high", "at most", SHARE),
    Column("latest", "Seen last", moment),
)


def page(site: Site, store: Store, reader: Reader) -> Page:
    """Lay the facts out."""
    now = Now(site, store, reader)
    facts = now.facts()
    waiting, *more = _more(facts)
    hour, *day = now.loads(facts["waiting"]) or (None,)
    return Page(
        name="now",
        title="Now",
        facts=facts,
        sentences=list(_sentences(facts, sees_all=reader.viewer.sees_all)),
        figures=list(_figures(facts)),
        tables=[waiting, *filter(None, [hour]), _lane_table(facts), *more, *day],
        refresh=max(REFRESH_SECONDS, round(site.config.follow_ms / 1000)),
    )


def _sentences(facts: Facts, *, sees_all: bool) -> Iterator[str]:
    snapshot = facts["snapshot"]
    if snapshot is None:
        yield "There is no snapshot that this version reads: sluiced has not published any."
    elif not facts["is_followed"]:
        yield (
            f"sluiced does not run: this was the state at {time_text(snapshot['taken'])}. "
            "Jobs start as they would without Sluice."
        )
    elif snapshot["is_stale"]:
        yield (
            f"The snapshot is {duration_text(snapshot['age'])} old: the plugin abstains until "
            "sluiced publishes the next one."
        )
    if facts["is_off"]:
        yield "Sluice is switched off: no job is touched."
    if not sees_all:
        yield "You see only the jobs that PrivateData permits."


def _figures(facts: Facts) -> Iterator[tuple[str, Cell]]:
    yield "Mode", words("off" if facts["is_off"] else facts["mode"])
    snapshot = facts["snapshot"]
    if snapshot is not None:
        tone = "warn" if snapshot["is_stale"] else ""
        yield "Snapshot age", number(snapshot["age"], duration_text, tone=tone)
        if "running" in snapshot:
            yield "Jobs running", number(snapshot["running"])
            yield "of them unknown", number(snapshot["unknown"])
            yield "Jobs waiting", number(snapshot["pending"])
    if facts["benefit"]:
        for span, text in BENEFIT_SPANS.items():
            for name, title in BENEFIT.items():
                hours = facts["benefit"][f"{span}_{name}_node_hours"]
                yield f"Node-hours {title} {text}", number(hours, amount_text)
    yield "Held for I/O", number(len(facts["waiting"]))
    turns = facts["turns"]
    if turns is not None and "holding" in turns:
        yield "Bursts held", number(turns["holding"])


def _lane_table(facts: Facts) -> Table:
    return Table.of(
        "lanes",
        "Lanes",
        (
            Column("lane", "Lane"),
            Column("load", "Expected load", RATE),
            Column("share", "Of its bandwidth", SHARE, _share_cell),
            Column("speed", "Speed", _speed_cell),
            Column("jobs", "Jobs", number),
            *(
                Column(
                    token["class"], f"Tokens {token['class']}", of=partial(_token_cell, place=place)
                )
                for place, token in enumerate(facts["lanes"][0]["tokens"])
            ),
        ),
        facts["lanes"],
        note="Tokens: held, of those that the gate releases (no number: unlimited), and the jobs "
        "that wait for one.",
        is_headed=True,
    )


def _share_cell(lane: Facts) -> Cell:
    share = lane["share"]
    if share is None:
        return words(lane["level"])
    return number(share, share_text, share=min(1.0, share), tone="bad" if share > 1 else "")


def _speed_cell(speed: float) -> Cell:
    return number(speed, share_text, tone="warn" if speed < 1 else "")


def _token_cell(lane: Facts, place: int) -> Cell:
    token = lane["tokens"][place]
    if not token["held"] and not token["waiting"] and token["gate"] is None:
        return words(None, tone="dim")
    gate = "" if token["gate"] is None else f" of {token['gate']}"
    waits = f", wanted by {token['waiting']} more" if token["waiting"] else ""
    return words(f"{token['held']}{gate}{waits}", tone="warn" if token["waiting"] else "")


def _more(facts: Facts) -> Iterator[Table]:
    yield Table.of(
        "waiting",
        "Held for I/O",
        WAITING,
        facts["waiting"],
        empty="None.",
    )
    yield Table.of(
        "writing",
        "Running with I/O",
        WRITING,
        facts["writing"],
        empty="No running job's I/O matters.",
        note="Estimated from earlier runs; sort by metadata to find the load of the metadata "
        "server.",
        sorted_by="-load",
    )
    if facts["targets"]:
        yield Table.of(
            "targets",
            "Slow targets",
            TARGETS,
            facts["targets"],
            note="Compared with their peers over the last week, with 95 % confidence.",
            is_headed=True,
        )
    if facts["turns"] is not None:
        yield Table.of(
            "bursts",
            "Bursts in turns",
            (
                *JOB,
                Column("state", "State"),
                Column("since", "For", SECONDS, lambda row: max(0, facts["now"] - row["since"])),
            ),
            facts["turns"]["bursts"],
            empty="No burst is under way.",
        )
