"""Doubts: what may be wrong, the costliest first, with links to the pages that rule on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from sluice.serve.interference import pair_cell
from sluice.serve.known_programs import number_of
from sluice.serve.tables import AMOUNT, Cell, Column, Subject, Table, words
from sluice.slurm.views.formatting import (
    amount_text,
    count_text,
    duration_text,
    share_text,
    time_text,
)
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from sluice.history_db.store import Store
    from sluice.serve.site import Reader, Site

Facts = dict[str, Any]

KINDS = {
    "wrong": "predictions went wrong",
    "changed": "behaves otherwise",
    "delay": "long delay",
    "unmeasured": "pair never measured",
}


def table(site: Site, store: Store, reader: Reader) -> tuple[Facts, Table]:
    """Return what is in doubt, as far as it is about jobs that the viewer sees."""
    found = site.rankings
    rows = [row for row in (found or {"doubts": []})["doubts"] if _is_visible(row, reader)]
    rows.sort(key=lambda row: -row["node_hours"])
    facts = {
        "computed": found["computed"] if found else None,
        "failed": reader.told(found["failed"]) if found else "",
        "rows": [row | {"user": _user(row)} for row in rows],
    }
    return facts, Table.of(
        "doubts",
        "In doubt, the costliest first",
        (*COLUMNS, RULING) if reader.is_operator else COLUMNS,
        [row | {"programs": _programs(row, site, store)} for row in rows],
        empty="Nothing known.",
        note=_note(found, reader),
    )


def _is_visible(row: Facts, reader: Reader) -> bool:
    sides = [row, *([row["alongside"]] if "alongside" in row else [])]
    return all(reader.viewer.sees(side["uid"]) for side in sides)


def _note(found: Facts | None, reader: Reader) -> str:
    if found is None:
        return "Computing; come back in a minute."
    if found["failed"]:
        return f"Nothing could be computed: {reader.told(found['failed'])}"
    return (
        f"Of the week before {time_text(found['computed'])}. Node-hours are what a program costs "
        "and loses, what a delay takes, and what a pair loses by the model. Operators can set a "
        "rule here or on the job's page."
    )


def _user(row: Facts) -> str | None:
    return None if row["uid"] is None else user_text(row["uid"])


def _programs(row: Facts, site: Site, store: Store) -> list[int | None]:
    """Return the numbers of the programs in doubt, as far as the bundle knows them."""
    sides = [row, row["alongside"]] if "alongside" in row else [row]
    return [
        number_of(site, store, one["uid"], one["program"]) if one["program"] else None
        for one in sides
    ]


def _subject(row: Facts) -> Subject | None:
    """Return what buttons of the row rule on; None: no jobs are known."""
    sides = [row, row["alongside"]] if "alongside" in row else [row]
    fields: Facts
    if all(one["job_id"] for one in sides):
        fields = dict(zip(("job", "with"), (one["job_id"] for one in sides), strict=False))
    elif all(row["programs"]):
        fields = dict(zip(("program", "with_program"), row["programs"], strict=False))
    else:
        return None
    names = (one["program"] for one in sides)
    return Subject(" and ".join(names), {name: str(value) for name, value in fields.items()})


def _what(row: Facts) -> str:
    if row["kind"] == "wrong":
        return f"{share_text(row['came_true'])} of {row['checked']} predictions came true"
    if row["kind"] == "changed":
        runs = count_text(row["runs"], "run")
        began = time_text(row["since"])[:16]
        return f"{row['after']} in the last {runs}, since {began}; before: {row['before']}"
    if row["kind"] == "delay":
        return (
            f"{duration_text(row['wait'])}, to save {amount_text(row['saved_node_hours'])} "
            "node-hours"
        )
    other = row["alongside"]
    job = f", as job {other['job_id']}" if other["job_id"] else ""
    return f"alongside {other['program']} of {user_text(other['uid'])}{job}"


def _look(row: Facts) -> Cell:
    """Return a link to the page with the form, of a pair or a job, or to the list of the jobs."""
    if "alongside" in row and all(row["programs"]):
        return pair_cell(*row["programs"])
    if row["job_id"]:
        return words(f"job {row['job_id']}", href=f"/jobs/{row['job_id']}")
    names = {"user": _user(row), "find": row["program"]}
    query = urlencode({"since": "7 d"} | {key: text for key, text in names.items() if text})
    return words("jobs", href=f"/jobs?{query}")


COLUMNS = (
    Column("kind", "Doubt", of=lambda row: KINDS[row["kind"]]),
    Column("user", "User", of=_user),
    Column("program", "Program"),
    Column("what", "What", of=_what),
    Column("node_hours", "Node-hours", AMOUNT),
    Column("look", "Look at", of=_look),
)
RULING = Column("ruling", "Rule", of=lambda row: Cell("", subject=_subject(row)))
