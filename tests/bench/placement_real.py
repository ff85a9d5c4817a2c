"""Placement on real throttled targets: `make placement-real`.

    python tests/bench/placement_real.py [DRAWS [SECONDS]]

Writes the table of docs/evidence/placement-measured.md, and ends with 1 where it shows less than
that page says must hold.
"""

import re
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))

from real_placement import PLACERS, draws, share_lost, stretches

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "placement-measured.md"
DRAWS, SECONDS = 12, 150.0
NAMES = {
    "chance": "neighbours by chance, for each burst anew",
    "round robin": "round robin, once a job",
    "disturbed": "round robin for each burst, disturbed by other creates",
    "blocks": "aligned blocks by predicted pairs, once a job",
    "directory": "the default layout of the job's directory, set anew once a second",
    "at create": "at each create, where the fewest write",
}


def row(name, found):
    by_draw = [share_lost([one], name) for one in found]
    error = stdev(by_draw) / len(by_draw) ** 0.5
    over = stretches(found, name)
    cells = [
        f"{share_lost(found, name):.2f}",
        f"{mean(by_draw):.2f} ({error:.2f})",
        f"{share_lost(found, name, modelled=True):.2f}",
        *(f"{over[int(share * (len(over) - 1))]:.1f}" for share in (0.5, 0.95, 0.99)),
    ]
    return f"| {NAMES[name]} | {' | '.join(cells)} |"


def fill(rows):
    head = r"(<!-- targets: `make placement-real` -->\n\|.*\n\|[-|]+\n)"
    text = "".join(row + "\n" for row in rows)
    page, count = re.subn(rf"{head}(\|.*\n)*", lambda m: m[1] + text, PAGE.read_text())
    if count != 1:
        raise SystemExit(f"{PAGE}: no table after its comment")
    PAGE.write_text(page)


def must_hold(found):
    """Sentences that are not true of these draws."""
    lost = {name: share_lost(found, name) for name in PLACERS}
    wanted = {
        "blocks lose at least 20 % less than chance": lost["blocks"] <= 0.8 * lost["chance"],
        "at create at least 50 % less": lost["at create"] <= 0.5 * lost["chance"],
        "by the directory at least 50 % less": lost["directory"] <= 0.5 * lost["chance"],
        "blocks no more than round robin": lost["blocks"] <= lost["round robin"],
    }
    return [sentence for sentence, holds in wanted.items() if not holds]


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    found = []
    with tempfile.TemporaryDirectory(prefix="sluice-placement-") as place:
        for draw in draws(Path(place), range(count), seconds):
            found.append(draw)
            said = {name: round(share_lost([draw], name), 2) for name in PLACERS}
            print(f"draw {len(found)}: lost {said}", flush=True)
    if count > 1:
        fill(row(name, found) for name in PLACERS)
    for sentence in must_hold(found):
        print(f"does not hold: {sentence}")
    return 1 if must_hold(found) else 0


if __name__ == "__main__":
    sys.exit(main())
