"""A second scheduler, written to be obviously right: docs/reference/replay.md, second by second.

No profile, no heap, no shortcut: who runs and who has a reservation is a list of intervals, and
every question is answered by looking at all of them. Times are whole seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

FOREVER = math.inf


@dataclass
class Job:
    number: int
    submit: int
    runtime: int
    limit: float
    slots: int
    begin: int = 0
    partition: int = 0
    user: int = 0
    bonus: int = 0
    fails: bool = False
    licenses: dict[int, int] = field(default_factory=dict)
    after: list[tuple[str, int, int]] = field(default_factory=list)  # kind, job, delay
    array: int | None = None
    # what becomes of it
    state: str = "waiting"
    eligible: float = -1
    start: float = -1
    end: float = -1
    lost: float = 0
    restarts: int = 0
    times: dict[str, float] = field(default_factory=dict)  # of its first start, and its end


@dataclass
class Interval:
    """Something taken during [begin, end): by group and by licence."""

    begin: float
    end: float
    slots: dict[int, int]
    licenses: dict[int, int]


@dataclass
class Run(Interval):
    job: Job = None
    usage: list = None  # its entry in the history


class BruteForce:
    def __init__(self, case):
        self.case = case
        self.settings = case.settings
        self.jobs = case.jobs
        self.running = []
        self.queue = []
        self.held = {array: [] for array in case.arrays}
        self.active = dict.fromkeys(case.arrays, 0)
        self.later = []  # (time, job), in the order in which they were put off
        self.origin = self.jobs[0].submit if self.jobs else 0
        self.tick = None
        self.usage = [0.0] * len(case.users)
        self.history = []  # (user, slots, begin, end or None): for fair share
        self.period = self.origin
        self.submitted = 0
        self.recalculates = False  # at the end of this period, since somebody waits

    # What is free

    def free(self, intervals, time, groups):
        """What each group has at one moment, and each licence."""
        slots = {g: self.case.groups[g] for g in groups}
        licenses = dict(enumerate(self.case.licenses))
        for one in [*self.case.leases, *intervals]:
            if one.begin <= time < one.end:
                for g in groups:
                    slots[g] -= one.slots.get(g, 0)
                for name in licenses:
                    licenses[name] -= one.licenses.get(name, 0)
        return slots, licenses

    def least(self, intervals, start, job, groups):
        """What each group has at every moment of the job's limit, and each licence."""
        moments = {start}
        for one in [*self.case.leases, *intervals]:
            moments |= {t for t in (one.begin, one.end) if start < t < start + job.limit}
        had = [self.free(intervals, moment, groups) for moment in moments]
        slots = {g: min(slots[g] for slots, _ in had) for g in groups}
        licenses = {
            name: min(licenses[name] for _, licenses in had)
            for name in range(len(self.case.licenses))
        }
        return slots, licenses

    def place(self, intervals, start, job, groups, *, slots=True, licenses=True):
        """What the job would take from each group, or None: at every moment of its limit."""
        least, has_licenses = self.least(intervals, start, job, groups)
        if licenses and any(has_licenses[n] < count for n, count in job.licenses.items()):
            return None
        if not slots:
            return {}
        return self.share_out(job, least)

    @staticmethod
    def share_out(job, free):
        """What the job takes of each group's free slots, or None: there are too few."""
        missing, taken = job.slots, {}
        for g in sorted(free):
            taken[g] = max(0, min(free[g], missing))
            missing -= taken[g]
        return taken if free and missing == 0 else None

    def earliest(self, intervals, job, groups, latest, **asked):
        times = {self.now}
        for one in [*self.case.leases, *intervals]:
            times |= {t for t in (one.begin, one.end) if self.now < t <= latest}
        for time in sorted(t for t in times if t < FOREVER):
            taken = self.place(intervals, time, job, groups, **asked)
            if taken is not None:
                return time, taken
        return None, None

    # Who goes first

    def close_periods(self):
        """Count up usage to the end of each period that is over."""
        length = self.settings["calc_period"]
        decay = 0.5 ** (length / self.settings["half_life"])
        while self.period + length <= self.now:
            begin, self.period = self.period, self.period + length
            for user in range(len(self.usage)):
                used = sum(
                    slots * (min(self.period, FOREVER if end is None else end) - max(begin, start))
                    for owner, slots, start, end in self.history
                    if owner == user and start < self.period and (end is None or end > begin)
                )
                self.usage[user] = self.usage[user] * decay + used

    def fair_share(self, user):
        users = self.case.users  # (account, shares, shares of the account)
        everything = sum(
            sum(u for u, (a, _, _) in zip(self.usage, users, strict=True) if a == account)
            for account in range(max(a for a, _, _ in users) + 1)
        )
        account_shares = {account: shares for account, _, shares in reversed(users)}

        def levels(one):
            account, shares, _ = users[one]
            members = [i for i, (a, _, _) in enumerate(users) if a == account]
            used = sum(self.usage[i] for i in members)
            first = FOREVER
            if used > 0:
                total = sum(account_shares[a] for a in dict.fromkeys(a for a, _, _ in users))
                first = (account_shares[account] / total) / (used / everything)
            second = FOREVER
            if self.usage[one] > 0:
                total = sum(users[i][1] for i in members)
                second = (shares / total) / (self.usage[one] / used)
            return first, second

        better = sum(levels(other) > levels(user) for other in range(len(users)))
        return 1 - better / len(users)

    def priority(self, job):
        s = self.settings
        if s["priority"] == "fifo":
            return 0
        part = job.slots / sum(self.case.groups)
        points = (
            s["weight_age"] * min((self.priced_at - job.eligible) / s["max_age"], 1)
            + s["weight_size"] * (1 - part if s["favor_small"] else part)
            + s["weight_fair_share"] * self.fair_share(job.user)
            + s["weight_partition"] * self.case.partitions[job.partition].factor
            + job.bonus
        )
        return max(1, min(int(points), 2**32 - 1))

    def sort_queue(self):
        tiers = [partition.tier for partition in self.case.partitions]
        self.queue.sort(key=lambda job: (-tiers[job.partition], -job.points, job.number))

    # Coming and going

    def enqueue(self, job):
        if job.eligible < 0:
            job.eligible = self.now
        self.priced_at = self.now
        job.points = self.priority(job)
        self.queue.append(job)
        self.sort_queue()

    def admit(self, job):
        limit = self.case.arrays.get(job.array, 0)
        if job.array is not None and limit and self.active[job.array] >= limit:
            self.held[job.array].append(job)
            return
        if job.array is not None:
            self.active[job.array] += 1
        self.enqueue(job)

    def ready_at(self, job):
        """When its dependencies let it go; None: not yet."""
        ready = job.begin
        for kind, other, delay in job.after:
            met = self.jobs[other].times.get(kind)
            if met is None:
                return None
            ready = max(ready, met + delay)
        return ready

    def let_in(self, job, *, in_pass=False):
        ready = self.ready_at(job)
        if ready <= self.now and not in_pass:
            self.admit(job)
        else:
            self.later.append((max(ready, self.now), job))

    def tell_dependents(self, job, kinds, *, in_pass=False):
        """The job has started or ended: note when, and let in whom that frees."""
        before = [self.ready_at(other) is not None for other in self.jobs]
        for kind in kinds:
            job.times.setdefault(kind, self.now)
        for other in self.jobs[: self.submitted]:
            if other.state == "impossible":
                continue
            if not before[other.number] and self.ready_at(other) is not None:
                self.let_in(other, in_pass=in_pass)

    def finish(self, job, state):
        job.state = state
        if state == "impossible":
            kinds = ["start", "any", "not_ok"]
        else:
            kinds = ["any", "ok" if state == "completed" else "not_ok"]
            job.end = self.now
        self.tell_dependents(job, kinds)
        if job.array is not None and job.eligible >= 0:
            self.active[job.array] -= 1
            if self.held[job.array]:
                self.admit(self.held[job.array].pop(0))

    def submit(self, job):
        self.submitted += 1
        groups = self.case.partitions[job.partition].groups
        if job.slots > sum(self.case.groups[g] for g in groups) or any(
            count > self.case.licenses[name] for name, count in job.licenses.items()
        ):
            self.finish(job, "impossible")
        elif self.ready_at(job) is not None:
            self.let_in(job)

    def start(self, job, taken):
        self.queue.remove(job)
        usage = [job.user, job.slots, self.now, None]
        self.history.append(usage)
        run = Run(self.now, self.now + job.limit, taken, job.licenses, job, usage)
        self.running.append(run)
        job.start, job.state = self.now, "running"
        if job.restarts == 0:
            self.tell_dependents(job, ["start"], in_pass=True)

    def stop(self, run):
        self.running.remove(run)
        run.usage[-1] = self.now

    # Passes

    def joined_ends(self):
        """When the plan sees the slots of each running job free again, by its number."""
        ends = {run.job.number: run.end for run in self.running}
        window = self.settings["end_window"]
        if not window or self.rule == "none" or min(ends.values(), default=FOREVER) == FOREVER:
            return ends
        bound = (min(ends.values()) // window + 1) * window
        joined, seen = dict(ends), -FOREVER
        while rest := [end for end in ends.values() if seen < end < FOREVER]:
            while min(rest) > bound + window:
                window *= 2
            together = [end for end in rest if end <= bound + window]
            joined |= {n: max(together) for n, end in ends.items() if end in together}
            seen = max(together)
            window *= 2
        return joined

    def first_freed(self, time, job, groups, planned):
        """What a reservation takes: slots that are free for it, of those freed first."""
        if not self.settings["end_window"]:
            return self.place(planned, time, job, groups, licenses=False)
        ends = self.joined_ends()
        least, _ = self.least(planned, time, job, groups)
        for moment in sorted({self.now, time, *(t for t in ends.values() if t < time)}):
            free, _ = self.free(self.running, moment, groups)
            taken = self.share_out(job, {g: min(free[g], least[g]) for g in groups})
            if taken is not None:
                return taken
        raise AssertionError("a reservation where there is no room")

    def seen(self, runs, ends):
        """What the plan sees of running jobs: slots until `ends`, licences until the limit."""
        slots = [Interval(run.begin, ends[run.job.number], run.slots, {}) for run in runs]
        return slots + [Interval(run.begin, run.end, {}, run.licenses) for run in runs]

    def scheduling_pass(self, rule):
        self.rule = rule
        self.blocked, self.closed, self.reserved = set(), set(), []
        victims = []
        depth = self.settings["depth"] if rule != "none" else 0
        for job in self.queue[: int(depth) or None]:
            if rule == "none" and job.partition in self.blocked:
                continue
            has_licenses = self.place(self.running, self.now, job, {0}, slots=False) is not None
            if not has_licenses and self.settings["plan_licenses"] and rule == "none":
                break
            if has_licenses or self.settings["plan_licenses"]:
                victims += self.look_at(job, has_licenses=has_licenses)
        for job in victims:
            if job.state == "waiting":
                self.enqueue(job)
            else:
                self.finish(job, "preempted")
        if victims:
            self.scheduling_pass(rule)

    def look_at(self, job, *, has_licenses):
        """Start the job or find out when it could; return whom that preempts."""
        partition = self.case.partitions[job.partition]
        groups = set(partition.groups) - self.closed
        asked = {"licenses": bool(self.settings["plan_licenses"])}
        is_blocked = job.partition in self.blocked
        latest = self.now if is_blocked else self.now + self.settings["window"]
        planned = [*self.seen(self.running, self.joined_ends()), *self.reserved]
        time, taken = self.earliest(planned, job, groups, latest, **asked)
        victims = []
        if time != self.now and has_licenses and self.settings["preemption"] != "off":
            victims = self.choose_victims(job, groups, asked)
            for run in victims:
                self.preempt(run)
            if victims:
                time = self.now
                planned = [*self.seen(self.running, self.joined_ends()), *self.reserved]
                taken = self.place(planned, self.now, job, groups, **asked)
        if time == self.now:
            self.start(job, taken)
        elif self.rule == "none":
            self.blocked.add(job.partition)
            self.closed |= set(partition.groups)
        elif not is_blocked and time is not None:
            if self.rule == "easy":
                self.blocked.add(job.partition)
            taken = self.first_freed(time, job, groups, planned)
            self.reserved.append(self.reservation(job, time, taken))
        return [run.job for run in victims]

    def reservation(self, job, time, taken):
        step = self.settings["resolution"]
        end = time + job.limit
        if step:
            time = max(self.now, time // step * step)
            end = end // step * step if end < FOREVER else end
        licenses = job.licenses if self.settings["plan_licenses"] else {}
        return Interval(time, end, taken, licenses)

    def choose_victims(self, job, groups, asked):
        partitions = self.case.partitions
        own = partitions[job.partition]
        candidates = [
            run
            for run in self.running
            if partitions[run.job.partition].tier < own.tier
            and set(partitions[run.job.partition].groups) & set(own.groups)
        ]
        candidates.sort(key=lambda r: (partitions[r.job.partition].tier, -r.begin, -r.job.number))

        ends = self.joined_ends()

        def fits_without(gone):
            rest = self.seen([run for run in self.running if run not in gone], ends)
            return self.place([*rest, *self.reserved], self.now, job, groups, **asked) is not None

        for count in range(1, len(candidates) + 1):
            chosen = candidates[:count]
            if fits_without(chosen):
                for run in candidates[: count - 1]:
                    fewer = [one for one in chosen if one is not run]
                    if fits_without(fewer):
                        chosen = fewer
                return chosen
        return []

    def preempt(self, run):
        self.stop(run)
        job = run.job
        if self.settings["preemption"] == "cancel":
            job.state = "preempted"
            return
        job.lost += self.now - job.start
        job.restarts += 1
        job.start, job.state = -1, "waiting"

    # Time

    def due(self):
        """Whether anything happens now."""
        return (
            any(self.end_of(run) == self.now for run in self.running)
            or any(self.now in (lease.begin, lease.end) for lease in self.case.leases)
            or any(time <= self.now for time, _ in self.later)
            or any(job.submit == self.now for job in self.jobs[self.submitted :])
            or self.tick == self.now
            or (self.recalculates and self.period_is_due())
        )

    @staticmethod
    def end_of(run):
        return run.begin + min(run.job.runtime, run.job.limit)

    def period_is_due(self):
        return self.now > self.origin and (
            (self.now - self.origin) % self.settings["calc_period"] == 0
        )

    def instant(self):
        self.recalculate()
        while ended := [run for run in self.running if self.end_of(run) == self.now]:
            run = ended[0]
            self.stop(run)
            is_killed = run.job.runtime > run.job.limit
            result = "timeout" if is_killed else "failed" if run.job.fails else "completed"
            self.finish(run.job, result)
        while soon := [entry for entry in self.later if entry[0] <= self.now]:
            self.later.remove(soon[0])
            self.admit(soon[0][1])
        while self.submitted < len(self.jobs) and self.jobs[self.submitted].submit == self.now:
            self.submit(self.jobs[self.submitted])
        is_tick = self.tick == self.now
        waiting = len(self.queue)
        if self.settings["interval"]:
            self.scheduling_pass("none")
        if is_tick or not self.settings["interval"]:
            self.scheduling_pass(self.settings["backfill"])
        if is_tick:
            self.tick = None
        self.wind_clock(is_idle_tick=is_tick and len(self.queue) == waiting)

    def recalculate(self):
        """Calculate priorities anew where a period is over."""
        if self.settings["priority"] == "fifo":
            return
        before = self.period
        self.close_periods()
        if self.period != before:
            self.recalculates = False
            self.priced_at = self.now
            for job in self.queue:
                job.points = self.priority(job)
            self.sort_queue()

    def wind_clock(self, *, is_idle_tick):
        """See to it that waiting jobs are looked at again."""
        s = self.settings
        changes = [t for lease in self.case.leases for t in (lease.begin, lease.end)]
        is_last = not (
            self.running
            or self.later
            or self.submitted < len(self.jobs)
            or any(self.now < t < FOREVER for t in changes)
        )
        if not self.queue or (is_last and is_idle_tick):
            return
        if s["interval"] and s["backfill"] != "none" and self.tick is None:
            elapsed = self.now - self.origin
            self.tick = self.origin + (elapsed // s["interval"] + 1) * s["interval"]
        if s["priority"] == "multifactor" and not is_last:
            self.recalculates = True

    def repeats(self):
        """Whether this second has another instant: jobs of no length, or just let in."""
        return any(self.end_of(run) == self.now for run in self.running) or any(
            time <= self.now for time, _ in self.later
        )

    def run(self, until):
        first = min([self.origin, *(lease.begin for lease in self.case.leases)])
        for self.now in range(int(first), until):
            if self.due():
                self.instant()
                while self.repeats():
                    self.instant()
        return self.jobs
