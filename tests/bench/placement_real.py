"""Placement on real throttled targets: `make placement-real`.

    python tests/bench/placement_real.py [targets|moosefs [DRAWS [SECONDS]]]

Writes the tables of docs/evidence/placement-measured.md, and ends with 1 where that of targets
shows less than the page says must hold.
"""

import re
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))

import moosefs_placement
from real_placement import PLACERS, draws, share_lost, stretches

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "placement-measured.md"
DRAWS, SECONDS = 12, {"targets": 150.0, "moosefs": 60.0}
NAMES = {
    "chance": "neighbours by chance, for each burst anew",
    "round robin": "round robin, once a job",
    "disturbed": "round robin for each burst, disturbed by other creates",
    "blocks": "aligned blocks by predicted pairs, once a job",
    "directory": "the default layout of the job's directory, set anew once a second",
    "at create": "at each create, where the fewest write",
}
MOOSEFS = {
    "own": "its own allocator",
    "blocks": "a class for each block, by predicted pairs, once a job",
    "directory": "the class of the job's directory, set anew once a second, of blocks",
    "each file": "a class for each file as it is made, of a target where the fewest write",
}


def mean_of(by_draw):
    error = stdev(by_draw) / len(by_draw) ** 0.5
    return f"{mean(by_draw):.2f} ({error:.2f})"


def row(name, found):
    over = stretches(found, name)
    cells = [
        f"{share_lost(found, name):.2f}",
        mean_of([share_lost([one], name) for one in found]),
        f"{share_lost(found, name, modelled=True):.2f}",
        *(f"{over[int(share * (len(over) - 1))]:.1f}" for share in (0.5, 0.95, 0.99)),
    ]
    return f"| {NAMES[name]} | {' | '.join(cells)} |"


def row_of_moosefs(name, found):
    by_draw = [moosefs_placement.share_lost([one], name) for one in found]
    own = [moosefs_placement.share_lost([one], "own") for one in found]
    lost = moosefs_placement.share_lost(found, name)
    less = sum(mine < other for mine, other in zip(by_draw, own, strict=True))
    cells = [f"{lost:.2f}", mean_of(by_draw), "" if name == "own" else f"{less} of {len(found)}"]
    return f"| {MOOSEFS[name]} | {' | '.join(cells)} |"


def fill(table, rows):
    head = rf"(<!-- {table}: `make placement-real` -->\n\|.*\n\|[-|]+\n)"
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


def measure(table, count, seconds):
    lab, names, lost = {
        "targets": (draws, PLACERS, share_lost),
        "moosefs": (moosefs_placement.draws, MOOSEFS, moosefs_placement.share_lost),
    }[table]
    found = []
    with tempfile.TemporaryDirectory(prefix="sluice-placement-") as place:
        Path(place).chmod(0o755)
        for draw in lab(Path(place), range(count), seconds):
            found.append(draw)
            said = {name: round(lost([draw], name), 2) for name in names}
            print(f"{table}, draw {len(found)}: lost {said}", flush=True)
    return found


def main():
    tables = sys.argv[1:2] or list(SECONDS)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else DRAWS
    missed = []
    for table in tables:
        seconds = float(sys.argv[3]) if len(sys.argv) > 3 else SECONDS[table]
        found = measure(table, count, seconds)
        rows = {"targets": (row, PLACERS), "moosefs": (row_of_moosefs, MOOSEFS)}[table]
        fill(table, (rows[0](name, found) for name in rows[1]))
        missed += must_hold(found) if table == "targets" else []
    for sentence in missed:
        print(f"does not hold: {sentence}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
