"""`make reproduce`: published figures next to those of the discrete-event storage model.

reproduce.py [FIGURE]...: a name such as Y7a; Y7 stands for all parts of it, Y for a whole paper;
without a name all are asked. Each is `explained` (no number was fitted to it), `fitted`, with how
many numbers were, or `not reproduced`; docs/evidence/storage-models.md states what each is.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from papers.figure import EXPLAINED, FITTED, NOT_REPRODUCED, Verdict
from papers.figures import ask_all, find
from papers.platforms import PLATFORMS

from sluice.sim.storage.discrete_event import STORAGE_FIELDS


def show_platforms() -> None:
    """Print every number of each platform, its unit, its source and the figure it is fitted to."""
    units = {field.name: field.unit for field in STORAGE_FIELDS}
    for platform in PLATFORMS.values():
        print(f"{platform.name}: {platform.title}")
        for p in platform.parameters:
            fitted = f", fitted to {p.fitted}" if p.fitted else ""
            print(f"  {p.name:20} {p.value:>12g} {units[p.name]:10} {p.source}{fitted}")


def show(verdict: Verdict) -> None:
    """Print a figure, its rows and why it is as it is."""
    figure = verdict.figure
    print(f"\n{figure.name}  {figure.title}: {verdict.words}\n  {figure.why}")
    for row in verdict.rows:
        differs = "" if row.agrees else "  differs"
        print(f"  {row.what:66} {row.published:>16} {row.model:8.2f}{differs}")


def main(names: list[str]) -> None:
    """Ask all figures of these names."""
    show_platforms()
    statuses = []
    for verdict in ask_all(find(names), threads=len(os.sched_getaffinity(0))):
        show(verdict)
        statuses.append(verdict.status)
    kinds = (EXPLAINED, FITTED, NOT_REPRODUCED)
    print("\n" + ", ".join(f"{statuses.count(kind)} {kind}" for kind in kinds))


if __name__ == "__main__":
    main(sys.argv[1:])
