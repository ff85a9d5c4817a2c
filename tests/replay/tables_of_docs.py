"""Write the tables of docs/evidence/replays.md from what test_gains.py has saved: `make figures`.

A table begins with a comment that names it; its head is the page's, its rows are written here. One
whose figures were not measured stays as it is, and that is said.
"""

import json
import re
import sys
from statistics import median

from gains import (
    ASKED,
    CHEAP_WAITS,
    DEFAULT,
    DRAWS,
    LONG,
    NUDGED,
    PATIENT,
    PLAIN,
    ROOT,
    SHARING,
    STAKED,
    STAKES,
    STATIC,
    STEPS,
    TRACES,
    TURNS,
    WRONG,
    ablations_file,
    better,
    gains_file,
    ratios,
    saved,
    span,
    stakes_file,
)

from sluice.slurm.views.formatting import duration_text

PAGE = ROOT / "docs" / "evidence" / "replays.md"
MINUS = "\N{MINUS SIGN}"
NOTHING = "–"
HOW = {
    "sluice-no-classifier": "Sluice without a classifier",
    "sluice-chunk-only": "Sluice that knows the size of writes only",
    "sluice-auto": "Sluice as deployed",
    "sluice-perfect": "knowing I/O share and run time of each job",
    "sluice-oracle": "knowing how programs disturb each other, too",
    "sluice-oracle-free-waits": "with waits that cost nothing, too",
    "sluice-oracle-patient": "with waits of up to a week, too",
    "two-groups": "with two I/O-heavy jobs at a time",
    "one-at-a-time": "with one at a time, however long the others wait",
}
"""Each row of the table of ablations, as the page says it."""
DELAYS = {
    DEFAULT: ("30 min (default)", "0.2 (default)"),
    LONG: ("1 day", "0.2 (default)"),
    PATIENT: ("1 day", CHEAP_WAITS),
}
"""MaxDelay and WaitPrice of each row of the table of delays."""


def recovered(found):
    """Yield the cells of the table of gains on one trace."""
    for what in ASKED:
        yield percent([100 * (one["share_of_bound"] or 0.0) for one in found[what]], "{:.0f}")
        if what not in (DEFAULT, LONG):
            yield str(better(found, what, PLAIN, "lost_slot_hours"))


def what_else(found):
    """Yield the cells of the table of what else changes on one trace."""
    for what, figure in (
        (PATIENT, "wait_mean_s"),
        (PATIENT, "wait_p99_s"),
        (TURNS, "wait_mean_s"),
        (WRONG, "makespan_s"),
        (NUDGED, "makespan_s"),
    ):
        yield percent([100 * (ratio - 1) for ratio in ratios(found, what, figure)], "{:+.1f}")
    yield span(ratios(found, STATIC, "lost_slot_hours"), "{:.1f}")


def stake(mix, share, found):
    """Yield the cells of one mix and share; what is recovered only where something is lost."""
    yield from (f"`{mix}`", f"{share:.0%}".replace("%", " %"))
    yield percent([100 * one["lost_share"] for one in found[PLAIN]], "{:.2g}")
    is_some = min(one["lost_share"] for one in found[PLAIN]) > 0
    for policy in STAKED:
        kept = ratios(found, policy, "lost_slot_hours") if is_some else []
        yield percent([100 * (1 - one) for one in kept], "{:.0f}") if kept else NOTHING
    yield longer(median(ratios(found, "license-cap", "wait_p99_s")))


def ablation(found, policy):
    """Yield the cells of one policy; what it delays only where it gains."""
    delayed = [
        one["held_slot_hours"] / (plain["lost_slot_hours"] - one["lost_slot_hours"])
        for one, plain in zip(found[policy], found[PLAIN], strict=True)
        if one["lost_slot_hours"] < plain["lost_slot_hours"]
    ]
    yield f"{100 * median(one['share_of_bound'] for one in found[policy]):.0f} %"
    yield two_digits(median(delayed)) if 2 * len(delayed) > DRAWS else NOTHING
    yield longer(median(ratios(found, policy, "wait_mean_s")))


def delays(found, what):
    """Yield the cells of one MaxDelay and WaitPrice."""
    yield from DELAYS[what]
    fewer, held = median(saved(found, what)), median(one["held_slot_hours"] for one in found[what])
    yield signed(f"{fewer:,.0f}")
    yield f"{held:,.0f}"
    yield f"{fewer / held:.3f}" if fewer >= 1.0 else NOTHING
    yield duration_text(median(one["held_mean_s"] or 0.0 for one in found[what]))


def percent(values, form):
    return signed(span(values, form).replace(" (", " % ("))


def signed(text):
    """Write no sign before nothing, and the true minus."""
    return re.sub(r"[+-](0(\.0)?)(?![.\d])", r"\1", text).replace("-", MINUS)


def longer(ratio):
    """Write by how much a wait is longer; a multiple where percents say little."""
    change = 100 * (ratio - 1)
    if change > 1000:
        return f"{two_digits(ratio)}-fold"
    return signed(f"{change:+.{1 if abs(change) < 10 else 0}f} %")


def two_digits(value):
    return f"{float(f'{value:.2g}'):,g}"


def read(path):
    """Return what was saved there; None where it was not measured."""
    return json.loads(path.read_text()) if path.exists() else None


def tables():
    """Yield the name of each table and its rows; no rows where something was not measured."""
    cells = [(trace, sharing) for trace in TRACES for sharing in SHARING]
    found = [read(gains_file(*cell)) for cell in cells]
    for name, row in (("saved", recovered), ("what else", what_else)):
        yield (
            name,
            [
                (trace, SHARING[sharing], *row(one))
                for (trace, sharing), one in zip(cells, found, strict=True)
            ]
            if all(found)
            else [],
        )
    stakes = [(*case, read(stakes_file(*case))) for case in STAKES]
    done = all(found for *_, found in stakes)
    yield "stakes", [tuple(stake(*one)) for one in stakes] if done else []
    known, (first, *_) = read(ablations_file("KTH-SP2")), found
    yield "ablations", [(HOW[name], *ablation(known, name)) for name in STEPS] if known else []
    yield "delays", [tuple(delays(first, what)) for what in DELAYS] if first else []


def filled(page, name, rows):
    """Return the page with these rows in the table of that name."""
    text = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    head = rf"(<!-- {name}: `make figures` -->\n\|.*\n\|[-|]+\n)"
    page, count = re.subn(rf"{head}(\|.*\n)*", lambda found: found[1] + text, page)
    if count != 1:
        raise SystemExit(f"{PAGE}: no table, or several, after <!-- {name}: `make figures` -->")
    return page


def main():
    page = PAGE.read_text()
    for name, rows in tables():
        if rows:
            page = filled(page, name, rows)
        else:
            print(f"{name}: not all was measured; the table stays", file=sys.stderr)
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
