"""Run every benchmark of this folder, one after the other: `make bench`.

Each prints ratios measured within its own run, because machines are noisy.
Names given as arguments select some: `python tests/bench/run.py core submit`.
"""

import subprocess
import sys
from pathlib import Path


def main() -> int:
    wanted = sys.argv[1:]
    failed = []
    for script in sorted(Path(__file__).parent.glob("*_bench.py")):
        name = script.stem.removesuffix("_bench")
        if wanted and name not in wanted:
            continue
        print(f"== {name} ==", flush=True)
        if subprocess.run([sys.executable, script], check=False).returncode != 0:
            failed.append(name)
        print(flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
