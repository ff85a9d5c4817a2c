"""The page of doubts: what is worth a look, the costliest first, with links to where one rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from sluice.serve.predictions import number_of, pair_cell
from sluice.serve.tables import AMOUNT, Cell, Column, Page, Subject, Table, words
from sluice.slurm.budgets import near
from sluice.slurm.formatting import amount_text, count_text, duration_text, share_text, time_text
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from sluice.history_db.store import Store
    from sluice.serve.access import Who
    from sluice.serve.site import Site

Facts = dict[str, Any]

ABOUT = (
    "What may be worth a look, the costliest first. The page of a job says why; operators rule on "
    "jobs like it there, with a comment and until a day, or here."
)
KINDS = {
    "wrong": "predictions went wrong",
    "changed": "behaves otherwise",
    "delay": "long delay",
    "unmeasured": "pair never measured",
    "budget": "near a budget",
}


def page(site: Site, store: Store, who: Who) -> Page:
    """List what is in doubt, as far as it is about jobs that the viewer sees."""
    found = site.rankings
    rows = [row for row in (found or {"doubts": []})["doubts"] if _is_visible(row, who)]
    rows += [row for row in _budgets(site, store) if _is_visible(row, who)]
    rows.sort(key=lambda row: -row["node_hours"])
    return Page(
        name="doubts",
        title="Doubts",
        facts={
            "computed": found["computed"] if found else None,
            "failed": who.told(found["failed"]) if found else "",
            "doubts": [row | {"user": _user(row)} for row in rows],
        },
        sentences=[ABOUT],
        tables=[
            Table.of(
                "doubts",
                "In doubt, the costliest first",
                (*COLUMNS, RULING) if who.is_operator else COLUMNS,
                [row | {"programs": _programs(row, site, store)} for row in rows],
                empty="Nothing that is known.",
                note=_note(found, who),
            )
        ],
    )


def _budgets(site: Site, store: Store) -> list[Facts]:
    """Return who is near a budget; how many nodes waited is not known, so one."""
    return [
        {
            "kind": "budget",
            "uid": one["who"] if one["kind"] == "user" else None,
            "account": one["who"] if one["kind"] == "account" else None,
            "program": None,
            "job_id": None,
            "node_hours": one["seconds"] / 3600,
            "waited": one["seconds"],
            "budget": one["budget"],
        }
        for one in near(store, site.config, site.cluster, site.now)
    ]


def _is_visible(row: Facts, who: Who) -> bool:
    sides = [row, *([row["alongside"]] if "alongside" in row else [])]
    return all(who.viewer.sees(side["uid"]) for side in sides)


def _note(found: Facts | None, who: Who) -> str:
    if found is None:
        return "All but budgets is being computed; come back in a minute."
    if found["failed"]:
        return f"Nothing but budgets could be computed: {who.told(found['failed'])}"
    return (
        f"Of the week before {time_text(found['computed'])}, budgets of the last 24 hours. "
        "Node-hours are what a program costs and loses, what a delay takes, what a pair loses by "
        "the model, and what a budget's jobs waited on a node each."
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
    """Return what buttons of the row rule on; None: nobody can say which jobs."""
    sides = [row, row["alongside"]] if "alongside" in row else [row]
    fields: Facts
    if row["kind"] == "budget":
        key = "account" if row["account"] else "user"
        fields = {key: row["account"] or row["uid"]}
    elif all(one["job_id"] for one in sides):
        fields = dict(zip(("job", "with"), (one["job_id"] for one in sides), strict=False))
    elif all(row["programs"]):
        fields = dict(zip(("program", "with_program"), row["programs"], strict=False))
    else:
        return None
    whose = (one["program"] or _user(one) or row["account"] for one in sides)
    return Subject(" and ".join(whose), {name: str(value) for name, value in fields.items()})


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
    if row["kind"] == "unmeasured":
        other = row["alongside"]
        job = f", as job {other['job_id']}" if other["job_id"] else ""
        return f"alongside {other['program']} of {user_text(other['uid'])}{job}"
    whose = f"account {row['account']}: " if row["account"] else ""
    return f"{whose}waited {duration_text(row['waited'])} of {duration_text(row['budget'])} a day"


def _look(row: Facts) -> Cell:
    """Return a link to the page with the form, of a pair or a job, or to the list of the jobs."""
    if "alongside" in row and all(row["programs"]):
        return pair_cell(*row["programs"])
    if row["job_id"]:
        return words(f"job {row['job_id']}", href=f"/decisions/{row['job_id']}")
    names = {"user": _user(row), "find": row["program"]}
    query = urlencode({"since": "7 d"} | {key: text for key, text in names.items() if text})
    return words("decisions", href=f"/decisions?{query}")


COLUMNS = (
    Column("kind", "Doubt", of=lambda row: KINDS[row["kind"]]),
    Column("user", "User", of=_user),
    Column("program", "Program"),
    Column("what", "What", of=_what),
    Column("node_hours", "Node-hours", AMOUNT),
    Column("look", "Look at", of=_look),
)
RULING = Column("ruling", "Rule", of=lambda row: Cell("", subject=_subject(row)))
