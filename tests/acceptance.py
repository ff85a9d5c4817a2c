"""The parts of `make acceptance`, each meant for an hour on two cores, and a run of them.

    python tests/acceptance.py [--list] [PART ...]

runs the named parts, or all, one after another: several of them measure storage and want the
machine to themselves. It prints a line a part and ends with 1 where one was not green.
"""

import argparse
import re
import subprocess
import sys
import time

PARTS = {
    "packages": r"tests/packages/",
    "versions": r"tests/slurm/test_versions",
    "chaos": r"tests/chaos/",
    "loop": r"tests/loop/",
    "placement": r"tests/storage/test_placed_bursts",
    "calibration": r"tests/(probe|storage)/",
    "turns-mixed": r"tests/slurm/test_turns_gain.*\[mixed\]",
    "turns-moosefs": r"tests/slurm/test_turns_gain.*moosefs",
    "turns-programs": r"tests/slurm/test_turns_gain.*programs(\]|_lose_less_with_turns)",
    "turns-streams": r"tests/slurm/test_turns_gain",
    "gains": r"tests/slurm/test_(gain|slow_lane|calibrate_srun)",
    "controller": r"tests/(slurm|spank)/",
    "preload": r"tests/shim/",
    "stage": r"tests/stage/",
    "pages": r"tests/serve/",
    "replays-kth": r"tests/replay/test_turns\.py.*KTH-SP2",
    "replays-256": r"tests/replay/test_turns\.py.*256 nodes",
    "replays-64": r"tests/replay/test_turns\.py",
    "replays": r"tests/replay/",
    "learning": r"tests/",
}
"""Name -> what begins the ids of its tests. A test belongs to the first part that it matches."""

NO_TESTS = 5
"""pytest's exit status where nothing was collected."""


def part_of(test: str) -> str:
    """Return the part of a test, by its id as `tests/slurm/test_gain.py::test_...`."""
    return next(part for part, begins in PARTS.items() if re.match(begins, test))


def run(part: str) -> bool:
    """Run one part, print its line, and return whether it is green."""
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-m", "acceptance", "--part", part]
    status = subprocess.run(command, check=False).returncode
    said = {0: "green", NO_TESTS: "has no tests"}.get(status, "not green")
    print(f"acceptance: {part}: {said}, {(time.monotonic() - began) / 60:.0f} minutes", flush=True)
    return status == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the parts and end")
    parser.add_argument("part", nargs="*", help="the parts to run (default: all)")
    asked = parser.parse_args()
    if unknown := set(asked.part) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))} (--list prints them)")
    if asked.list:
        print(*PARTS, sep="\n")
        return 0
    green = [run(part) for part in asked.part or PARTS]
    return 0 if all(green) else 1


if __name__ == "__main__":
    sys.exit(main())
