"""The policies that a replay compares, by name; docs/reference/replay.md states what each does.

A policy is a function from a Question to a Plan: what it changes before the replay starts, and
which decides while it runs. It knows what is predicted of a job, never what the storage model
will make of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sluice.policies import core
from sluice.sim._engine import ffi, lib
from sluice.sim.engine import PolicyError, outlive, struct_dtype
from sluice.sim.policies.site_bundle import SCRIPT, TraceHistory, site_bundle
from sluice.sim.storage.mean_field import AT_CREATE, BLOCKS, Kinds, limited
from sluice.sim.storage.turns import take_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.sim.engine import Workload
    from sluice.sim.policies.site_bundle import SiteBundle
    from sluice.sim.storage.mean_field import Storage
    from sluice.sim.trace.profiles import Profiles


CHOICE = struct_dtype("sluice_policy_result")
"""What a policy did with a job; action and reason are indices of policies.structs."""
GATE_NEED = struct_dtype("sluice_gate_need")


class Decider(Protocol):
    """Decides in one replay: `table` goes to `engine.run`, `choices` is read after it."""

    @property
    def table(self) -> Any:
        """The struct sluice_replay_policy; NULL: no decisions."""

    @property
    def choices(self) -> NDArray[Any]:
        """A CHOICE for each job."""


class NoPolicy:
    """Slurm alone; jobs may have been put on lanes beforehand."""

    table = ffi.NULL

    def __init__(self, jobs: int, lanes: NDArray[np.uint32] | None = None) -> None:
        """Take the lanes of each job as a bit mask (0: all)."""
        self.choices = np.zeros(jobs, CHOICE)
        self.choices["held_since"] = -1
        if lanes is not None:
            self.choices["lane_mask"] = lanes


class Gates:
    """Gates of fixed size, like licences that a site defines by hand."""

    def __init__(
        self,
        room: Sequence[float],
        needs: Sequence[tuple[NDArray[Any], NDArray[Any]]],
        *,
        jobs: int,
        max_delay: float,
    ) -> None:
        """Take the room of each gate and, for each, (jobs, amount that each needs).

        A job that was delayed for max_delay seconds starts without.
        """
        owners = np.concatenate([np.asarray(owner, np.int64) for owner, _ in needs])
        rows = np.zeros(len(owners), GATE_NEED)
        rows["gate"] = np.repeat(np.arange(len(room)), [len(owner) for owner, _ in needs])
        rows["amount"] = np.concatenate([amount for _, amount in needs])
        self._needs = np.ascontiguousarray(rows[np.argsort(owners, kind="stable")])
        counts = np.bincount(owners, minlength=jobs)
        self._first = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
        self._room = np.array(room, np.float64)
        self._jobs = jobs
        setup = ffi.new("struct sluice_gate_setup *")
        setup.room = ffi.cast("double *", self._room.ctypes.data)
        setup.gate_count = len(room)
        setup.job_count = jobs
        setup.first = ffi.cast("uint32_t *", self._first.ctypes.data)
        setup.needs = ffi.cast("struct sluice_gate_need *", self._needs.ctypes.data)
        setup.max_delay = max_delay
        policy = lib.sluice_gates_policy_new(setup)
        if policy == ffi.NULL:
            raise MemoryError
        self._policy = ffi.gc(policy, lib.sluice_gates_policy_destroy)

    @property
    def table(self) -> Any:
        """Valid as long as it is referenced."""
        return ffi.gc(lib.sluice_gates_policy_table(self._policy), partial(outlive, self))

    @property
    def choices(self) -> NDArray[Any]:
        return results_of(lib.sluice_gates_policy_results(self._policy), self._jobs)


class Core:
    """Sluice: the decision core, by a bundle, deciding as it is deployed."""

    def __init__(
        self, site: SiteBundle, workload: Workload, *, epoch: float, other: Decider | None = None
    ) -> None:
        """Take the jobs of a workload; epoch is the UTC second of time 0.

        other: says when jobs start, and the core only places them.
        """
        self.site = site
        self._other = other
        self._others = ffi.NULL
        if other is not None:
            self._others = other.table or ffi.new("struct sluice_replay_policy *")
        self._jobs = jobs = np.ascontiguousarray(workload.jobs)
        self._application = np.ascontiguousarray(site.application, np.uint32)
        self._submissions = ffi.from_buffer(
            "struct sluice_submission[]", b"".join(one.bytes for one in site.submissions)
        )
        self._bundle = self._parsed(site.bundle)
        self._config = ffi.new("struct sluice_config *")
        error = ffi.new("struct sluice_error *")
        text = site.config.encode()
        if lib.sluice_config_parse(b"sluice.conf", text, len(text), self._config, error):
            raise PolicyError(ffi.string(error.text).decode())
        self.setup = ffi.new(
            "struct sluice_core_setup *",
            {
                "bundle": self._bundle,
                "config": self._config,
                "jobs": ffi.cast("struct sluice_replay_job *", self._jobs.ctypes.data),
                "submissions": self._submissions,
                "application": ffi.cast("uint32_t *", self._application.ctypes.data),
                "job_count": len(jobs),
                "epoch": int(epoch),
                "other": self._others,
            },
        )
        policy = lib.sluice_core_policy_new(self.setup)
        if policy == ffi.NULL:
            raise MemoryError
        self.handle = ffi.gc(policy, lib.sluice_core_policy_destroy)

    @staticmethod
    def _parsed(content: bytes) -> Any:
        out, error = ffi.new("struct sluice_bundle **"), ffi.new("struct sluice_error *")
        if lib.sluice_bundle_parse(content, len(content), out, error):
            raise PolicyError(ffi.string(error.text).decode())
        return ffi.gc(out[0], lib.sluice_bundle_destroy)

    @property
    def table(self) -> Any:
        """Valid as long as it is referenced."""
        return ffi.gc(lib.sluice_core_policy_table(self.handle), partial(outlive, self))

    @property
    def choices(self) -> NDArray[Any]:
        if self._other is not None:
            return self._other.choices
        return results_of(lib.sluice_core_policy_results(self.handle), len(self._jobs))


def results_of(rows: Any, jobs: int) -> NDArray[Any]:
    """Return a copy of C's rows of struct sluice_policy_result."""
    return np.frombuffer(ffi.buffer(rows, jobs * CHOICE.itemsize), CHOICE).copy()


HEAVY_IO = 0.02
"""I/O share from which a job counts as I/O-heavy: MinIoShare's default."""
STREAMING = 0.5
"""Share of the chunks that no process waits for, from which a program streams."""


def is_heavy(profiles: Profiles) -> NDArray[np.bool_]:
    """Whether each job does I/O that matters."""
    writes = np.array([kind.get("pattern") not in ("none", "unknown") for kind in profiles.kinds])
    return writes[profiles.kind] & (profiles.io_share >= HEAVY_IO)


def streams(profiles: Profiles) -> NDArray[np.bool_]:
    """Whether each job waits for few of its writes."""
    structs = Kinds.of(profiles.kinds).structs
    shares = [lib.sluice_profile_streaming_share(structs + i) for i in range(len(profiles.kinds))]
    return (np.array(shares) >= STREAMING)[profiles.kind]


COVERED = 3
"""A stream of random numbers of its own; profiles.py, io_replay.py, ablations.py have others."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known of bursts, and what can be done about them."""

    settings: Mapping[str, float] = field(default_factory=dict)
    """Of struct sluice_turns_settings; others keep their defaults."""
    predicted: bool = True
    """Whether a history predicts a job's first burst."""
    noise: float = 0.0
    """Standard deviation of the logarithm of a burst's length as it is measured."""
    covered: float = 1.0
    """Share of the jobs whose bursts can be held."""
    seen: bool = True
    """Whether the storage counts what each of the others writes."""
    demand_error: float = 1.0
    """What is taken for a job's demand, over what it is."""
    seed: int = 1
    """Of which jobs are covered."""


def covered_jobs(jobs: int, share: float, seed: int) -> NDArray[np.bool_]:
    """Return which jobs are covered, by a seed."""
    if not 0 <= share <= 1:
        raise PolicyError(f"the share of covered jobs is {share}; give 0 to 1")
    return np.random.default_rng((seed, COVERED)).uniform(size=jobs) < share


def turns(
    knowledge: Knowledge, workload: Workload, predicted: Profiles
) -> Callable[[NDArray[Any], Any], NDArray[Any]]:
    """Return what makes the loads of a replay take turns (policies.Plan.reshape).

    predicted: the first burst of a job is as its kind's period and mean I/O share say.
    """

    def reshape(loads: NDArray[Any], config: Any) -> NDArray[Any]:
        errors = {"noise": knowledge.noise, "demand_error": knowledge.demand_error}
        take_turns(config.turns, {**knowledge.settings, **errors})
        known = np.array(loads)
        usual = _of_its_kind(predicted).loads(workload, config)
        if knowledge.predicted:
            known["expected"] = np.where(usual["bursts"] > 0, usual["burst"], 0.0)
        limit = workload.jobs["limit"]  # a job without one is never held, as deployed
        known["most_held"] = np.where(np.isfinite(limit), limit / lib.SLUICE_TURNS_PART, 0.0)
        for share in ("target_share", "link_share", "metadata_share"):
            known[share] = usual[share]
        is_covered = covered_jobs(len(known), knowledge.covered, knowledge.seed)
        other = lib.SLUICE_SEEN if knowledge.seen else lib.SLUICE_UNSEEN
        known["coverage"] = np.where(is_covered, lib.SLUICE_COVERED, other)
        return known

    return reshape


def _of_its_kind(profiles: Profiles) -> Profiles:
    """Give each job the mean I/O share of its kind."""
    kinds = len(profiles.kinds)
    count = np.maximum(np.bincount(profiles.kind, minlength=kinds), 1)
    mean = np.bincount(profiles.kind, profiles.io_share, minlength=kinds) / count
    return replace(profiles, io_share=mean[profiles.kind])


@dataclass(frozen=True, slots=True)
class Options:
    """What may be set of policies; each looks at its own."""

    max_delay: float = 1800.0
    """Seconds for which a job is delayed at most. `inf`: as long as it takes."""
    wrong: float = 0.0
    """Share of the predictions that are deliberately another kind's."""
    seed: int = 1
    """Of wrong predictions."""
    bandwidth: float = 1.0
    """`license-cap`: what may be promised, as a share of the storage's bandwidth."""
    heavy: int = 2
    """`two-groups`: I/O-heavy jobs that may run at a time."""
    wait_price: float = 0.2
    """Sluice: slot-seconds that one slot-second of added wait costs (WaitPrice)."""
    source_rate: float = 0.16
    """`rate-cap`: of a node, as a share of the rate at which it can write."""
    turns: float = 0.0
    """Sluice: 1 where bursts of running jobs take turns as well."""
    turns_gain: float = 0.7
    """Sluice: share of the best order's savings that turns get where all jobs are covered."""
    turn_latency: float = 1.0
    """Turns: seconds from what happens to a burst until a verdict on it is in effect."""
    turn_budget: float = 5.0
    """Turns: a burst is held for so many times its length at most."""
    turn_guard: float = 20.0
    """Turns: bursts shorter than so many latencies are not held."""
    turn_pace: float = 1.0
    """Turns: a burst that fits in part goes at so many times the speed that is left; 0: at full."""
    turn_trial: float = 10.0
    """Turns: latencies for which a held burst goes now and then, to see whether holds help."""
    turn_learns: float = 1.0
    """Turns: 1 where the speed of bursts corrects what stations are taken to do."""
    first_burst: float = 1.0
    """Turns: 1 where a history predicts a job's first burst."""
    burst_noise: float = 0.0
    """Turns: by how much the length of a burst is mismeasured (sd of its logarithm)."""
    demand_error: float = 1.0
    """Turns: what is taken for a job's demand, over what it is."""
    covered: float = 1.0
    """Turns and placement: share of the jobs whose bursts can be held, and files placed."""
    seen: float = 1.0
    """Turns: 1 where the storage counts what each of the other jobs writes."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a policy is asked about."""

    workload: Workload
    profiles: Profiles
    """What is predicted, wrong predictions included."""
    storage: Storage
    options: Options
    epoch: float = 0.0
    """UTC seconds of time 0."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a policy does."""

    decider: Decider
    storage: Storage
    lanes: NDArray[np.uint32] | None = None
    """Of each job where lanes are not decided on; bits, 0: all."""
    on_blocks: bool = False
    """Whether the decider puts jobs on blocks of targets."""
    reshape: Callable[[NDArray[Any], Any], NDArray[Any]] | None = None
    """What becomes of the loads (contention.LOAD) under a configuration of the storage model."""
    watch: tuple[Any, Any] | None = None
    """A sluice_turns_watch and its watcher: tests may put other verdicts in place of the core's."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One that `sluice site replay --policy` knows."""

    plan: Callable[[Question], Plan]
    delays: bool = False
    """Whether it delays jobs, for Options.max_delay at most."""


def _none(question: Question) -> Plan:
    return Plan(NoPolicy(len(question.workload.jobs)), question.storage)


def _server_fair(question: Question) -> Plan:
    return replace(_none(question), storage=question.storage.shared("jobs"))


def _license_cap(question: Question) -> Plan:
    storage, nodes = question.storage, question.workload.nodes
    room = question.options.bandwidth * storage.targets * storage.number("target_bandwidth")
    return _gate(question, room, nodes * storage.number("node_rate"))


def _two_groups(question: Question) -> Plan:
    return _gate(question, question.options.heavy, np.ones(len(question.workload.jobs)))


def _gate(question: Question, room: float, need: NDArray[np.float64]) -> Plan:
    """Let I/O-heavy jobs run while what they need fits the room."""
    jobs = np.flatnonzero(is_heavy(question.profiles))
    decider = Gates(
        [room], [(jobs, need[jobs])], jobs=len(need), max_delay=question.options.max_delay
    )
    return Plan(decider, question.storage)


def on_lanes(question: Question, lanes: NDArray[np.int64]) -> Plan:
    """Put I/O-heavy jobs on these lanes (bit masks), and no other job anywhere."""
    heavy = is_heavy(question.profiles)
    of_heavy = np.where(heavy, lanes, 0).astype(np.uint32)
    return Plan(NoPolicy(len(of_heavy), of_heavy), question.storage, of_heavy)


def static_lanes(question: Question, is_first: NDArray[np.bool_]) -> Plan:
    """Give half of the lanes to those and the other half to other I/O-heavy jobs."""
    count = lane_count(question)
    first = (1 << (count + 1) // 2) - 1
    return on_lanes(question, np.where(is_first, first, ((1 << count) - 1) ^ first))


def _class_lanes(question: Question) -> Plan:
    return static_lanes(question, streams(question.profiles))


def lane_count(question: Question) -> int:
    count = len(question.storage.lanes)
    if count < 2:
        raise PolicyError(
            "this policy puts jobs on lanes; give the storage two at least: lanes = 2 in [storage] "
            "of a --scenario"
        )
    return count


def _rate_cap(question: Question) -> Plan:
    most = question.options.source_rate * question.storage.number("node_rate")

    def reshape(loads: NDArray[Any], config: Any) -> NDArray[Any]:
        return limited(loads, config, node_rate=most)

    return replace(_none(question), reshape=reshape)


def _turns(question: Question) -> Plan:
    return _with_turns(_none(question), question)


def _with_turns(plan: Plan, question: Question) -> Plan:
    """Let bursts take turns under a plan that changes no loads."""
    options = question.options
    learning = {} if options.turn_learns > 0 else {"tolerance": 1.0, "probe": 0.0}
    knowledge = Knowledge(
        {
            "latency": options.turn_latency,
            "budget": options.turn_budget,
            "guard": options.turn_guard,
            "pace": options.turn_pace,
            "trial": options.turn_trial,
            **learning,
        },
        predicted=options.first_burst > 0,
        noise=options.burst_noise,
        demand_error=options.demand_error,
        covered=options.covered,
        seen=options.seen > 0,
        seed=options.seed,
    )
    return replace(plan, reshape=turns(knowledge, question.workload, question.profiles))


DISTURBED = 0.5
"""Files of others in a burst, over the targets, from which blocks lose less than a round robin."""


def is_undisturbed(question: Question) -> bool:
    """Whether the file system itself keeps bursts apart, so that blocks have nothing to gain."""
    storage, profiles = question.storage, question.profiles
    loads = profiles.loads(question.workload, storage.configuration())
    bursts = max(1, int(loads["bursts"].sum()))
    seconds = float((loads["burst"] * loads["bursts"]).sum()) / bursts
    creates = storage.foreign_creates * seconds
    return storage.placement == "round-robin" and creates < DISTURBED * storage.targets


class Placing(TraceHistory):
    """Of a storage that is one lane. What jobs do to each other there chooses no block."""

    def __init__(self, workload: Workload, profiles: Profiles, storage: Storage) -> None:
        servers = sum(servers for _, servers in storage.lanes)
        lane = replace(storage, lanes=((storage.targets, servers),), placement=BLOCKS)
        super().__init__(workload, profiles, lane)

    def interference(self) -> dict[str, Any]:
        return core.default_interference()


def uncovered(site: SiteBundle, jobs: NDArray[np.bool_]) -> SiteBundle:
    """Return a site that knows nothing of these jobs."""
    unknown = core.submission_of({"name": "unknown", "script": SCRIPT})
    application = np.where(jobs, len(site.submissions), site.application)
    return replace(site, submissions=[*site.submissions, unknown], application=application)


def placed(plan: Plan, question: Question, how: str) -> Plan:
    """Place the files of the covered jobs: on BLOCKS by what is predicted, or AT_CREATE."""
    storage, options, workload = question.storage, question.options, question.workload
    if storage.placement is None:
        raise PolicyError(
            "this policy chooses targets, and to this storage a lane is one: give placement in "
            "[storage] of a --scenario"
        )
    is_covered = covered_jobs(len(workload.jobs), options.covered, options.seed)
    if how == BLOCKS and is_undisturbed(question):
        return plan
    if how == BLOCKS:
        site = site_bundle(Placing(workload, question.profiles, storage), max_delay=0.0)
        site = uncovered(site, ~is_covered)
        decider = Core(site, workload, epoch=question.epoch, other=plan.decider)
        return replace(plan, decider=decider, on_blocks=True)
    before = plan.reshape

    def reshape(loads: NDArray[Any], config: Any) -> NDArray[Any]:
        changed = np.array(loads if before is None else before(loads, config))
        changed["placed"] = is_covered
        return changed

    return replace(plan, reshape=reshape)


def _placement(how: str, plan: Callable[[Question], Plan] = _none) -> Callable[[Question], Plan]:
    return lambda question: placed(plan(question), question, how)


def sluice(
    *, delay: bool = True, lanes: bool = True, history: type[TraceHistory] = TraceHistory
) -> Callable[[Question], Plan]:
    """Return the policy of Sluice with some of its remedies, and what it learned from a trace."""

    def plan(question: Question) -> Plan:
        options = question.options
        site = site_bundle(
            history(question.workload, question.profiles, question.storage),
            max_delay=options.max_delay if delay else 0.0,
            wait_price=options.wait_price,
            turns_gain=options.turns_gain * options.covered if options.turns > 0 else 0.0,
            is_confinable=lanes,
        )
        decider = Core(site, question.workload, epoch=question.epoch)
        has_blocks = question.storage.placement == BLOCKS
        plan = Plan(decider, question.storage, on_blocks=has_blocks)
        return _with_turns(plan, question) if options.turns > 0 else plan

    return plan


def with_options(plan: Callable[[Question], Plan], **instead: Any) -> Callable[[Question], Plan]:
    """Return the plan with some options that it does not leave to the question."""

    def changed(question: Question) -> Plan:
        return plan(replace(question, options=replace(question.options, **instead)))

    return changed


POLICIES: Mapping[str, Policy] = {
    "none": Policy(_none),
    "server-fair": Policy(_server_fair),
    "license-cap": Policy(_license_cap, delays=True),
    "two-groups": Policy(_two_groups, delays=True),
    "class-lanes": Policy(_class_lanes),
    "rate-cap": Policy(_rate_cap),
    "turns": Policy(_turns),
    "placement": Policy(_placement(BLOCKS)),
    "placement-turns": Policy(_placement(BLOCKS, _turns)),
    "placement-at-create": Policy(_placement(AT_CREATE)),
    "sluice-auto": Policy(sluice(), delays=True),
    "sluice-delay": Policy(sluice(lanes=False), delays=True),
    "sluice-disjoint": Policy(sluice(delay=False)),
}


def policy_named(name: str, known: Mapping[str, Policy] = POLICIES) -> Policy:
    """Return the policy of that name, or say which there are."""
    if name in known:
        return known[name]
    raise PolicyError(f"no policy {name!r}; there are {', '.join(known)}")
