"""Pairwise losses of finished jobs, by one named model.

The interference model that all is judged by is that of the published bundle, by which jobs are
decided; without one, what the history's measurements and production teach; without these, the
published figures of other file systems.

The loss of a run is its time in I/O less that of its I/O alone (prediction/solo_estimate.py), on
each of its nodes. It is divided among the co-runners of a few instants of the run, by the factor
with which the decision core expects them to slow it. Where a run does not tell its time in I/O,
that factor also gives its loss.

Of many jobs that matter some are drawn, and each stands for as many as were not. Among the others
that run, all count.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sluice.history_db.records import program_name
from sluice.interference.busy_runs import node_seconds
from sluice.interference.pairs import site_evidence
from sluice.interference.site_model import Basis, SiteModel
from sluice.policies import core
from sluice.policies.bundle import Bundle, name_of
from sluice.prediction.jobs import profile_members
from sluice.prediction.solo_estimate import latest_undisturbed

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from sluice.history_db.store import Store
    from sluice.interference.pairs import SiteEvidence
    from sluice.policies.core import Config, View
    from sluice.prediction.jobs import Disturbance, FinishedJob


PUBLISHED_FIGURES = "published figures of other file systems (Shah et al.), none of this site"

FASTEST_RUN = "the fastest run of the history"
"""Where the bandwidth is from that the site does not tell."""


@dataclass(frozen=True, slots=True)
class NamedModel:
    """An interference model, and where it comes from."""

    source: str
    """One of bundle, history, published."""
    name: str
    """The same in every output."""
    site: SiteModel
    basis: Basis | None
    """None: the bundle is of a Sluice that did not say."""

    @property
    def struct(self) -> View:
        return self.site.struct()

    def __str__(self) -> str:
        is_told = self.source == "bundle" and self.basis
        return f"{self.name}, from {self.basis}" if is_told else self.name

    def as_json(self) -> dict[str, Any]:
        basis = asdict(self.basis) if self.basis else None
        return {"source": self.source, "name": self.name, "basis": basis}


def default_model(
    store: Store,
    settings: Config,
    *,
    jobs: Sequence[FinishedJob] | None = None,
    evidence: SiteEvidence | None = None,
) -> NamedModel:
    """Return the model of the configuration's bundle, else the history's, else the published one.

    jobs: the latest undisturbed ones, and evidence: what the history has, where they were read
    already. Raises OSError, CoreError.
    """
    path = Path(settings.bundle)
    if path.is_file():
        return _of_bundle(path)
    site = (evidence or site_evidence(store, jobs=jobs)).model()
    if site.basis.count:
        name = f"a fit to the history {store.path}: {site.basis}"
        return NamedModel("history", name, site, site.basis)
    return NamedModel("published", PUBLISHED_FIGURES, site, site.basis)


def _of_bundle(path: Path) -> NamedModel:
    bundle = Bundle.read(path)
    basis = basis_told(bundle.text)
    bandwidth = _told(bundle.text).get("bandwidth", 0.0)
    site = SiteModel(bundle.interference.to_dict(), bandwidth, basis or Basis())
    return NamedModel("bundle", name_of(path, bundle.created), site, basis)


def basis_told(text: str) -> Basis | None:
    """Return what the text of a bundle says that its interference model rests on."""
    told = _told(text)
    return Basis(**told["basis"]) if "basis" in told else None


def _told(text: str) -> dict[str, Any]:
    """Return what a bundle tells of its interference model, for people."""
    try:
        told = json.loads(text).get("interference")
    except (ValueError, AttributeError):
        return {}
    return told if isinstance(told, dict) else {}


INSTANTS = 16  # of each run
VICTIMS = 5000  # most runs with computed losses; drawn where more matter
KEPT = 1000  # instants of measured runs whose others are kept, about
OTHERS = 64  # most co-runners of an instant, the heaviest: the core takes no more
CAUSES = 5  # most co-runners among which a loss is divided, the heaviest
WORST = 10  # most pairs of applications in the answer
UNNAMED = "(unnamed)"


class Application(NamedTuple):
    """Key by which runs are grouped."""

    uid: int
    name: str
    """Of the jobs, without its numbers."""


@dataclass(frozen=True, slots=True)
class Party:
    """An application, as one that causes or suffers."""

    uid: int
    user: str
    """By the accounting; empty: not known."""
    name: str
    jobs: int
    node_hours: float
    """Of its own runs."""
    suffered: float
    """Node-hours that its runs lost to others."""
    caused: float
    """Node-hours that other runs lost to it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two applications, or two runs of one."""

    victim: str
    victim_uid: int
    victim_user: str
    aggressor: str
    aggressor_uid: int
    aggressor_user: str
    lost: float
    """Node-hours that the victim's runs lost to the aggressor's."""


@dataclass(slots=True)
class Member:
    """A job that matters."""

    job: FinishedJob
    application: Application
    pressure: View
    load: float
    """What it asks of storage in the mean, over what that has."""
    stands_for: float = 1.0
    """Runs like it, of which one was drawn; 0: this one was not."""
    lost: float = 0.0
    """Node-seconds, of all that it stands for."""

    @property
    def node_seconds(self) -> float:
        return node_seconds(self.job)

    @property
    def disturbance(self) -> Disturbance | None:
        """None: what it lost is what the model says."""
        return self.job.disturbance

    @property
    def slowdown(self) -> float:
        """Observed time over the time it would have taken alone."""
        return 1.0 / max(1e-9, 1.0 - self.lost / (self.node_seconds * self.stands_for))

    def measured_loss(self, z: float = 0.0) -> float:
        """Return the node-seconds that it lost by its own I/O time, and those it stands for."""
        if self.disturbance is None:
            return 0.0
        seconds = min(self.disturbance.lost(z), self.job.end - self.job.start)
        return max(1, self.job.nodes) * seconds * self.stands_for


@dataclass(slots=True)
class Instant:
    """A moment of a run, and its co-runners."""

    time: float
    victim: int
    node_seconds: float
    """Of the victim's run, and of those that it stands for, that the instant stands for."""
    others: list[int] = field(default_factory=list)
    """The heaviest first; OTHERS at most."""
    load: float = 0.0
    """What all running jobs ask of storage, over what it has."""
    share: float = 0.0
    """Of the run's time that goes by for nothing, by the model."""
    causes: dict[int, float] = field(default_factory=dict)
    """What part of the loss is laid to each of the others."""
    lost: float = 0.0
    """Node-seconds."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What jobs cost each other; members and others are named by their place among `members`."""

    members: list[Member]
    instants: list[Instant]

    def lost(self, *, since: float = -math.inf) -> float:
        """Return the node-seconds lost by runs that started then or later."""
        return sum(one.lost for one in self.members if one.job.start >= since)

    def between(
        self, name: Callable[[FinishedJob], Hashable], *, since: float = -math.inf
    ) -> dict[tuple[Any, Any], float]:
        """Return the node-hours lost, by the names of the run that lost and of the other.

        since: only by runs that started then or later.
        """
        names = [name(member.job) for member in self.members]
        lost: dict[tuple[Any, Any], float] = defaultdict(float)
        for instant in self.instants:
            if self.members[instant.victim].job.start >= since:
                for other, part in instant.causes.items():
                    lost[names[instant.victim], names[other]] += instant.lost * part
        return {pair: seconds / 3600 for pair, seconds in lost.items() if seconds > 0}

    def worst_pairs(self) -> tuple[Pair, ...]:
        """Return WORST at most, the costliest first; those that cost nothing are left out."""
        users = self._users()
        found = sorted((-lost, pair) for pair, lost in self.between(application_of).items())
        return tuple(
            Pair(
                victim=victim.name,
                victim_uid=victim.uid,
                victim_user=users[victim.uid],
                aggressor=aggressor.name,
                aggressor_uid=aggressor.uid,
                aggressor_user=users[aggressor.uid],
                lost=-lost,
            )
            for lost, (victim, aggressor) in found[:WORST]
        )

    def _users(self) -> dict[int, str]:
        """Return what the accounting calls users, empty where it does not say."""
        users: dict[int, str] = {}
        for member in self.members:
            users[member.job.uid] = member.job.user or users.get(member.job.uid, "")
        return users

    def ranked(self, by: str, *, since: float, most: int, uids: Sequence[int] = ()) -> list[Party]:
        """Return those that caused, or suffered, most; only of these users, if any are given."""
        found = [
            one
            for one in self.parties(since=since)
            if getattr(one, by) > 0 and (not uids or one.uid in uids)
        ]
        return sorted(found, key=lambda one: -float(getattr(one, by)))[:most]

    def parties(self, *, since: float = -math.inf) -> tuple[Party, ...]:
        """Return the applications whose runs matter, the most harmful first."""
        caused: dict[Application, float] = defaultdict(float)
        for (_, aggressor), lost in sorted(self.between(application_of, since=since).items()):
            caused[aggressor] += lost
        runs: dict[Application, list[Member]] = {application: [] for application in caused}
        for member in self.members:
            if member.job.start >= since:
                runs.setdefault(member.application, []).append(member)
        users = self._users()
        found = (
            Party(
                uid=application.uid,
                user=users[application.uid],
                name=application.name,
                jobs=len(own),
                node_hours=sum(run.node_seconds for run in own) / 3600,
                suffered=sum(run.lost for run in own) / 3600,
                caused=caused[application],
            )
            for application, own in runs.items()
        )
        return tuple(sorted(found, key=lambda one: (-one.caused, -one.suffered, one.name, one.uid)))


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a history's costs are computed from."""

    jobs: list[FinishedJob]
    """The latest, the oldest first."""
    model: NamedModel
    policy: View
    """Its lanes tell the bandwidth."""
    bandwidth: float
    """B/s that storage writes."""
    bandwidth_from: str

    def costs(self, advance: Callable[[int], None] = lambda _: None) -> Costs:
        """Return what the jobs cost each other; `advance` as in `costs`."""
        return costs(self.jobs, model=self.model.struct, policy=self.policy, advance=advance)

    @property
    def instants(self) -> int:
        """How many there are at most."""
        return INSTANTS * min(len(self.jobs), VICTIMS)

    @property
    def since(self) -> int | None:
        """When the first began, UTC seconds; None: there are no jobs."""
        return min((job.start for job in self.jobs), default=None)

    @property
    def until(self) -> int | None:
        return max((job.end for job in self.jobs), default=None)

    def as_json(self) -> dict[str, Any]:
        return {
            "since": self.since,
            "until": self.until,
            "bandwidth": self.bandwidth,
            "bandwidth_from": self.bandwidth_from,
            "interference_model": self.model.as_json(),
        }


def grounds_of(
    store: Store, settings: Config, *, storage: View | None = None, since: int = 0
) -> Grounds:
    """Read them from a history.

    since: UTC seconds; only of jobs that started then or later, although all tell what each does
    alone.

    storage: a struct sluice_policy whose one lane has the bandwidth (`one_lane`); else it is that
    of the lanes in the settings, else the fastest run's.
    """
    jobs = latest_undisturbed(store)
    policy, rate, source = _storage(settings, storage, jobs)
    model = default_model(store, settings, jobs=jobs)
    return Grounds([job for job in jobs if job.start >= since], model, policy, rate, source)


def application_of(job: FinishedJob) -> Application:
    return Application(job.uid, core.name_stem(job.name) or UNNAMED)


def programs_of(store: Store) -> dict[int, str]:
    """Return the program of each log, by its id: what production knows applications by."""
    return {log: program_name(command) for log, command, _ in store.runs.commands()}


def costs(
    jobs: Sequence[FinishedJob],
    *,
    model: View,
    policy: View,
    advance: Callable[[int], None] = lambda _: None,
) -> Costs:
    """Return what finished jobs cost each other; the same jobs give the same answer.

    The model is a struct sluice_interference, the policy a struct sluice_policy whose lanes
    tell the bandwidth. `advance` is told of the number of instants dealt with, of INSTANTS for
    every job that matters, and VICTIMS jobs at most.
    """
    members = _members(jobs, model, policy)
    instants: list[Instant] = []
    kept_each = 1 + INSTANTS * sum(one.stands_for > 0 for one in members) // KEPT
    for instant in _sweep(members, advance):
        _judge(members, instant, model)
        if members[instant.victim].disturbance is not None and len(instants) % kept_each:
            instant.others = []  # enough are kept to be asked again by other models
        instants.append(instant)
    _lay(members, instants)
    return Costs(members, instants)


def lost_share(members: Sequence[Member], victim: int, others: Sequence[int], model: View) -> float:
    """Share of the victim's time that goes by for nothing among these others."""
    pressure = members[victim].pressure
    factor = core.io_factor(pressure, [members[i].pressure for i in others], model)
    return 1.0 - 1.0 / core.job_slowdown(pressure, factor)


def _members(jobs: Sequence[FinishedJob], model: View, policy: View) -> list[Member]:
    """Return the jobs that matter, VICTIMS of them drawn to stand for all.

    By their node-seconds: a loss is a share of them, which varies less than the loss itself.
    """
    members = [member for job in jobs if (member := _member(job, model, policy))]
    if len(members) <= VICTIMS:
        return members
    drawn = np.random.default_rng(0).choice(len(members), VICTIMS, replace=False)
    weight = sum(one.node_seconds for one in members) / sum(members[i].node_seconds for i in drawn)
    for member in members:
        member.stands_for = 0.0
    for i in drawn:
        members[i].stands_for = weight
    return members


def _member(job: FinishedJob, model: View, policy: View) -> Member | None:
    profile = profile_members(job.profile)
    suffers = job.disturbance is not None and job.disturbance.lost() > 0
    matters = suffers or core.class_of(profile, policy) != "none"
    if not matters or not node_seconds(job):
        return None
    pressure = core.pressure_of(profile, model, policy)
    load = pressure.demand * pressure.io_share
    return Member(job, application_of(job), pressure, load)


def _instants(members: Sequence[Member]) -> list[Instant]:
    """Return the middles of equal parts of every run that was drawn, in the order of time."""
    return sorted(
        (
            Instant(
                member.job.start + (member.job.end - member.job.start) * (part + 0.5) / INSTANTS,
                victim,
                member.node_seconds * member.stands_for / INSTANTS,
            )
            for victim, member in enumerate(members)
            if member.stands_for
            for part in range(INSTANTS)
        ),
        key=lambda one: (one.time, one.victim),
    )


def _sweep(members: Sequence[Member], advance: Callable[[int], None]) -> Iterator[Instant]:
    """Yield each instant with the other members that ran then."""
    pressing = [one.pressure.weight * one.pressure.demand for one in members]
    heaviest = sorted(range(len(members)), key=lambda i: (-pressing[i], i))
    rank = {member: place for place, member in enumerate(heaviest)}
    starts = sorted(range(len(members)), key=lambda i: members[i].job.start, reverse=True)
    running: set[int] = set()  # by their ranks
    ends: list[tuple[int, int]] = []  # when each of them ends, the first on top
    for done, instant in enumerate(_instants(members), start=1):
        while starts and members[starts[-1]].job.start <= instant.time:
            i = starts.pop()
            running.add(rank[i])
            heappush(ends, (members[i].job.end, rank[i]))
        while ends and ends[0][0] <= instant.time:
            running.remove(heappop(ends)[1])
        others = sorted(running - {rank[instant.victim]})[:OTHERS]
        instant.others = [heaviest[place] for place in others]
        yield instant
        if done % INSTANTS == 0:
            advance(INSTANTS)


def _judge(members: Sequence[Member], instant: Instant, model: View) -> None:
    instant.load = sum([members[i].load for i in (instant.victim, *instant.others)])
    if instant.others:
        instant.share = lost_share(members, instant.victim, instant.others, model)
        instant.causes = _causes(members, instant, model)


def _causes(members: Sequence[Member], instant: Instant, model: View) -> dict[int, float]:
    """Divide a loss among the heaviest others, by how much less it would be without each.

    Where the model sees no loss, by what each presses.
    """
    parts: dict[int, float] = {}
    for place, one in enumerate(instant.others[:CAUSES]):
        without = [*instant.others[:place], *instant.others[place + 1 :]]
        left = lost_share(members, instant.victim, without, model) if without else 0.0
        parts[one] = max(0.0, instant.share - left)
    if not sum(parts.values()) > 0:
        parts = {one: members[one].load + 1e-9 for one in parts}
    total = sum(parts.values())
    return {one: part / total for one, part in parts.items()}


def _lay(members: Sequence[Member], instants: Sequence[Instant]) -> None:
    """Lay what runs lost to the instants in which the model expects most."""
    among: dict[int, list[Instant]] = defaultdict(list)
    for instant in instants:
        if instant.causes:
            among[instant.victim].append(instant)
    for victim, member in enumerate(members):
        expected = sum(instant.share for instant in among[victim])
        if member.disturbance is not None:
            member.lost = member.measured_loss()
        for instant in among[victim]:
            if member.disturbance is None:
                instant.lost = instant.node_seconds * instant.share
                member.lost += instant.lost
            else:
                part = instant.share / expected if expected > 0 else 1 / len(among[victim])
                instant.lost = member.lost * part


def _storage(
    settings: Config, storage: View | None, jobs: Sequence[FinishedJob]
) -> tuple[View, float, str]:
    """Return the settings with the bandwidth of the file system, and where that comes from."""
    if storage is not None:
        return storage, storage.lanes[0].bandwidth, "--bandwidth"
    lanes = [lane.bandwidth or 0.0 for lane in settings.policy.lanes]
    if lanes and all(lanes):
        return settings.policy, sum(lanes), "the lanes in the configuration"
    fastest = max((job.profile.numbers.get("rate", 0.0) for job in jobs), default=0.0)
    return one_lane(f"{max(1.0, fastest):.0f}"), fastest, FASTEST_RUN


def one_lane(bandwidth: str) -> View:
    """Return a policy whose storage writes so much. Raises CoreError for what is no rate."""
    text = f"Lane=all Targets=1 Bandwidth={bandwidth.replace(' ', '')}\n"
    policy: View = core.parse_config("--bandwidth", text.encode()).policy
    return policy
