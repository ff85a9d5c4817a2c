"""The report of `sluice site replay` as one HTML page: answer, pictures, tables and its making."""

from __future__ import annotations

import shlex
import sys
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.cli.comparing import inputs
from sluice.cli.replay_words import (
    FAIRNESS_TITLES,
    fairness_rows,
    figure_rows,
    repair_texts,
    source_text,
    verdict,
)
from sluice.patterns.page import document, heading, image, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sluice.sim.replay.compare import Comparison
    from sluice.sim.replay.experiment import Experiment
    from sluice.sim.replay.plots import Picture

DOCS = (
    "Lost are slot-seconds: run time beyond that alone and unhindered on all lanes, times slots. "
    "Kept back is the time for which the policy itself let a job wait that would have fitted; "
    "untouched jobs were neither delayed nor put on lanes, and moved because others did. "
    "The storage that answers is the fast world, never the model that a policy decides by. "
    "docs/reference/replay.md and docs/reference/storage-models.md state all rules."
)


def page(experiment: Experiment, comparison: Comparison, covered: Sequence[str]) -> str:
    """Return the page, which opens with the coverage; the same question has the same bytes."""
    from sluice.sim.replay.plots import pictures

    name = Path(comparison.draw.replayable.trace.name).name
    title = f"Replay of {name}"
    timeline, *others = pictures(comparison)
    return document(
        title,
        [
            heading(title, 1),
            *map(paragraph, (*covered, *verdict(comparison), source_text(experiment, comparison))),
            heading("Policies"),
            table(("", *comparison.policies), figure_rows(comparison), "Totals by policy"),
            heading("Over time"),
            _figure(timeline),
            heading("Distributions and policies side by side"),
            *map(_figure, others),
            heading("Who gains, who pays"),
            *_fairness(comparison),
            heading("How this was made"),
            paragraph(DOCS),
            *_made(experiment, comparison),
        ],
    )


def _figure(one: Picture) -> str:
    kind = ' class="wide"' if one.is_wide else ""
    caption = f"<figcaption>{escape(one.title)}</figcaption>"
    return f"<figure{kind}>{image(one.alt, one.png)}{caption}</figure>"


def _fairness(comparison: Comparison) -> Iterator[str]:
    from sluice.sim.replay.compare import PLAIN
    from sluice.sim.replay.figures import GROUPS

    for policy in comparison.policies:
        if policy != PLAIN:
            tables = [
                table((what, *FAIRNESS_TITLES), rows, f"{policy}, by {what}")
                for what in GROUPS
                if (rows := fairness_rows(comparison, policy, what))
            ]
            yield f"<details open><summary>{escape(policy)}</summary>{''.join(tables)}</details>"


def _made(experiment: Experiment, comparison: Comparison) -> Iterator[str]:
    yield _code(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]))
    yield table(("fact", "value"), _facts(experiment, comparison), "Versions, inputs and settings")
    mended = repair_texts(comparison.draw.replayable)
    yield _list("In the trace was", mended) if mended else paragraph("Nothing was mended.")


def _facts(experiment: Experiment, comparison: Comparison) -> list[Sequence[str]]:
    from importlib.metadata import version

    from sluice.sim.engine import scheduler_defaults

    draw = comparison.draw
    lanes = ", ".join(f"{targets:g} on {servers:g}" for targets, servers in draw.storage.lanes)
    settings = {**scheduler_defaults(), **draw.site.settings}
    return [
        ("version", version("sluice")),
        *(
            (path, f"SHA-256 {digest or 'of a pipe'}")
            for path, digest in inputs(experiment).items()
        ),
        *((name, str(value)) for name, value in experiment.plain().items() if value),
        ("machine", f"{draw.site.machine.slots} {draw.replayable.trace.slot}s"),
        ("jobs", f"{len(draw.replayable.rows)} of {len(draw.replayable.trace)} in the trace"),
        ("storage: targets on servers, by lane", lanes),
        ("scheduler", ", ".join(f"{name}={value}" for name, value in settings.items())),
        ("options of policies", str(draw.options)),
    ]


def _code(text: str) -> str:
    return f"<pre><code>{escape(text)}</code></pre>"


def _list(title: str, items: Iterable[str]) -> str:
    return (
        f"<p>{escape(title)}</p><ul>"
        + "".join(f"<li>{escape(one)}</li>" for one in items)
        + "</ul>"
    )
