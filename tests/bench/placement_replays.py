"""What placement is worth on 128 storage targets, next to what it must hold: `make placement`.

    python tests/bench/placement_replays.py [DRAWS]

Jobs arrive by themselves and never wait; each writes bursts on 1 to 16 targets, which it keeps busy
by itself. The product's replay engine, storage model and placement core do the rest. Lost: by how
much bursts outlast the same bursts alone, by nodes, over I/O time alone. Writes the tables of
docs/evidence/placement.md.
"""

import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "replay"))

from gains import TRACES

from sluice.policies import core
from sluice.policies.bundle_writer import BundleApplication, pack_bundle
from sluice.sim import engine
from sluice.sim.engine import JOB, Machine, Workload
from sluice.sim.policies.policies import Core, NoPolicy
from sluice.sim.policies.site_bundle import SCRIPT, SiteBundle
from sluice.sim.replay.compare import compare
from sluice.sim.storage.mean_field import LOAD, Contention, configuration
from sluice.sim.storage.turns import take_turns

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "placement.md"
DRAWS = 20
TARGETS, SERVERS = 128, 16
RATE = 5e8
"""B/s of a target."""
LOADS = (0.1, 0.2, 0.4)
HOUR = 3600.0
WARM, HOURS = 4 * HOUR, 8 * HOUR
DUTY, DUTY_SPREAD, WIDEST = 0.075, 0.9, 4
"""Mean share of the time that a job writes, sd of its logarithm; targets: 1 to 2^WIDEST."""
BURST, BURST_SPREAD, LIFE, LIFE_SPREAD, DIFFERENT = 40.0, 1.0, 7200.0, 0.8, 0.2
"""Seconds in the median and sd of the logarithm, of bursts and jobs; of a job's bursts."""


@dataclass(frozen=True)
class Way:
    """How files get to their targets."""

    name: str
    allocator: str = "chance"
    foreign: float = 0.0
    """Files a second of others."""
    blocks: bool = False
    create: bool = False
    turns: bool = False
    latency: float = 1.0
    """Seconds until a verdict is in effect; bursts shorter than 20 of these are not held."""
    error: float = 0.0
    """Of what is predicted, sd of its logarithm."""
    least: float = 0.0
    """Share of I/O from which jobs are placed (MinIoShare)."""
    covered: float = 1.0
    everywhere: bool = False
    """Whether all jobs use all targets."""
    link: float = 1000.0
    """Of a server, over the rate of a target."""


CHANCE = Way("by chance, new files each burst")
ROUND_ROBIN = Way("round robin, undisturbed", "round-robin")
DISTURBED = Way("round robin, 2 other creates a second", "round-robin", 2.0)
BLOCKS = Way("blocks by pairs, once a job", blocks=True)
WRONG = replace(BLOCKS, name="blocks, duty wrong by sd 1", error=1.0)
HEAVY = replace(BLOCKS, name="blocks, of jobs that write for 2 % of the time", least=0.02)
TURNS = Way("turns, by chance", turns=True)
BOTH = replace(BLOCKS, name="blocks and turns", turns=True)
SOON = replace(BOTH, name="blocks and turns, verdicts after 0.2 s", latency=0.2)
CREATE = Way("at create, on free targets", create=True)
QUARTER = replace(BLOCKS, name="blocks, a quarter of the jobs covered", covered=0.25)
ON_ROUND_ROBIN = replace(
    BLOCKS, name="blocks where round robin is undisturbed", allocator="round-robin"
)
PLAIN_QUARTER = replace(CHANCE, name="the same jobs by chance", covered=0.25)
EVERYWHERE = Way("all jobs on all targets", everywhere=True)
EVERYWHERE_BLOCKS = replace(EVERYWHERE, name="all jobs on all targets, blocks", blocks=True)
LINKS = Way("links of 2 of 8 targets", link=2.0)
LINKS_BLOCKS = replace(LINKS, name="links of 2 of 8 targets, blocks", blocks=True)
WAYS = (CHANCE, DISTURBED, ROUND_ROBIN, BLOCKS, WRONG, HEAVY, TURNS, BOTH, SOON, CREATE)
OTHERS = (EVERYWHERE, EVERYWHERE_BLOCKS, LINKS, LINKS_BLOCKS)
WIDTHS = (1, 4, 16)
"""Of which the loss is told apart, for the law's term of uneven load."""
LINKS_LOAD = 0.1
"""At which these are compared: links carry a quarter of what their targets do."""
FILLED = replace(BLOCKS, name="blocks, 48 hours")
FILLED_LOAD, FILLED_HOURS = 0.2, 48 * HOUR


@dataclass(frozen=True)
class Jobs:
    """Of one draw, the same ones for each way."""

    submit: np.ndarray
    life: np.ndarray
    width: np.ndarray
    nodes: np.ndarray
    burst: np.ndarray
    bursts: np.ndarray
    duty: np.ndarray


def draw(load: float, seed: int, hours: float = HOURS) -> Jobs:
    """Draw jobs that keep this share of the targets busy."""
    random = np.random.default_rng(seed)
    mean = DUTY * LIFE * np.exp(LIFE_SPREAD**2 / 2) * np.mean(2.0 ** np.arange(WIDEST + 1))
    jobs = random.poisson((WARM + hours) * load * TARGETS / mean)
    submit = np.sort(random.uniform(0, WARM + hours, jobs))
    width = 2 ** random.integers(0, WIDEST + 1, jobs)
    nodes = width * 2 ** random.integers(0, 4, jobs)
    normal = random.normal(size=(3, jobs))
    burst = BURST * np.exp(BURST_SPREAD * normal[0])
    duty = np.minimum(DUTY * np.exp(DUTY_SPREAD * normal[1] - DUTY_SPREAD**2 / 2), 0.5)
    life = LIFE * np.exp(LIFE_SPREAD * normal[2])
    life = np.minimum(life, WARM + hours - submit)  # when it is looked at
    bursts = np.floor(life * duty / burst + random.uniform(size=jobs)).astype(np.uint32)
    return Jobs(submit, life, width, nodes, burst, bursts, duty)


def loads_of(jobs: Jobs, way: Way, is_covered: np.ndarray) -> np.ndarray:
    """Return what the jobs do: bytes at the rate of their targets."""
    width = np.full(len(jobs.width), TARGETS) if way.everywhere else jobs.width
    loads = np.zeros(len(width), LOAD)
    request = configuration().request_bytes
    loads["target_seconds"] = request / RATE
    loads["server_seconds"] = request / (way.link * RATE)
    loads["cap"] = width * RATE / request
    loads["cycle"] = request / RATE
    loads["outstanding"] = width
    loads["weight"] = jobs.nodes
    loads["width"] = np.where(width == TARGETS, 0, width)
    loads["bursts"], loads["burst"] = jobs.bursts, jobs.burst
    # All targets at once take a burst as many times as quickly.
    loads["burst"] *= jobs.width / width
    loads["compute"] = np.where(jobs.bursts > 0, jobs.burst * (1 / jobs.duty - 1), jobs.life)
    loads["most_held"] = np.inf
    loads["expected"] = jobs.burst
    loads["placed"] = is_covered & way.create
    return loads


CONF = f"Mode=enforce\nLane=all Targets={TARGETS} Bandwidth={TARGETS * RATE:.0f} Place=blocks\n"
"""With MinIoShare."""


def site_of(jobs: Jobs, way: Way, is_covered: np.ndarray, seed: int) -> SiteBundle:
    """Return a site that has earlier runs of each job that is covered, and their duty."""
    error = np.random.default_rng((seed, 1)).normal(size=len(jobs.width))
    duty = np.minimum(jobs.duty * np.exp(way.error * error), 1.0)
    width = np.full(len(duty), TARGETS) if way.everywhere else jobs.width
    submissions, table = [], []
    for i in range(len(duty)):
        name = "job_" + "".join("abcdefghij"[int(digit)] for digit in str(i))
        submissions.append(core.submission_of({"name": name, "script": SCRIPT, "io_dir": 1}))
        asked = core.submission_of({"uid": 1, "name": name})
        profile = {
            "pattern": "aw",
            "share": {"aw": 1.0},
            "confidence": 1.0,
            "runs": 9,
            "io_share": float(duty[i]),
            "targets": float(width[i]),
        }
        if is_covered[i]:
            key = core.application_key(asked, "user_name")
            table.append(BundleApplication(key, "user_name", i + 1, profile))
    config = f"{CONF}MinIoShare={way.least}\n"
    bundle = pack_bundle(
        policy=core.parse_config("sluice.conf", config.encode()).policy,
        interference=core.default_interference(),
        applications=table,
        text="{}",
        created=0,
    )
    return SiteBundle(bundle, config, submissions, np.arange(len(duty)))


def replayed(way: Way, load: float, seed: int, hours: float = HOURS) -> dict[str, float]:
    """Replay a draw; return shares lost and how full the fullest target is."""
    jobs = draw(load, seed, hours)
    covered = np.random.default_rng((seed, 2)).uniform(size=len(jobs.width)) < way.covered
    config = configuration(
        {"target_bandwidth": RATE, "server_bandwidth": way.link * RATE, "burst_spread": DIFFERENT},
        lanes=((TARGETS, SERVERS),),
        sharing="jobs",
        allocator=way.allocator,
        foreign_creates=way.foreign,
    )
    config.seed = seed
    if way.turns:
        take_turns(config.turns, {"latency": way.latency})
    contention = Contention(config, loads_of(jobs, way, covered))
    rows = np.zeros(len(jobs.width), JOB)
    rows["submit"], rows["runtime"] = jobs.submit, jobs.life
    rows["limit"], rows["slots"] = np.inf, jobs.nodes
    workload = Workload(Machine((int(jobs.nodes.sum()),)), rows)
    decider = NoPolicy(len(rows))
    if way.blocks:
        site = site_of(jobs, way, covered, seed)
        decider = Core(site, workload, epoch=0.0, other=decider)
    engine.run(workload, storage=contention.storage, policy=decider.table)
    found = contention.results
    lost = jobs.nodes * (found["io"] - found["io_alone"])
    alone = jobs.nodes * found["io_alone"]
    counts = jobs.submit >= WARM
    written = contention.written

    def share(which: np.ndarray) -> float:
        return float(lost[counts & which].sum() / max(alone[counts & which].sum(), 1e-9))

    return {
        "lost": share(np.ones(len(rows), bool)),
        "covered": share(covered),
        "others": share(~covered),
        "fullest": float(written.max() / written.mean()),
        **{f"width {width}": share(jobs.width == width) for width in WIDTHS},
    }


def judged(found: dict[tuple[str, float], list[dict[str, float]]]) -> list[tuple[str, str, bool]]:
    """Return what must hold, what was found, and whether it does."""

    def mean(way: Way, load: float, share: str = "lost") -> float:
        return fmean(one[share] for one in found[way.name, load])

    def recovered(way: Way, load: float) -> float:
        return 1 - mean(way, load) / mean(CHANCE, load)

    rows = []
    for way, least in ((BLOCKS, 0.6), (WRONG, 0.5), (BOTH, 0.85), (SOON, 0.85), (CREATE, 0.95)):
        for load in LOADS[:2]:
            share = recovered(way, load)
            rows.append(
                (f"{way.name}, load {load:.0%}: {least:.0%} of the loss", share, share >= least)
            )
    for load in LOADS[:2]:
        gain = 1 - mean(QUARTER, load, "covered") / mean(PLAIN_QUARTER, load, "covered")
        harm = mean(QUARTER, load, "others") / mean(PLAIN_QUARTER, load, "others") - 1
        rows.append((f"covered quarter, load {load:.0%}: 20 % less for it", gain, gain >= 0.2))
        rows.append(
            (f"covered quarter, load {load:.0%}: at most 2 % more for others", harm, harm <= 0.02)
        )
    for way, blocks in ((EVERYWHERE, EVERYWHERE_BLOCKS), (LINKS, LINKS_BLOCKS)):
        harm = mean(blocks, LINKS_LOAD) / mean(way, LINKS_LOAD) - 1
        rows.append((f"{blocks.name}: at most 2 % more", harm, harm <= 0.02))
    fullest = fmean(one["fullest"] for one in found[FILLED.name, FILLED_LOAD])
    rows.append(("fullest target after 48 h over the mean: 1.25", fullest, fullest <= 1.25))
    return [(name, f"{value:.2f}", is_held) for name, value, is_held in rows]


def asked(draws: int) -> list[tuple[Way, float, int, float]]:
    """Return what is replayed: way, load, seed and hours."""
    pairs = [(way, load, HOURS) for way in (*WAYS, QUARTER, PLAIN_QUARTER) for load in LOADS]
    pairs += [(way, LINKS_LOAD, HOURS) for way in OTHERS]
    pairs.append((FILLED, FILLED_LOAD, FILLED_HOURS))
    return [(way, load, seed, hours) for way, load, hours in pairs for seed in range(1, draws + 1)]


POLICIES = ("placement", "turns", "placement-turns", "placement-at-create")
TRACE_DRAWS = 5


def traces() -> Iterator[tuple[str, ...]]:
    """Yield rows: slot-hours lost by each policy over those by chance, the median of the draws."""
    for name, experiment in TRACES.items():
        for targets in (16, 64):
            asked = replace(experiment, lanes=1, targets=targets, placement="chance")
            found = compare(
                asked.draw, POLICIES, repeats=TRACE_DRAWS - 1, workers=os.cpu_count() or 1
            )
            plain = found.values("none", "lost_slot_hours")
            cells = []
            for policy in POLICIES:
                lost = found.values(policy, "lost_slot_hours")
                ratios = [one / all_ for one, all_ in zip(lost, plain, strict=True)]
                cells.append(f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
            yield (name, str(targets), *cells)


def fill(page: str, name: str, rows: Iterable[Sequence[str]]) -> str:
    """Return the page with these rows in the table after a comment of this name."""
    head = rf"(<!-- {name}: `make placement` -->\n\|.*\n\|[-|]+\n)"
    text = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    page, count = re.subn(rf"{head}(\|.*\n)*", lambda match: match[1] + text, page)
    if count != 1:
        raise SystemExit(f"{PAGE}: no table after <!-- {name}: `make placement` -->")
    return page


def main() -> int:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS
    tasks, found = asked(draws), defaultdict(list)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for (way, load, *_), one in zip(
            tasks, pool.map(replayed, *zip(*tasks, strict=True)), strict=True
        ):
            found[way.name, load].append(one)
    lost = [
        (
            way.name,
            *(
                f"{fmean(one['lost'] for one in found[way.name, load]) + 1e-9:.2f}"
                for load in LOADS
            ),
        )
        for way in WAYS
    ]
    others = [
        (way.name, f"{fmean(one['lost'] for one in found[way.name, LINKS_LOAD]):.2f}")
        for way in OTHERS
    ]
    law = []
    for width in WIDTHS:
        kept = [
            1 / (1 + fmean(one[f"width {width}"] for one in found[CHANCE.name, load]))
            for load in LOADS
        ]
        law.append(
            (
                str(width),
                *(f"{(1 - one) / load:.1f}" for one, load in zip(kept, LOADS, strict=True)),
            )
        )
    held = judged(found)
    of_traces = list(traces())
    verdicts = [(name, value, "yes" if is_held else "no") for name, value, is_held in held]
    page = PAGE.read_text()
    for name, rows in (
        ("lost", lost),
        ("others", others),
        ("held", verdicts),
        ("law", law),
        ("traces", of_traces),
    ):
        page = fill(page, name, rows)
        print(*(" | ".join(row) for row in rows), sep="\n")
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
