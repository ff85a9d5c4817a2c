"""What Sluice did with the jobs of some time, or would have done, and how right it was.

From the records of live decisions, laid alongside what the jobs then did. Node-hours are those of
`sluice site assess`, by the same model of the same jobs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.interference.assess import assess_site
from sluice.interference.cost import Application, grounds_of
from sluice.interference.holdout import FALSE_ALARMS, Unit, effect
from sluice.policies import core
from sluice.policies.bundle import HEAD_BYTES, policy_in
from sluice.prediction.score import MOST, live_predictions
from sluice.prediction.score import report as score_of
from sluice.prediction.submission_features import SLACK
from sluice.slurm.turns import turns_since
from sluice.slurm.views.decision_history import Choices, read_choices
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sluice.history_db.store import Store
    from sluice.interference.cost import Grounds
    from sluice.policies.core import Config, View
    from sluice.prediction.jobs import FinishedJob
    from sluice.slurm.views.decision_history import Choice, Number
    from sluice.slurm.visibility import Viewer

Facts = dict[str, Any]

OTHERS = "other users"
"""Users that the viewer may not see, all together."""
FEW = 5
"""Checked predictions of a program below which nothing is said of it."""
TAKEN, HELD_OUT = "taken", "held_out"
COMPARED = frozenset({TAKEN, HELD_OUT})
EXPECTED = 0.5
"""Share of jobs that lose no more than predicted, where losses are as expected."""
WAIT_CAP = 6 * 3600
"""Seconds: a longer wait for the start counts as this one when groups are compared."""
LONGEST = 7 * 86400
"""Seconds after which a job that has not ended is no longer waited for."""


@dataclass(slots=True)
class Burden:
    """What delays and lanes are to a program or a user; node-seconds."""

    jobs: int = 0
    delayed: int = 0
    wait: float = 0.0
    """Seconds, of all delays."""
    longest: float = 0.0
    waited: float = 0.0
    own: float = 0.0
    """That its own jobs lose less by it."""
    spared: float = 0.0
    """That it loses less by what is done to others."""
    for_others: dict[Application | None, float] = field(default_factory=dict)
    """What the jobs that they wait for lose less, by application."""

    def add(self, choice: Choice) -> None:
        self.jobs += 1
        self.delayed += choice.wait > 0
        self.wait += choice.wait
        self.longest = max(self.longest, choice.wait)
        self.waited += choice.waited
        self.own += choice.own

    def net(self, price: float) -> float:
        """Return what it gains less what its waits cost, at the site's price of waits."""
        return self.own + self.spared - price * self.waited


class Story:
    """The facts of a report, as far as a viewer may know them."""

    def __init__(
        self, store: Store, viewer: Viewer, settings: Config, *, since: int, now: int
    ) -> None:
        self.store, self.viewer, self.settings = store, viewer, settings
        self.since, self.now = since, now
        self._owners: dict[Number, Application | None] = {}

    @property
    def _uid(self) -> int | None:
        return None if self.viewer.sees_all else self.viewer.uid

    def read(self, advance: Callable[[int], object] = lambda _: None) -> Choices:
        """Go through the decisions."""
        return read_choices(
            self.store.decisions.decisions_since(self.since, uid=self._uid), advance
        )

    def decisions(self, choices: Choices) -> Facts:
        return {
            "jobs": choices.jobs,
            "unreadable": choices.unreadable,
            "first": choices.first,
            "last": choices.last,
            "modes": dict(choices.modes.most_common()),
            "answered": choices.answered / choices.jobs if choices.jobs else None,
            "actions": dict(choices.actions.most_common()),
            "reasons": dict(choices.reasons.most_common()),
            "grants": dict(choices.grants.most_common()),
            "lost_records": self.store.decisions.losses(since=self.since),
        }

    # Jobs that would have been delayed, for which others, and what that saves

    def effects(self, choices: Choices) -> Facts:
        """Add up delays, lanes and turns, by action, program and user."""
        programs: dict[Application, Burden] = defaultdict(Burden)
        by_action: dict[str, Burden] = defaultdict(Burden)
        for choice in choices.kept:
            burden = by_action[choice.action]
            burden.add(choice)
            burden.spared += choice.others
            own = programs[choice.owner]
            own.add(choice)
            for other, saved in self._spared(choices, choice):
                own.for_others[other] = own.for_others.get(other, 0.0) + saved
                if other is not None:
                    programs[other].spared += saved
        return {
            "by_action": {
                name: {
                    "jobs": one.jobs,
                    "wait_hours": one.wait / 3600,
                    "longest_wait": one.longest,
                    "waited_node_hours": one.waited / 3600,
                    "saved_node_hours": (one.own + one.spared) / 3600,
                }
                for name, one in by_action.items()
            },
            "wait_price": self.settings.policy.wait_price,
            "by_program": self._programs(programs),
            "by_user": self._users(programs) if self.viewer.sees_all else [],
        }

    def _spared(
        self, choices: Choices, choice: Choice
    ) -> Iterable[tuple[Application | None, float]]:
        cluster = choice.job[0] if choice.job else ""
        for job, part in choice.coruns:
            yield self._owner(choices, (cluster, job)), part * choice.others

    def _owner(self, choices: Choices, job: Number) -> Application | None:
        """Return whose a job is; None: not known, or not to be told."""
        found = choices.owner_of(job)
        if found is None:
            if job not in self._owners:
                self._owners[job] = self._owner_by_accounting(job)
            found = self._owners[job]
        return found if found and self.viewer.sees(found.uid) else None

    def _owner_by_accounting(self, job: Number) -> Application | None:
        cluster, number = job
        known = self.store.jobs.job(number, cluster or None)
        if known is None or known.uid is None:
            return None
        return Application(known.uid, core.name_stem(known.name or ""))

    def _programs(self, programs: dict[Application, Burden]) -> list[Facts]:
        price = self.settings.policy.wait_price
        rows = [
            {
                **_named(owner),
                **_burden(burden, price),
                "for": [
                    {**_named(other), "node_hours": saved / 3600}
                    for other, saved in sorted(
                        burden.for_others.items(), key=lambda item: (-item[1], str(item[0]))
                    )
                ],
            }
            for owner, burden in programs.items()
            if burden.delayed or burden.own or burden.spared or burden.for_others
        ]
        return sorted(rows, key=lambda row: (-row["waited_node_hours"], -row["saved_node_hours"]))

    def _users(self, programs: dict[Application, Burden]) -> list[Facts]:
        """Return what each user gains or pays, the worst off first."""
        users: dict[int, Burden] = defaultdict(Burden)
        for owner, burden in programs.items():
            whole = users[owner.uid]
            whole.jobs += burden.jobs
            whole.delayed += burden.delayed
            whole.wait += burden.wait
            whole.longest = max(whole.longest, burden.longest)
            whole.waited += burden.waited
            whole.own += burden.own
            whole.spared += burden.spared
        price = self.settings.policy.wait_price
        rows = [
            {"uid": uid, "user": user_text(uid), **_burden(one, price)}
            for uid, one in users.items()
        ]
        return sorted(rows, key=lambda row: (row["net_node_hours"], row["uid"]))

    # How right it was

    def predictions(self, choices: Choices) -> Facts:
        """Lay predictions alongside what happened: patterns, volumes, how long conflicts lasted."""
        items = live_predictions(self.store, since=self.since, uid=self._uid, most=MOST)
        found = score_of(items, user_text)
        return {
            **found,
            "wrong": [row for row in found["by_program"] if went_wrong(row, self.settings)],
            "wait": self._waits(choices),
        }

    def _waits(self, choices: Choices) -> Facts:
        """Compare waits with how long it took until the last of the co-runners had ended."""
        factors = [
            lasted / choice.wait
            for choice in choices.kept
            if choice.wait > 0 and (lasted := self._lasted(choice)) is not None
        ]
        return {
            "checked": len(factors),
            "within_2": _share(0.5 <= one <= 2.0 for one in factors),
            "median_factor": sorted(factors)[len(factors) // 2] if factors else None,
        }

    def _lasted(self, choice: Choice) -> float | None:
        """Return the seconds from a submission until the jobs that it waits for had ended."""
        cluster = choice.job[0] if choice.job else None
        ends = []
        for job, _ in choice.coruns:
            known = self.store.jobs.job(job, cluster)
            if known is None or known.end is None:
                return None
            ends.append(known.end)
        return max(1.0, float(max(ends) - choice.now)) if ends else None

    def slowdowns(self, choices: Choices, jobs: Iterable[FinishedJob]) -> Facts:
        """Compare the slowdown that sharing was predicted to cost with what jobs lost.

        Only of jobs that shared, for nothing was done to them, and had somebody to share with when
        they were submitted. Who came later is in what they lost, and in no prediction.
        """
        rows = [
            (choice.shared_slowdown, 1.0 / max(1e-9, 1.0 - lost))
            for job, choice in _matched(choices, jobs)
            if choice.corunners and choice.grant != TAKEN and (lost := lost_share(job)) is not None
        ]
        predicted, seen = [one for one, _ in rows], [one for _, one in rows]
        return {
            "checked": len(rows),
            "quantile": EXPECTED,
            "predicted_mean": _mean(predicted),
            "measured_mean": _mean(seen),
            "at_most": _share(one <= said + 0.01 for said, one in rows),
        }

    def holdout(self, choices: Choices, jobs: Iterable[FinishedJob]) -> Facts | None:
        """Compare jobs that were acted on with those that the lot left alone; None: no holdout.

        Of those drawn with the share that holds now.
        """
        shares = self._shares(choices)
        drawn = [
            one for one in choices.kept if one.grant in COMPARED and 0 < shares[one.bundle] < 1
        ]
        if not any(one.grant == HELD_OUT for one in drawn):
            return None
        share = shares[drawn[-1].bundle]
        drawn = [one for one in drawn if shares[one.bundle] == share]
        until = self._settled(drawn)
        ended = _by_number(jobs)
        counted = [one for one in drawn if one.now < until]
        found = {
            name: asdict(effect(units(counted, ended, outcome), share))
            for name, outcome in OUTCOMES.items()
        }
        return {
            "share": share,
            "until": until,
            "false_alarms": FALSE_ALARMS,
            "drawn": len(drawn),
            "held_out": sum(one.grant == HELD_OUT for one in drawn),
            "wait_cap": WAIT_CAP,
            "effects": found,
        }

    def held_out_in_vain(self, choices: Choices) -> int:
        """Count the jobs that were held out by a share that is no longer known."""
        shares = self._shares(choices)
        return sum(one.grant == HELD_OUT and not shares[one.bundle] for one in choices.kept)

    def _shares(self, choices: Choices) -> dict[int, float]:
        return {bundle: self._share(bundle) for bundle in {one.bundle for one in choices.kept}}

    def _share(self, checksum: int) -> float:
        """Return the share that a bundle holds out; 0 where it is not kept, or not readable."""
        policy = policy_in(self.store.models.bundle_head(checksum, HEAD_BYTES))
        return float(policy.holdout) if policy else 0.0

    def _settled(self, drawn: Sequence[Choice]) -> int:
        """Return the time of the first submission whose job may yet end: later ones wait for it.

        Else those that end soon would count more, and a delay is a reason to end later.
        """
        for choice in drawn:
            if choice.now < self.now - LONGEST:
                continue
            job = self.store.jobs.job(choice.job[1], choice.job[0]) if choice.job else None
            if job is None or job.end is None:
                return choice.now
        return self.now


def gather(
    store: Store,
    viewer: Viewer,
    settings: Config,
    *,
    since: int,
    now: int,
    storage: View | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> Facts:
    """Collect what a report tells, but for replays and the verdict (recommendation.py).

    storage: as `grounds_of` has it. Who may not see all jobs is told of their own alone.
    """
    story = Story(store, viewer, settings, since=since, now=now)
    choices = story.read(advance)
    facts: Facts = {
        "since": since,
        "until": now,
        "mode": settings.mode,
        "least_confidence": settings.policy.min_confidence,
        "sees_all": viewer.sees_all,
        "decisions": story.decisions(choices),
        "effects": story.effects(choices),
        "predictions": story.predictions(choices),
    }
    if not viewer.sees_all:
        return facts
    grounds = grounds_of(store, settings, storage=storage, since=since)
    stake = _stake(store, grounds)
    return {
        **facts,
        "coverage": asdict(store.jobs.coverage()),
        "released": dict(Counter(row.reason for row in store.gates.releases(since=since))),
        "turns": turns_since(store, since),
        "slowdown": story.slowdowns(choices, grounds.jobs),
        "holdout": story.holdout(choices, grounds.jobs),
        "held_out_in_vain": story.held_out_in_vain(choices),
        "stake": stake,
        "benefit": _benefit(store, choices, stake["lost"] if stake else 0.0, since),
    }


def benefit(store: Store, settings: Config, times: Mapping[str, int]) -> dict[str, Facts]:
    """Return what a report says that Sluice brings since each of these times (UTC seconds)."""
    first = min(times.values())
    choices = read_choices(store.decisions.decisions_since(first))
    costs = grounds_of(store, settings, since=first).costs()
    return {
        name: _benefit(store, choices, costs.lost(since=since) / 3600, since)
        for name, since in times.items()
    }


def _benefit(store: Store, choices: Choices, lost: float, since: int) -> Facts:
    """Return node-hours: lost by jobs that ended, predicted to be lost by sharing, and saved.

    lost: by `assess_site`, or the same sum. Saved is what was predicted of all that was done:
    delays, lanes and bursts held.
    """
    made = [one for one in choices.kept if one.now >= since]
    acted = sum(one.own + one.others for one in made if one.grant == TAKEN)
    held = store.gates.held_totals(since=since, is_held=True).saving
    return {
        "lost_node_hours": lost,
        "predicted_node_hours": sum(one.shared_loss for one in made) / 3600,
        "saved_node_hours": (acted + held) / 3600,
    }


def _stake(store: Store, grounds: Grounds) -> Facts | None:
    """Return what `sluice site assess --json` says of the same jobs; None without any."""
    if not grounds.jobs:
        return None
    return {**grounds.as_json(), **assess_site(store, grounds).as_json()}


def went_wrong(row: Facts, settings: Config) -> bool:
    """Whether fewer predictions of a program came true than MinConfidence promises.

    row: as `backtest.report` has it.
    """
    true = row["came_true"]
    return (
        true is not None
        and row["jobs"] * row["answered"] >= FEW
        and true < settings.policy.min_confidence
    )


def lost_share(job: FinishedJob) -> float | None:
    """Return the share of a run that others' I/O cost it; None where its own does not tell."""
    if job.disturbance is None or job.end <= job.start:
        return None
    return min(1.0, max(0.0, job.disturbance.lost() / (job.end - job.start)))


def wait_share(job: FinishedJob) -> float:
    """Return the wait for the start, as a share of WAIT_CAP."""
    return min(1.0, max(0.0, (job.start - job.submit) / WAIT_CAP))


OUTCOMES: dict[str, Callable[[FinishedJob], float | None]] = {
    "lost_share": lost_share,
    "wait": wait_share,
}
"""What groups are compared by: from 0 to 1, the lower the better."""


def units(
    drawn: Iterable[Choice],
    ended: dict[Number, list[FinishedJob]],
    outcome: Callable[[FinishedJob], float | None],
) -> list[Unit]:
    """Return the units in the order of their lots; jobs that share a lot are one."""
    by_lot: dict[int, list[tuple[bool, float]]] = {}
    for choice in drawn:
        for job in _runs_of(choice, ended):
            value = outcome(job)
            if value is not None:
                by_lot.setdefault(choice.lot, []).append((choice.grant == HELD_OUT, value))
    return [
        Unit(rows[0][0], sum(value for _, value in rows) / len(rows)) for rows in by_lot.values()
    ]


def _by_number(jobs: Iterable[FinishedJob]) -> dict[Number, list[FinishedJob]]:
    found: dict[Number, list[FinishedJob]] = defaultdict(list)
    for job in jobs:
        if job.decided_as is not None:
            found[job.decided_as].append(job)
    return found


def _runs_of(choice: Choice, ended: dict[Number, list[FinishedJob]]) -> list[FinishedJob]:
    """Return the runs that a decision was about, tasks of an array among them."""
    return [
        job
        for job in (ended.get(choice.job, ()) if choice.job else ())
        if abs(job.submit - choice.now) <= SLACK
    ]


def _matched(choices: Choices, jobs: Iterable[FinishedJob]) -> Iterable[tuple[FinishedJob, Choice]]:
    ended = _by_number(jobs)
    for choice in choices.kept:
        for job in _runs_of(choice, ended):
            yield job, choice


def _named(owner: Application | None) -> Facts:
    if owner is None:
        return {"uid": None, "user": OTHERS, "program": None}
    return {"uid": owner.uid, "user": user_text(owner.uid), "program": owner.name}


def _burden(burden: Burden, price: float) -> Facts:
    return {
        "jobs": burden.jobs,
        "delayed": burden.delayed,
        "mean_wait": burden.wait / burden.delayed if burden.delayed else 0.0,
        "longest_wait": burden.longest,
        "waited_node_hours": burden.waited / 3600,
        "saved_node_hours": burden.own / 3600,
        "spared_node_hours": burden.spared / 3600,
        "net_node_hours": burden.net(price) / 3600,
    }


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _share(verdicts: Iterable[bool]) -> float | None:
    known = list(verdicts)
    return sum(known) / len(known) if known else None
