"""Submission throughput of a real slurmctld with Sluice against without.

A libslurm client submits blocks of held jobs to two private clusters that differ in the
plugin only: in pairs, in random order, so that drift and neighbours hit both alike. Two of
four pairs are loops over one application, whose decisions are worked out once a second; in two
each job is of another application than the one before, all of them known. Sluice is in advise,
where it does most. The ratio is the median over the pairs, with a bootstrap interval.
"""

import random
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "lab"))

import made_model  # noqa: E402  found through the line above
from plugin_harness import PluginFiles, install, quantile  # noqa: E402
from private_slurm import PrivateSlurm  # noqa: E402

BUILD = REPOSITORY / "build"
SESSIONS = 8  # with clusters of their own: slurmctld slows down as jobs pile up
ROUNDS = 12  # of four pairs, a session
JOBS = 80  # a block
GOAL = 0.97
RESAMPLES = 10_000
APPLICATIONS = ("mesh", "solve", "coupler", "checkpoint", "restart", "analysis", "render", "pack")
NAMES = {
    "loop": "mesh",
    "known": ",".join(APPLICATIONS),
}
ROUND = ("loop", "loop", "known", "known")


def build(place: Path) -> Path:
    """Build plugin and client; returns the client."""
    subprocess.run(
        [
            "make",
            "--silent",
            "-C",
            REPOSITORY / "slurm-plugin/controller/job_submit",
            f"BUILD={BUILD}",
        ],
        check=True,
    )
    client = place / "bulk_submit"
    source = REPOSITORY / "tests" / "slurm" / "bulk_submit.c"
    subprocess.run(
        ["cc", "-std=c11", "-D_GNU_SOURCE", "-O2", source, "-o", client, "-lslurm"], check=True
    )
    return client


def measure(
    place: Path, files: PluginFiles, client: Path, pairs: dict[str, list[tuple[float, float]]]
) -> None:
    """One session: add the seconds of its blocks without and with the plugin."""
    with ExitStack() as stack:
        without = stack.enter_context(PrivateSlurm(place / "without", nodes=1))
        with_it = stack.enter_context(
            PrivateSlurm(
                place / "with",
                nodes=1,
                settings={"JobSubmitPlugins": "sluice"},
                plugin_dir=BUILD / "plugins",
                environment={"SLUICE_CONF": str(files.config)},
            )
        )
        for _ in range(ROUNDS):
            install(files.snapshot, made_model.snapshot(corunners=32))
            files.wait_until_loaded("bundle", "snapshot")
            for kind in ROUND:
                times: dict[PrivateSlurm, float] = {}
                for slurm in random.sample((without, with_it), 2):
                    times[slurm] = float(slurm.run(client, str(JOBS), NAMES[kind]).stdout)
                pairs[kind].append((times[without], times[with_it]))
        show_histograms(files)


def show_histograms(files: PluginFiles) -> None:
    """What the plugin itself measured inside slurmctld, its caches cold."""
    buckets = files.stats()["cpu_ns"]["known"]["buckets"]
    median, p99, p999 = (quantile(buckets, q) / 1000 for q in (0.5, 0.99, 0.999))
    print(
        f"  known in slurmctld: median < {median:.1f} us, p99 < {p99:.1f} us, "
        f"p99.9 < {p999:.1f} us over {sum(count for _, count in buckets)} calls"
    )


def show_ratio(name: str, seconds: np.ndarray) -> float:
    """Print throughput with over without; returns the estimate."""
    ratios = seconds[:, 0] / seconds[:, 1]
    rng = np.random.default_rng()
    picks = rng.integers(0, len(ratios), (RESAMPLES, len(ratios)))
    low, high = np.quantile(np.median(ratios[picks], axis=1), (0.025, 0.975))
    estimate = float(np.median(ratios))
    without, with_it = JOBS / np.median(seconds, axis=0)
    print(
        f"{name}: {without:.0f} jobs/s without Sluice, {with_it:.0f} with; ratio {estimate:.3f}, "
        f"95 % interval {low:.3f} to {high:.3f}, {len(ratios)} pairs of {JOBS} jobs"
    )
    return estimate


def main() -> int:
    place = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    place.chmod(0o755)
    pairs: dict[str, list[tuple[float, float]]] = {kind: [] for kind in NAMES}
    try:
        client = build(place)
        files = PluginFiles(place)
        bundle = made_model.bundle(
            applications=10_000,
            uid=0,
            job_names=[f"{name}1" for name in APPLICATIONS],
        )
        install(files.bundle, bundle)
        files.configure(Mode="advise")
        for session in range(1, SESSIONS + 1):
            print(f"session {session} of {SESSIONS}")
            measure(place, files, client, pairs)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    for kind, rows in pairs.items():
        show_ratio(kind, np.array(rows))
    estimate = show_ratio("all", np.concatenate([np.array(rows) for rows in pairs.values()]))
    print(f"goal: {GOAL}")
    return 0 if estimate >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
