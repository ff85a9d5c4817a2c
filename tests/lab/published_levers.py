"""Levers of others, from their papers, as policies of a replay: `known=LEVERS` takes them.

Each knows what Sluice's turns know of a burst: its first by the means of its kind, then the one
before. Those that share the storage act at once, as a server would; those that delay jobs hold
them for `max_delay` at most. published_levers.c has the rules that share.
"""

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
from compile_c import ROOT, compiled

from sluice.sim._engine import ffi
from sluice.sim.policies.policies import POLICIES, Gates, Plan, Policy, is_heavy, with_options
from sluice.sim.storage.mean_field import station_shares

SET_10, SET_10_FILLED, GIFT, ADAP_TBF, FORGETFUL, FTIO = range(6)
BURSTS = 16
ACCOUNT = np.dtype(
    [
        ("began", np.float64, BURSTS),
        ("length", np.float64, BURSTS),
        ("bursts", np.float64),
        ("period", np.float64),
        ("balance", np.float64),
    ]
)
"""struct account."""
STATION_NAMES = ("bytes", "operations", "links", "metadata")
"""In the order of enum sluice_station."""
AT_ONCE = {"turn_latency": 0.0, "turn_trial": 0.0, "turn_learns": 0.0}


class Lever(ctypes.Structure):
    """struct lever."""

    _fields_ = (
        ("rule", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("accounts", ctypes.c_void_p),
        ("clock", ctypes.c_double),
    )


def _library():
    folders = ("sim/engine/storage", "policies/core")
    core = [
        str(ROOT / f"policies/core/{name}.c")
        for name in ("turns", "turns_stations", "profile", "base")
    ]
    flags = ["-shared", "-fPIC", *core, "-lm", *(f"-I{ROOT / folder}" for folder in folders)]
    return ctypes.CDLL(str(compiled(Path(__file__).with_suffix(".c"), *flags, suffix=".so")))


def next_burst(bursts):
    """Return the length that FTIO expects of the last of (began, length); 0: no period."""
    accounts = np.zeros(1, ACCOUNT)
    for i, (began, length) in enumerate(bursts):
        accounts[0]["began"][i], accounts[0]["length"][i] = began, length
    library = _library()
    library.length_by_frequency.restype = ctypes.c_double
    return library.length_by_frequency(ctypes.c_void_p(accounts.ctypes.data), len(bursts) - 1)


def shares(rule, jobs):
    """Return the shares of full speed that a rule gives to bursts, once.

    A burst has `nodes`, `period`, `began` and `balance`, and takes of stations by their names.
    """
    accounts = np.zeros(len(jobs), ACCOUNT)
    bursts = ffi.new("struct sluice_turns_job[]", len(jobs))
    turns = ffi.new("struct sluice_turn[]", len(jobs))
    for i, job in enumerate(jobs):
        accounts[i]["period"], accounts[i]["balance"] = job.get("period", 0), job.get("balance", 0)
        bursts[i].key, bursts[i].nodes, bursts[i].began = i, job["nodes"], job["began"]
        for station, name in enumerate(STATION_NAMES):
            bursts[i].demand[station] = job.get(name, 0.0)
    decided = ffi.new(
        "struct sluice_turns_decided *", {"jobs": bursts, "turns": turns, "count": len(jobs)}
    )
    lever = Lever(rule, 0, accounts.ctypes.data, 0.0)
    _library().published_lever(
        ctypes.byref(lever), ctypes.c_void_p(int(ffi.cast("uintptr_t", decided)))
    )
    return [turn.share for turn in turns]


def sharing(rule, **options):
    """Return the plan of a rule of published_levers.c; options: of turns, by default AT_ONCE."""
    turns = with_options(POLICIES["turns"].plan, **(options or AT_ONCE))

    def plan(question):
        accounts = np.zeros(len(question.workload.jobs), ACCOUNT)
        accounts["period"] = np.nan_to_num(question.profiles.periods)
        lever = Lever(rule, 0, accounts.ctypes.data, 0.0)
        address = ctypes.cast(_library().published_lever, ctypes.c_void_p).value
        watch = ffi.cast("sluice_turns_watch *", address)
        watcher = ffi.gc(
            ffi.cast("void *", ctypes.addressof(lever)), lambda _, _kept=(lever, accounts): None
        )
        return replace(turns(question), watch=(watch, watcher))

    return plan


def _demand(question):
    """Return what each job is predicted to take of its fullest station while in a burst."""
    config = question.storage.configuration()
    loads = question.profiles.loads(question.workload, config)
    return station_shares(loads, config).max(axis=1)


def planned_bandwidth(question):
    """Let I/O-heavy jobs start while their predicted bandwidths together fit the storage.

    As CATIOS plans it, with the bandwidth of a job's I/O phases.
    """
    return _gate(question, 1.0, _demand(question))


def adaptive_target(question):
    """Let I/O-heavy jobs start while their mean load stays at what the queue offers on average.

    Goponenko et al. (CLUSTER 2022): the target of the load is the mean over the work that is
    queued, so that the storage is used evenly; jobs of the group with little I/O are not counted.
    """
    jobs = question.workload.jobs
    mean = _demand(question) * question.profiles.io_share
    heavy = is_heavy(question.profiles)
    span = max(float(np.ptp(jobs["submit"])), 1.0)
    offered = float((mean * jobs["runtime"])[heavy].sum()) / span
    return _gate(question, max(offered, float(mean[heavy].max(initial=0.0))), mean)


def _gate(question, room, need):
    jobs = np.flatnonzero(is_heavy(question.profiles))
    decider = Gates(
        [room], [(jobs, need[jobs])], jobs=len(need), max_delay=question.options.max_delay
    )
    return Plan(decider, question.storage)


LEVERS = {
    **POLICIES,
    "set-10": Policy(sharing(SET_10)),
    "set-10-filled": Policy(sharing(SET_10_FILLED)),
    "gift": Policy(sharing(GIFT)),
    "adap-tbf": Policy(sharing(ADAP_TBF)),
    "planned-bandwidth": Policy(planned_bandwidth, delays=True),
    "adaptive-target": Policy(adaptive_target, delays=True),
    "sluice-turns": Policy(with_options(POLICIES["sluice-auto"].plan, turns=1.0), delays=True),
}
"""What `known` takes."""
