"""Thread CPU time of job_submit in the built plugin.

10,000 known applications, 32 co-runners; 10,000 different jobs that the table knows, in observe,
and in enforce, where they take tokens as well. Last, known jobs whose bytes vary by more than a
factor of two: each is decided on as it is, small, and large. The harness times every call
from outside, also as slurmctld makes it: in a new thread, its caches full of other things.
The plugin's own histogram, of one call in eight, is printed next to it. A machine may be half
as fast in one run as in another, so a fixed number of multiplications is timed in every
run too.
"""

import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "lab"))

import made_model  # noqa: E402  found through the line above
from plugin_harness import Harness, Timing, build, drain, install, quantile  # noqa: E402

JOBS = 10_000
ROUND_JOBS = 4096  # timed at a stretch: as many as the ring holds
ROUNDS = 60
TAIL_GOAL = 60.0  # us, p99.9
CHILLED = 2000
FIXED_STEPS = 1000  # of the loop that tells how fast the machine is


@dataclass(frozen=True)
class Route:
    """One way through the plugin, and what its median may take."""

    name: str
    """As the plugin's own histogram calls it."""
    median_goal: float  # us
    mode: str = "observe"
    is_vague: bool = False
    """Its bytes vary by more than a factor of two from run to run."""


ROUTES = (
    Route("known", median_goal=5.0),
    Route("known", median_goal=5.0, mode="enforce"),
    Route("known", median_goal=15.0, mode="enforce", is_vague=True),
)
VAGUE = {"write_bytes": 0.6}  # sd of the logarithm
TOKENS = ("all_stream", "all_flush", "all_meta")
# In enforce every job is to be decided on and given tokens.
SETTINGS = {"observe": "", "enforce": "MinConfidence=0\n"}


@dataclass(frozen=True)
class Measured:
    """What was timed, round by round."""

    calls: list[Timing]
    as_long: list[Timing]
    """Loops of arithmetic that take as long as the calls."""
    fixed: list[Timing]
    """Loops of FIXED_STEPS multiplications."""
    chilled: Timing
    """Calls in new threads whose caches hold other things."""


def bundle_for(route: Route) -> bytes:
    return made_model.bundle(
        applications=JOBS,
        settings=SETTINGS[route.mode],
        spread=VAGUE if route.is_vague else None,
    )


def measure(harness: Harness, route: Route) -> Measured:
    """Submit all jobs once, then many under the clock, each round with an empty ring."""
    files = harness.files
    install(files.snapshot, made_model.snapshot(corunners=32))
    files.configure(Mode=route.mode)
    with harness:
        for token in TOKENS:
            harness.set_total(token, 1_000_000)
        files.wait_until_loaded("bundle", "snapshot")
        for i in range(JOBS):
            harness.submit(**made_model.job(i))
        calls, as_long, fixed_work = list[Timing](), list[Timing](), list[Timing]()
        steps = FIXED_STEPS
        for _ in range(ROUNDS):
            install(files.snapshot, made_model.snapshot(corunners=32))
            drain(files.socket)
            call = harness.repeat(threads=1, count=ROUND_JOBS)
            loop = harness.spin(steps=steps, count=ROUND_JOBS)
            steps = max(1, steps * call.median // max(1, loop.median))
            calls.append(call)
            as_long.append(loop)
            fixed_work.append(harness.spin(steps=FIXED_STEPS, count=ROUND_JOBS // 8))
        seen = files.stats()
        histogram = seen["cpu_ns"][route.name]
        if histogram["count"] < seen["cpu_ns"]["all"]["count"]:
            raise RuntimeError(f"some jobs took another route: {seen}")
        buckets = histogram["buckets"]
        install(files.snapshot, made_model.snapshot(corunners=32))
        drain(files.socket)
        chilled = harness.repeat_chilled(count=CHILLED)
    if route.mode == "enforce":
        print(f"  {seen['grants']['taken'] / seen['decided']:.0%} of the jobs took tokens")
    print(
        f"  plugin's histogram: median < {quantile(buckets, 0.5) / 1000:.1f} us, "
        f"p99 < {quantile(buckets, 0.99) / 1000:.1f} us, "
        f"p99.9 < {quantile(buckets, 0.999) / 1000:.1f} us over {histogram['count']} calls"
    )
    return Measured(calls, as_long, fixed_work, chilled)


def middle(rounds: list[Timing]) -> tuple[float, float, float]:
    """Median, p99 and p99.9 in us, each the median over the rounds."""
    median, p99, p999 = (
        statistics.median(getattr(one, name) for one in rounds) / 1000
        for name in ("median", "p99", "p999")
    )
    return median, p99, p999


def main() -> int:
    built = build()
    is_good = True
    print(f"{ROUNDS} rounds of {ROUND_JOBS} jobs; figures are medians over the rounds")
    for route in ROUTES:
        print(f"{route.name}, {route.mode}{', vague' if route.is_vague else ''}:")
        with tempfile.TemporaryDirectory(prefix="sluice-bench-") as place:
            harness = Harness(built, Path(place))
            install(harness.files.bundle, bundle_for(route))
            measured = measure(harness, route)
        median, p99, tail = middle(measured.calls)
        print(
            f"  from outside: median {median:.1f} us (goal {route.median_goal:.0f}), "
            f"p99 {p99:.1f} us, p99.9 {tail:.1f} us (goal {TAIL_GOAL:.0f})"
        )
        print(
            "  an arithmetic loop of that length (interrupts alone): "
            "median {:.1f} us, p99 {:.1f} us, p99.9 {:.1f} us".format(*middle(measured.as_long))
        )
        chilled = measured.chilled
        print(
            f"  in new threads, caches full: median {chilled.median / 1000:.1f} us, "
            f"p99 {chilled.p99 / 1000:.1f} us"
        )
        fixed, *_ = middle(measured.fixed)
        print(f"  {FIXED_STEPS} multiplications in a row, in every run: median {fixed:.2f} us")
        is_good &= median <= route.median_goal and tail <= TAIL_GOAL
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
