"""Interference on the pages: the matrix of patterns, the costliest pairs, and a pair by itself.

The costliest pairs take a minute to compute from the newest 50,000 logs: a process of their own
does it, and the page says when.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.interference.cost import default_model
from sluice.interference.observations import alone_rates, site_coruns
from sluice.interference.programs import READ, WRITES, Program, size_text
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
    Cell,
    Column,
    Head,
    Page,
    Table,
    number,
    words,
)
from sluice.slurm.views.formatting import share_text, time_text
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.history_db.store import Store
    from sluice.serve.site import Reader, Site

Facts = dict[str, Any]

CHUNKS = (1 << 16, 1 << 20, 1 << 24)
"""Of the matrix."""
ABOUT_MATRIX = (
    "The share of its rate that the program of a row loses while that of a column has I/O all the "
    "time, {} processes each. By {}."
)
NO_BUNDLE = "No bundle is published: `sluice model publish` makes one."


def matrix(site: Site, store: Store) -> tuple[Facts, Table]:
    """Return the losses of pairs of patterns, by the model of the published bundle."""
    programs = [Program(pattern, chunk) for pattern in (*WRITES, READ) for chunk in CHUNKS]
    titles = [f"{one.pattern} {size_text(one.chunk_bytes)}" for one in programs]
    if site.bundle is None:
        facts: Facts = {"programs": titles, "loss": [], "interference_model": None}
        return facts, _matrix_table(titles, [], NO_BUNDLE)
    model = default_model(store, site.config)
    losses = site.latest.of(
        Path(site.config.bundle),
        "matrix",
        lambda: model.site.losses(programs, alone_rates(site_coruns(store))),
    )
    facts = {"programs": titles, "loss": losses, "interference_model": model.as_json()}
    return facts, _matrix_table(titles, losses, ABOUT_MATRIX.format(programs[0].processes, model))


def _matrix_table(titles: Sequence[str], losses: Sequence[Sequence[float]], note: str) -> Table:
    return Table(
        "matrix",
        "Interference of patterns",
        (
            Head("loses", "Loses"),
            *(Head(title.replace(" ", "_"), title, is_number=True) for title in titles),
        ),
        [
            [words(title), *(number(loss, share_text, tone=_heat(loss)) for loss in row)]
            for title, row in zip(titles, losses, strict=False)
        ],
        is_headed=True,
        note=note,
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
        subject=subject_of(store, *sides),
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
