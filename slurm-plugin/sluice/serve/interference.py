"""Interference on the pages: the matrix of patterns, the costliest pairs, and a pair by itself.

The costliest pairs take a minute to compute from the newest 50,000 logs: a process of their own
does it, and the page says when.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.interference.calibrate.analysis import Cell as MeasuredCell
from sluice.interference.calibrate.analysis import losses as measured_losses
from sluice.interference.cost import default_model
from sluice.interference.observations import alone_rates, site_coruns
from sluice.interference.programs import READ, WRITES, Program, size_text
from sluice.serve.drawings import HeatCell, heat_map
from sluice.serve.known_programs import (
    COLUMNS,
    entry,
    facts_of,
    name_of,
    number_of,
    profile_of,
    row_of,
    subject_of,
)
from sluice.serve.tables import (
    AMOUNT,
    SHARE,
    Cell,
    Column,
    Page,
    Table,
    number,
    words,
)
from sluice.slurm.views.formatting import count_text, share_text, time_text
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.history_db.store import Store
    from sluice.interference.site_model import SiteModel
    from sluice.serve.site import Reader, Site

Facts = dict[str, Any]

CHUNKS = (1 << 16, 1 << 20, 1 << 24)
"""Of the matrix."""
ABOUT_MATRIX = (
    "The share of its rate that the program of a row loses while that of a column has I/O all the "
    "time, {} processes each: owc creates files, ws rewrites, aw appends. By {}."
)
NO_BUNDLE = "No bundle is published: `sluice model publish` makes one."


class Entry(NamedTuple):
    """A pair of patterns: what the first loses alongside the second, as a share of its rate."""

    program: str
    alongside: str
    loss: float
    """By the model,"""
    low: float
    high: float
    """and between what it lies nine times in ten."""
    measured: float | None
    """The median of what was measured here; None: nothing was."""
    times: int
    """Of measurements."""

    def cell(self, source: str) -> HeatCell:
        """Return what is drawn: what was measured, else what the model says."""
        shown = self.loss if self.measured is None else self.measured
        seen = f"measured here {count_text(self.times, 'time')}; " if self.times else ""
        title = (
            f"{self.program} alongside {self.alongside} loses {share_text(shown)}: {seen}{source} "
            f"{share_text(self.loss)}, nine in ten from {share_text(self.low)} to "
            f"{share_text(self.high)}"
        )
        return HeatCell(shown, title, is_measured=self.measured is not None)


def matrix(site: Site, store: Store) -> tuple[Facts, Table]:
    """Return the losses of pairs of patterns: by the published bundle's model, and measured."""
    programs = [Program(pattern, chunk) for pattern in (*WRITES, READ) for chunk in CHUNKS]
    titles = [f"{one.pattern} {size_text(one.chunk_bytes)}" for one in programs]
    if site.bundle is None:
        facts: Facts = {"programs": titles, "loss": [], "interference_model": None}
        return facts, _matrix_table(titles, [], NO_BUNDLE, "")
    model = default_model(store, site.config)
    found = site.latest.of(
        Path(site.config.bundle), "matrix", lambda: _entries(model.site, store, programs, titles)
    )
    facts = {
        "programs": titles,
        "loss": [[one.loss for one in row] for row in found],
        "intervals": [[(one.low, one.high) for one in row] for row in found],
        "measured": [[one.measured for one in row] for row in found],
        "interference_model": model.as_json(),
    }
    note = ABOUT_MATRIX.format(programs[0].processes, model)
    source = "fitted here" if model.basis and model.basis.count else "published"
    return facts, _matrix_table(titles, found, note, source)


def _entries(
    model: SiteModel, store: Store, programs: Sequence[Program], titles: Sequence[str]
) -> list[list[Entry]]:
    coruns = site_coruns(store)
    rates, seen = alone_rates(coruns), measured_losses(coruns)
    profiles = [one.profile(rates.get(one)) for one in programs]

    def entry_of(i: int, j: int) -> Entry:
        least, most = model.profile_interval(profiles[i], [profiles[j]])
        found = seen.get(MeasuredCell(programs[i], (programs[j],)))
        return Entry(
            titles[i],
            titles[j],
            1 - model.profile_share(profiles[i], [profiles[j]]),
            1 - most,
            1 - least,
            found.loss if found else None,
            found.count if found else 0,
        )

    places = range(len(programs))
    return [[entry_of(i, j) for j in places] for i in places]


COLUMNS_OF_MATRIX = (
    Column("loses", "Loses", of="program"),
    Column("alongside", "Alongside"),
    Column("loss", "Share, by the model", lambda loss: number(loss, share_text, tone=_heat(loss))),
    Column("low", "nine in ten from", SHARE),
    Column("high", "to", SHARE),
    Column("measured", "Measured here", SHARE),
    Column("times", "times", number, lambda row: row["times"] or None),
)


def _matrix_table(
    titles: Sequence[str], found: Sequence[Sequence[Entry]], note: str, source: str
) -> Table:
    """Make the table and its drawing; source: of the model's figures."""
    drawing = None
    if found:
        cells = [[one.cell(source) for one in row] for row in found]
        worst = max((one for row in cells for one in row), key=lambda cell: cell.share)
        alt = f"A heat map of {len(titles)} by {len(titles)} patterns. Most: {worst.title}."
        drawing = heat_map(alt, "loses this share of its rate alongside", titles, cells, source)
    return Table.of(
        "matrix",
        "Interference of patterns",
        COLUMNS_OF_MATRIX,
        [one._asdict() for row in found for one in row],
        is_headed=True,
        note=note,
        drawing=drawing,
    )


def _heat(loss: float) -> str:
    return f"heat{max(0, min(9, int(10 * loss)))}"


def pairs(site: Site, store: Store, reader: Reader) -> tuple[Facts | None, Table]:
    """Return the costliest pairs as computed last, with the names that the viewer may see."""
    found = site.rankings
    if found is None:
        return None, _pair_table([], COMPUTING)
    rows = []
    for row in found["pairs"]:
        sides = [reader.viewer.sees(row[f"{side}_uid"]) for side in SIDES]
        programs = {
            f"{side}_program": number_of(site, store, row[f"{side}_uid"], row[side])
            for side in SIDES
        }
        if any(sides):
            rows.append(
                row
                | programs
                | {
                    name: None
                    for side, seen in zip(SIDES, sides, strict=True)
                    if not seen
                    for name in (side, f"{side}_uid", f"{side}_user", f"{side}_program")
                }
            )
    failed = reader.told(found["failed"])
    note = (
        f"They could not be computed: {failed}"
        if failed
        else f"Computed {time_text(found['computed'])}, from the newest 50,000 logs."
    )
    facts = {"computed": found["computed"], "failed": failed, "rows": rows}
    return facts, _pair_table(rows, note)


COMPUTING = "Computing from the newest 50,000 logs; come back in a minute."


SIDES = ("victim", "aggressor")


PAIRS = (
    Column("victim_user", "User", of=lambda row: _user(row, "victim")),
    Column("victim", "Application", of=lambda row: row["victim"] or ANOTHER),
    Column("aggressor_user", "Alongside user", of=lambda row: _user(row, "aggressor")),
    Column("aggressor", "Application", of=lambda row: row["aggressor"] or ANOTHER),
    Column("lost", "Lost node-hours", AMOUNT),
    Column("look", "Look at", of=lambda r: pair_cell(r["victim_program"], r["aggressor_program"])),
)
ANOTHER = "another user's"


def _pair_table(rows: Sequence[Facts], note: str) -> Table:
    return Table.of("pairs", "Pairs that cost most", PAIRS, rows, empty="None known.", note=note)


def pair_cell(one: int | None, other: int | None) -> Cell:
    """Return a link to the page of a pair, where the bundle knows both."""
    known = one is not None and other is not None
    return words("the two", href=f"/programs/{one}/{other}") if known else words(None)


ABOUT_PAIR = (
    "What each of the two loses of its rate while the other writes, on the same targets. By {}."
)
SIDE_COLUMNS = (
    *COLUMNS,
    Column("loses", "Loses to the other", lambda loss: number(loss, share_text, tone=_heat(loss))),
)


def pair_page(site: Site, store: Store, reader: Reader, one: int, other: int) -> Page:
    """Show two programs and what they do to each other; raises UnknownJobError."""
    sides = [entry(site, store, reader, number_) for number_ in (one, other)]
    profiles = [profile_of(site, side) for side in sides]
    model = default_model(store, site.config)
    losses = [
        1 - model.site.profile_share(own, [others])
        for own, others in (profiles, reversed(profiles))
    ]
    return Page(
        name="programs",
        title=" and ".join(name_of(side) for side in sides),
        facts={
            "programs": [
                facts_of(side) | {"loses": loss} for side, loss in zip(sides, losses, strict=True)
            ],
            "interference_model": model.as_json(),
        },
        sentences=[ABOUT_PAIR.format(model)],
        subject=subject_of(store, site.now, *sides) if reader.is_operator else None,
        tables=[
            Table.of(
                "programs",
                "The two programs",
                SIDE_COLUMNS,
                [
                    row_of(side, site) | {"loses": loss}
                    for side, loss in zip(sides, losses, strict=True)
                ],
                is_headed=True,
            )
        ],
    )


def _user(row: Facts, side: str) -> str:
    uid = row[f"{side}_uid"]
    return row[f"{side}_user"] or (ANOTHER if uid is None else user_text(uid))
