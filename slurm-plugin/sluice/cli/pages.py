"""Reports as HTML pages, each one file: what they say. `templates` says how they look."""

from __future__ import annotations

import json
import shlex
import sys
from base64 import b64encode
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.cli.replay_words import (
    FAIRNESS_TITLES,
    fairness_rows,
    figure_rows,
    inputs,
    repair_texts,
    source_text,
    verdict,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sluice.cli.plots import Picture
    from sluice.interference.calibrate.analysis import Report
    from sluice.interference.programs import Program
    from sluice.sim.replay.compare import Comparison
    from sluice.sim.replay.experiment import Experiment
    from sluice.sim.replay.levers import SiteStorage

TEMPLATES = Path(__file__).with_name("templates")


class Table(NamedTuple):
    """One whose first column names the rows."""

    caption: str
    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_text: bool = False
    """Whether cells are words, not numbers."""


class Section(NamedTuple):
    """A heading, sentences, and tables below them."""

    heading: str
    sentences: Sequence[str]
    tables: Sequence[Table] = ()


def _rendered(template: str, **facts: Any) -> bytes:
    """Fill a template; equal facts give equal bytes."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    jinja = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters["base64"] = lambda content: b64encode(content).decode()
    return jinja.get_template(template).render(facts).encode()


def _saved(folder: Path, pictures: Sequence[Picture], others: Mapping[str, bytes]) -> list[Path]:
    """Write files into a folder, made if missing; return them."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {**{f"{one.name}.png": one.png for one in pictures}, **others}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in files]


# Replays


def replay_page(
    experiment: Experiment,
    comparison: Comparison,
    covered: Sequence[str],
    storage: SiteStorage | None,
) -> bytes:
    """Return the page of a comparison of policies, which opens with the coverage."""
    from sluice.cli.plots import replay_pictures

    return _rendered(
        "replay.html",
        title=f"Replay of {Path(comparison.draw.replayable.trace.name).name}",
        sentences=(*covered, *verdict(comparison, storage), source_text(experiment, comparison)),
        totals=Table("Totals by policy", ("", *comparison.policies), figure_rows(comparison)),
        pictures=replay_pictures(comparison),
        fairness=list(_fairness(comparison)),
        command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        facts=Table(
            "Versions, inputs and settings",
            ("fact", "value"),
            _facts(experiment, comparison),
            is_text=True,
        ),
        repairs=repair_texts(comparison.draw.replayable),
    )


def _fairness(comparison: Comparison) -> Iterator[tuple[str, list[Table]]]:
    from sluice.sim.replay.compare import PLAIN
    from sluice.sim.replay.figures import GROUPS

    for policy in comparison.policies:
        if policy != PLAIN:
            rows = {what: fairness_rows(comparison, policy, what) for what in GROUPS}
            yield (
                policy,
                [
                    Table(f"{policy}, by {what}", (what, *FAIRNESS_TITLES), found)
                    for what, found in rows.items()
                    if found
                ],
            )


def _facts(experiment: Experiment, comparison: Comparison) -> list[Sequence[str]]:
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


# Reports of a month


def report_page(facts: dict[str, Any], sections: Sequence[Section]) -> bytes:
    """Return the page of a report, with a picture where there is something to show."""
    from sluice.cli.plots import report_pictures

    drawn = report_pictures(facts)
    return _rendered(
        "report.html",
        title="Sluice: what it did, or would have done",
        sections=sections,
        pictures={section.heading: drawn.get(section.heading, []) for section in sections},
    )


# Calibrations


def save_calibration(report: Report, folder: Path) -> list[Path]:
    """Write calibration.json, index.html and the pictures into a folder; return their paths."""
    from sluice.cli.plots import calibration_pictures
    from sluice.interference.calibrate.analysis import even_by_size, to_json

    pictures = calibration_pictures(report)
    page = _rendered(
        "calibration.html",
        title=f"Interference on {report.site}",
        sentences=list(_calibration_sentences(report)),
        break_even=even_by_size(report.even),
        pictures=pictures,
        tables=_calibration_tables(report),
    )
    content = json.dumps(to_json(report), indent=2).encode()
    return _saved(folder, pictures, {"calibration.json": content, "index.html": page})


def _calibration_sentences(report: Report) -> Iterator[str]:
    from sluice.interference.calibrate.analysis import (
        agreement_text,
        servers_remarks,
        stability_text,
    )

    if report.losses or not report.servers:
        yield f"{stability_text(report.stability).capitalize()}."
    if report.agreement:
        yield f"{agreement_text(report.agreement).capitalize()}."
    for remark in servers_remarks(report.servers):
        yield f"{remark[0].upper()}{remark[1:]}."


def _calibration_tables(report: Report) -> list[Table]:
    """Return all that the pictures show, and the rest."""
    from sluice.interference.calibrate.analysis import SERVERS, servers_rows

    losses = [
        (str(cell.victim), _together(cell.others), f"{100 * loss.loss:.0f} %", str(loss.count))
        for cell, loss in report.losses.items()
    ]
    speeds = [(s.target, str(s.program), f"{s.rate / 1e6:.1f} MB/s") for s in report.speeds]
    controls = [
        (str(c.victim), _together(c.others), f"{100 * c.loss:.0f} %") for c in report.controls
    ]
    return [
        Table("Losses", ("Program", "alongside", "loses", "measured"), losses),
        Table("Servers", SERVERS, servers_rows(report.servers), is_text=True),
        Table("Speeds", ("Target", "Program", "alone"), speeds),
        Table("Other targets", ("Program", "alongside, on another target", "loses"), controls),
    ]


def _together(programs: Sequence[Program]) -> str:
    return " + ".join(map(str, programs))
