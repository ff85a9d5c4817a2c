"""The pages of reports: what `sluice report` said last, as the history keeps it.

To make a report takes minutes, so that no page does.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from sluice.serve.access import HiddenError
from sluice.serve.tables import Cell, Column, Page, Table, moment
from sluice.slurm.formatting import time_text
from sluice.slurm.job_explanation import Heading, Rows
from sluice.slurm.records import UnknownJobError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.history_db.records import StoredReport
    from sluice.history_db.store import Store
    from sluice.serve.access import Who
    from sluice.slurm.job_explanation import Part

ABOUT = (
    "What `sluice report` said last. To make one takes minutes, so it is made by that command, "
    "once a week for instance, and not here."
)


def _made(made_at: int, report: int) -> Cell:
    return Cell(time_text(made_at)[:16], made_at, f"/reports/{report}")


COLUMNS = (
    Column("made", "Made", moment, lambda row: _made(row["made_at"], row["report"])),
    Column("since", "Of jobs from", moment),
    Column("verdict", "Verdict"),
)


def page(store: Store, who: Who) -> Page:
    """List reports, the latest first; raises HiddenError for who may not see all jobs."""
    _check(who)
    titles = [{"report": number} | asdict(one) for number, one in store.report_titles().items()]
    return Page(
        name="reports",
        title="Reports",
        facts={"reports": titles},
        sentences=[ABOUT],
        tables=[
            Table.of(
                "reports",
                "Reports, the latest first",
                COLUMNS,
                titles,
                empty="No report yet: `sluice report` makes one.",
                is_headed=True,
            )
        ],
    )


def _check(who: Who) -> None:
    if not who.viewer.sees_all:
        raise HiddenError(
            "reports are made of all users' jobs, which PrivateData hides from you; `sluice "
            "report` makes one of your own"
        )


def one_page(store: Store, who: Who, number: int) -> Page:
    """Show one report as it was told; raises HiddenError, UnknownJobError."""
    _check(who)
    found = store.report(number)
    if found is None:
        raise UnknownJobError(f"no report {number} is kept")
    return Page(
        name="reports",
        title=f"Report of {time_text(found.made_at)[:16]}",
        facts=found.facts,
        story=list(_told(found)),
    )


def _told(report: StoredReport) -> Iterator[Part]:
    for section in report.sections:
        yield Heading(section["heading"])
        yield from section["sentences"]
        for table in section["tables"]:
            yield f"{table['caption']}:"
            yield Rows(table["titles"], table["rows"])
