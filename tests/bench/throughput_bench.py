"""Submission throughput of a real slurmctld with Sluice against without.

A libslurm client submits blocks of held jobs to two private clusters that differ
in the plugin only, in pairs of random order, so that drift and neighbours hit
both. The ratio comes with a bootstrap confidence interval over the pairs.
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

import made_model  # noqa: E402  the lab is found through the line above
from plugin_harness import PluginFiles, install, quantile  # noqa: E402
from private_slurm import PrivateSlurm  # noqa: E402

BUILD = REPOSITORY / "build"
PAIRS = 80
JOBS = 150  # a block
RESAMPLES = 10_000


def build(place: Path) -> Path:
    """Build plugin and client; returns the client."""
    subprocess.run(
        ["make", "--silent", "-C", REPOSITORY / "slurm-plugin", f"BUILD={BUILD}"], check=True
    )
    client = place / "bulk_submit"
    source = REPOSITORY / "tests" / "slurm" / "bulk_submit.c"
    subprocess.run(
        ["cc", "-std=c11", "-D_GNU_SOURCE", "-O2", source, "-o", client, "-lslurm"], check=True
    )
    return client


def seconds(slurm: PrivateSlurm, client: Path) -> float:
    """Time of one block, measured by the client from first to last submission."""
    return float(slurm.run(client, str(JOBS), "app").stdout)


def measure(place: Path, client: Path) -> tuple[np.ndarray, np.ndarray, PluginFiles]:
    """Block times without and with the plugin, in pairs."""
    files = PluginFiles(place)
    install(files.bundle, made_model.bundle(applications=10_000, trees=200, jobs=10_000))
    install(files.snapshot, made_model.snapshot(corunners=32))
    files.configure(Mode="advise", PollInterval=500)
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
        files.wait_until_loaded("bundle", "snapshot")
        pairs: list[tuple[float, float]] = []
        for _ in range(PAIRS):
            times: dict[PrivateSlurm, float] = {}
            for slurm in random.sample((without, with_it), 2):
                times[slurm] = seconds(slurm, client)
            pairs.append((times[without], times[with_it]))
        report_histogram(files)
    plain, sluice = np.array(pairs).T
    return plain, sluice, files


def report_histogram(files: PluginFiles) -> None:
    """What the plugin itself measured inside slurmctld, caches cold."""
    seen = files.stats()
    for path in ("known", "forest"):
        histogram = seen["cpu_ns"][path]
        if histogram["count"]:
            print(
                f"in slurmctld, {path}: {histogram['count']} calls, "
                + ", ".join(
                    f"{name} < {quantile(histogram['buckets'], q) / 1000:.1f} us"
                    for name, q in (("median", 0.5), ("p99", 0.99), ("p99.9", 0.999))
                )
            )


def main() -> int:
    place = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    place.chmod(0o755)
    try:
        plain, sluice, _ = measure(place, build(place))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    rng = np.random.default_rng()
    picks = rng.integers(0, PAIRS, (RESAMPLES, PAIRS))
    ratios = plain[picks].sum(axis=1) / sluice[picks].sum(axis=1)
    low, high = np.quantile(ratios, (0.025, 0.975))
    estimate = plain.sum() / sluice.sum()
    print(f"without Sluice {PAIRS * JOBS / plain.sum():.0f} jobs/s")
    print(f"with Sluice    {PAIRS * JOBS / sluice.sum():.0f} jobs/s")
    print(
        f"ratio {estimate:.3f}, 95 % interval {low:.3f} to {high:.3f}, {PAIRS} pairs; goal >= 0.97"
    )
    return 0 if estimate >= 0.97 else 1


if __name__ == "__main__":
    sys.exit(main())
