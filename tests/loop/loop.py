#!/usr/bin/env python3
"""The loop with nobody's hand on it: programs with co-runners, what Sluice learns of it, the truth.

    tests/loop/loop.py /tmp/loop                      # an hour
    tests/loop/loop.py /tmp/loop --seconds 180        # the short form: a few programs
    tests/loop/comparison.py /tmp/loop               # once more, of what was kept

It ends with what must hold; exit code 1 where something does not. Keep the directory to look
further: history, logs, accounting, stamps (runs.jsonl), scripts.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))

from comparison import Finding, compare
from darshan_runtime import DarshanRuntime, find_runtime
from loop_lab import LoopLab

HOUR = 3600.0
A_ROUND = 45.0  # seconds of all programs with co-runners
ROUNDS = 8  # the least
LEARNS_WITHIN = 120.0  # seconds from a job's end to a model that knows it, at the defaults
PAIRS = (
    ("fio", "stream"), ("results", "copy"), ("farm", "results"), ("fio", "copy"),
    ("tasks", "stream"), ("series", "stream"), ("archive", "farm"), ("blocks", "stream"),
    ("arrays", "unformatted"), ("collective", "arrays"), ("series", "tasks"), ("idle", "stream"),
    ("training", "stream"), ("training", "convert"),
)  # fmt: skip

# The short form
BELOW = 600.0  # seconds
FEW = ("fio", "results", "stream", "copy", "farm", "training")
FEW_PAIRS = 2
LEARNS_OFTEN = {"LearnInterval": 5}
LEARNS_SOON = 30.0  # seconds


def how_logs_come(runtime: DarshanRuntime | None) -> str:
    """Say whose Darshan makes the logs, or that they are synthesised."""
    if runtime is None:
        return "no Darshan runtime here (DARSHAN_RUNTIME=DIR): logs are synthesised from strace"
    return f"logs of the Darshan runtime in {runtime.origin}"


def run(
    place: Path,
    runtime: DarshanRuntime | None,
    *,
    seconds: float,
    seed: int = 1,
    say: Callable[[str], None] = lambda _: None,
) -> list[Finding]:
    """Run the loop in about so many seconds and return what must hold.

    The place does not exist yet; everything is kept there.
    """
    place.mkdir(mode=0o755)
    is_short = seconds < BELOW
    lab = LoopLab(
        place,
        runtime,
        names=FEW if is_short else (),
        seed=seed,
        say=say,
        settings=LEARNS_OFTEN if is_short else {},
    )
    with lab:
        with lab.learning():
            lab.contended(max(ROUNDS, int(seconds / 2 / A_ROUND)))
            time.sleep(LEARNS_SOON if is_short else LEARNS_WITHIN)
        lab.alone(2 if is_short else 3)
        known = [pair for pair in PAIRS if lab.knows(*pair)]
        lab.pairs(known[:FEW_PAIRS] if is_short else known)
        lab.save()
    return compare(place)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("place", type=Path, help="where everything is kept; it must not exist")
    parser.add_argument("--seconds", type=float, default=HOUR, help="about; default an hour")
    parser.add_argument(
        "--synthesised",
        action="store_true",
        help="make logs of what strace sees, as without Darshan",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the order of jobs")
    arguments = parser.parse_args()
    runtime = None if arguments.synthesised else find_runtime()
    print(how_logs_come(runtime), flush=True)
    findings = run(
        arguments.place,
        runtime,
        seconds=arguments.seconds,
        seed=arguments.seed,
        say=lambda text: print(text, flush=True),
    )
    if arguments.seconds < BELOW:
        print("Too few programs and runs to judge by (`make loop` takes an hour). Measured:")
        print(*(finding.measured for finding in findings if finding.value is not None), sep="\n")
        return 0
    print(*findings, f"kept: {arguments.place}", sep="\n")
    return 0 if all(finding.holds for finding in findings) else 1


if __name__ == "__main__":
    sys.exit(main())
