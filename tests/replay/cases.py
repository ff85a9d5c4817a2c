"""Small random workloads, for the engine and for the brute-force scheduler alike."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from brute_force import FOREVER, Interval, Job
from hypothesis import strategies as st

from sluice.sim import engine
from sluice.sim.engine import Machine, Partition, Workload

KINDS = engine.DEPENDENCIES


@dataclass(frozen=True)
class Case:
    groups: tuple[int, ...]
    partitions: tuple[Partition, ...]
    licenses: tuple[int, ...]
    leases: tuple[Interval, ...]
    users: tuple[tuple[int, int, int], ...]  # account, shares, shares of the account
    arrays: dict[int, int]
    jobs: list[Job]
    settings: dict[str, object]


@st.composite
def settings(draw):
    interval = draw(st.sampled_from([0, 0, 7, 30]))
    return {
        **engine.scheduler_defaults(),
        "interval": interval,
        "window": draw(st.sampled_from([math.inf, math.inf, 20, 60])),
        "resolution": draw(st.sampled_from([0, 0, 10])),
        "end_window": draw(st.sampled_from([0, 0, 5, 10])),
        "depth": draw(st.sampled_from([0, 0, 3])),
        "backfill": draw(st.sampled_from(engine.BACKFILLS)),
        "priority": draw(st.sampled_from(engine.PRIORITIES)),
        "preemption": draw(st.sampled_from(engine.PREEMPTIONS)),
        "plan_licenses": draw(st.integers(0, 1)),
        "favor_small": draw(st.integers(0, 1)),
        "weight_age": draw(st.sampled_from([0, 100, 1000])),
        "weight_size": draw(st.sampled_from([0, 50])),
        "weight_fair_share": draw(st.sampled_from([0, 200])),
        "weight_partition": draw(st.sampled_from([0, 30])),
        "max_age": draw(st.sampled_from([50, 1000])),
        "half_life": draw(st.sampled_from([40, 3600])),
        "calc_period": draw(st.sampled_from([10, 45])),
    }


@st.composite
def machines(draw):
    groups = tuple(draw(st.lists(st.integers(2, 5), min_size=1, max_size=3)))
    some = st.sets(st.integers(0, len(groups) - 1), min_size=1).map(lambda s: tuple(sorted(s)))
    partition = st.builds(
        Partition,
        st.just("p"),
        some,
        st.integers(0, 2),
        st.sampled_from([0.0, 0.5, 1.0]),
    )
    return groups, tuple(draw(st.lists(partition, min_size=1, max_size=3)))


@st.composite
def jobs(draw, number, submit, case, count):
    licenses = {}
    if case.licenses:
        licenses = draw(
            st.dictionaries(st.integers(0, len(case.licenses) - 1), st.integers(1, 3), max_size=2)
        )
    after = []
    if draw(st.integers(0, 5)) == 0:
        after = draw(
            st.lists(
                st.tuples(
                    st.sampled_from(KINDS),
                    st.integers(0, count - 1),
                    st.integers(0, 9),
                ),
                min_size=1,
                max_size=2,
            )
        )
    return Job(
        number=number,
        submit=submit,
        runtime=draw(st.integers(0, 40)),
        limit=draw(st.one_of(st.integers(1, 50), st.just(FOREVER))),
        slots=draw(st.one_of(st.integers(1, 3), st.integers(1, 7))),
        begin=draw(st.sampled_from([0, 0, 0, 25, 60])),
        partition=draw(st.integers(0, len(case.partitions) - 1)),
        user=draw(st.integers(0, len(case.users) - 1)),
        bonus=draw(st.sampled_from([0, 0, 500])),
        fails=draw(st.booleans()),
        licenses=licenses,
        after=after,
        array=draw(st.sampled_from([None, None, *case.arrays])),
    )


@st.composite
def leases(draw, groups, licenses):
    begin = draw(st.integers(-5, 60))
    length = draw(st.one_of(st.integers(1, 40), st.just(FOREVER)))
    amount = draw(st.integers(0, 5))
    if licenses and draw(st.booleans()):
        return Interval(begin, begin + length, {}, {draw(st.integers(0, licenses - 1)): amount})
    return Interval(begin, begin + length, {draw(st.integers(0, groups - 1)): amount}, {})


@st.composite
def users(draw):
    account_shares = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    one = st.tuples(st.integers(0, 1), st.integers(1, 3))
    return tuple(
        (account, shares, account_shares[account])
        for account, shares in draw(st.lists(one, min_size=2, max_size=4))
    )


@st.composite
def cases(draw):
    groups, partitions = draw(machines())
    licenses = tuple(draw(st.lists(st.integers(1, 4), max_size=2)))
    case = Case(
        groups=groups,
        partitions=partitions,
        licenses=licenses,
        leases=tuple(draw(st.lists(leases(len(groups), len(licenses)), max_size=2))),
        users=draw(users()),
        arrays=dict(enumerate(draw(st.lists(st.integers(0, 2), max_size=2)))),
        jobs=[],
        settings=draw(settings()),
    )
    submits = sorted(draw(st.lists(st.integers(0, 60), min_size=3, max_size=14)))
    made = [draw(jobs(number, submit, case, len(submits))) for number, submit in enumerate(submits)]
    return replace(case, jobs=made)


def horizon(case):
    """A second after everything that can happen has happened."""
    runs = sum(job.runtime + 10 for job in case.jobs)
    return 200 + (1 + len(case.jobs)) * runs


def workload(case):
    """The case as the engine takes it."""
    made = np.zeros(len(case.jobs), engine.JOB)
    needs, dependencies = [], []
    for row, job in zip(made, case.jobs, strict=True):
        for name in ("submit", "runtime", "limit", "slots", "begin", "partition", "user", "bonus"):
            row[name] = getattr(job, name)
        row["fails"] = job.fails
        row["array"] = 0 if job.array is None else job.array + 1
        row["first_license"], row["license_count"] = len(needs), len(job.licenses)
        needs += sorted(job.licenses.items())
        row["first_dependency"], row["dependency_count"] = len(dependencies), len(job.after)
        dependencies += [(delay, other, KINDS.index(kind)) for kind, other, delay in job.after]
    leased = []
    for lease in case.leases:
        ((where, amount),) = (lease.slots or lease.licenses).items()
        group = where + 1 if lease.slots else 0
        leased.append((lease.begin, lease.end, 0 if group else where, group, amount, 0))
    return Workload(
        machine=Machine(
            case.groups,
            case.partitions,
            {f"l{i}": total for i, total in enumerate(case.licenses)},
        ),
        jobs=made,
        license_needs=np.array(needs, engine.LICENSE_NEED),
        dependencies=np.array(dependencies, engine.DEPENDENCY),
        associations=np.array(
            [(account, 0, shares, whole) for account, shares, whole in case.users],
            engine.ASSOCIATION,
        ),
        leases=np.array(leased, engine.LEASE),
        array_limits=np.array(list(case.arrays.values()), np.uint32),
    )
