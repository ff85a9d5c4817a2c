"""Levers of others next to Sluice's, and what each piece of knowledge is worth: `make levers`.

    python tests/bench/levers.py [DRAWS]

Every lever replays the same draws of three traces. Writes the tables of docs/evidence/levers.md and
levers.png, where lost slot-hours stand against the mean and the p99 of the wait.
"""

import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "replay"))

from ablations import EVERY
from gains import CHEAP, TRACES
from published_levers import FORGETFUL, FTIO, LEVERS, sharing

from sluice.cli.plots import COLOURS, picture
from sluice.sim.policies.policies import Policy, with_options
from sluice.sim.replay.compare import compare, interval

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "levers.md"
PICTURE = PAGE.with_suffix(".png")
DRAWS = 5
PLAIN = "none"
PATIENT = with_options(EVERY["sluice-auto"].plan, max_delay=86400.0, wait_price=0.01)
COMPARED = {
    "turns": "Sluice's turns",
    "sluice-turns": "Sluice as deployed with turns",
    "sluice-cheap-waits": "Sluice's delays, cheap waits",
    "server-fair": "fair servers",
    "set-10": "IO-Sets, Set-10",
    "set-10-filled": "the same, free storage goes to the next of a set",
    "gift": "GIFT",
    "adap-tbf": "AdapTBF",
    "planned-bandwidth": "start by predicted bandwidth (CATIOS)",
    "adaptive-target": "start by the mean load (Goponenko et al.)",
    "two-groups": "two I/O-heavy jobs at a time",
    "license-cap": "start by the bandwidth of nodes",
}
"""Policy -> how the page calls it."""
KNOWN = {
    "turns-nothing-known": "turns: nothing; short bursts first",
    "turns-ftio": "turns: the period of the run, by FTIO",
    "turns-last-burst": "turns: the job's last burst",
    "turns-no-classifier": "turns: and the volume of earlier runs",
    "turns": "turns: and the classifier's pattern (as deployed)",
    "sluice-no-classifier": "delays: the volume of earlier runs",
    "sluice-chunk-only": "delays: and the size of writes",
    "sluice-published": "delays: and the pattern, by the published law",
    "sluice-no-periods": "delays: and the law fitted at the site, no periods",
    "sluice-auto": "delays: and periods (as deployed)",
    "sluice-oracle": "delays: everything",
}
"""Delays are asked with cheap waits: at the default price hardly a job is delayed."""
ALL = {
    **LEVERS,
    **EVERY,
    "sluice-cheap-waits": Policy(PATIENT, delays=True),
    "turns-nothing-known": Policy(sharing(FORGETFUL, first_burst=0.0)),
    "turns-ftio": Policy(sharing(FTIO, first_burst=0.0)),
    "turns-last-burst": Policy(with_options(EVERY["turns"].plan, first_burst=0.0)),
}


def replayed(trace, policies, draws, options):
    experiment = replace(TRACES[trace], options=tuple((k, str(v)) for k, v in options.items()))
    return compare(
        experiment.draw, policies, repeats=draws - 1, workers=os.cpu_count() or 1, known=ALL
    )


def ratios(comparison, policy, figure):
    """Over the same of plain Slurm, in percent, a number a draw."""
    pairs = zip(comparison.figures[policy], comparison.figures[PLAIN], strict=True)
    return [100 * (one[figure] / plain[figure] - 1) for one, plain in pairs]


def span(values):
    ends = interval(values)
    if ends is None:
        return f"{values[0]:+.0f} %"
    return f"{median(values):+.0f} % ({ends.low:+.0f} to {ends.high:+.0f})"


def recovered(comparison, policy):
    shares = [100 * (one["share_of_bound"] or 0.0) for one in comparison.figures[policy]]
    return span(shares)


def paint(axes, found):
    figures = ("wait_mean_s", "wait_p99_s")
    for column, (trace, comparison) in enumerate(found.items()):
        for row, figure in enumerate(figures):
            one = axes[row][column]
            for number, policy in enumerate(COMPARED):
                waits = ratios(comparison, policy, figure)
                lost = ratios(comparison, policy, "lost_slot_hours")
                x, y = median(waits), median(lost)
                ends = [interval(waits), interval(lost)]
                errors = [
                    [[max(0.0, at - e.low)], [max(0.0, e.high - at)]] if e else None
                    for at, e in zip((x, y), ends, strict=True)
                ]
                one.errorbar(
                    x, y, xerr=errors[0], yerr=errors[1], fmt="none", linewidth=0.6,
                    color=COLOURS[number % len(COLOURS)],
                )  # fmt: skip
                one.text(x, y, str(number + 1), ha="center", va="center", fontsize="small")
            one.axhline(0, linewidth=0.4, color="black")
            one.set(xscale="symlog", yscale="symlog")
            one.set(xlabel=f"{'mean' if row == 0 else 'p99'} wait, % over plain Slurm")
            if row == 0:
                one.set(title=trace)
            if column == 0:
                one.set(ylabel="lost slot-hours, % over plain Slurm")


def draw_picture(found):
    PICTURE.write_bytes(picture(paint, found, size=(13.0, 8.0), rows=2, columns=len(found)))


def rows_of_levers(found):
    for number, (policy, name) in enumerate(COMPARED.items(), 1):
        cells = [
            span(ratios(comparison, policy, figure))
            for comparison in found.values()
            for figure in ("lost_slot_hours", "wait_mean_s", "wait_p99_s")
        ]
        yield f"| {number} | {name} | {' | '.join(cells)} |"


def rows_of_knowledge(found):
    for policy, name in KNOWN.items():
        yield f"| {name} | {' | '.join(recovered(one, policy) for one in found.values())} |"


def fill(name, rows):
    """Write rows into the table of the page that begins with a comment of this name."""
    head = rf"(<!-- {name}: `make levers` -->\n\|.*\n\|[-|]+\n)"
    text = "".join(row + "\n" for row in rows)
    page, count = re.subn(rf"{head}(\|.*\n)*", lambda m: m[1] + text, PAGE.read_text())
    if count != 1:
        raise SystemExit(f"{PAGE}: no table after <!-- {name}: `make levers` -->")
    PAGE.write_text(page)


def main():
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS
    day = {"max_delay": "86400"}
    found = {trace: replayed(trace, tuple(COMPARED), draws, day) for trace in TRACES}
    fill("levers", rows_of_levers(found))
    draw_picture(found)
    fill(
        "knowledge", rows_of_knowledge({t: replayed(t, tuple(KNOWN), draws, CHEAP) for t in TRACES})
    )


if __name__ == "__main__":
    main()
