"""All pages by name, and what their forms change: asked by the front, answered from the history.

An answer is plain members, so that it can come from another process (`backend.py`).
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.history_db.errors import HistoryError, NoSuchValueError
from sluice.policies.core import CoreError
from sluice.policies.review import ReviewError
from sluice.serve import interference, jobs, model, now, programs, reviews
from sluice.serve.site import HiddenError
from sluice.serve.tables import whole_number
from sluice.slurm.records import QueryError, SlurmError, UnknownJobError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sluice.history_db.store import Store
    from sluice.serve.site import Reader, Site
    from sluice.serve.tables import Page
    from sluice.serve.wire import Asked

Facts = dict[str, Any]


class Visit(NamedTuple):
    """A request with all that answers it."""

    site: Site
    store: Store
    reader: Reader
    words: Mapping[str, str]
    query: Mapping[str, str]

    def number(self, name: str) -> int:
        """Return a number of the path; raises UnknownJobError: nothing has another name."""
        number = whole_number(self.words.get(name, ""))
        if number is None:
            raise UnknownJobError("There is no such page.")
        return number


PAGES: Mapping[str, Callable[[Visit], Page]] = {
    "now": lambda v: now.page(v.site, v.store, v.reader),
    "jobs": lambda v: jobs.page(v.site, v.store, v.reader, v.query),
    "job": lambda v: jobs.job_page(v.store, v.reader, v.words["job"], v.site.now),
    "programs": lambda v: programs.page(v.site, v.store, v.reader, v.query),
    "program": lambda v: programs.program_page(v.site, v.store, v.reader, v.number("number")),
    "pair": lambda v: interference.pair_page(
        v.site, v.store, v.reader, v.number("one"), v.number("other")
    ),
    "reviews": lambda v: reviews.page(v.site, v.store, v.reader, v.query),
    "model": lambda v: model.page(v.site, v.store, v.reader),
    "card": lambda v: model.card(v.store, v.reader, v.number("wanted")),
    "difference": lambda v: model.difference_page(v.site, v.store, v.reader, v.number("wanted")),
    "report": lambda v: model.report_page(v.store, v.reader, v.number("number")),
}
CHANGES: Mapping[str, Callable[[Site, Reader, Mapping[str, str], Mapping[str, str]], None]] = {
    "rule": lambda site, reader, _words, form: reviews.rule(site, reader, form),
    "publish": lambda site, reader, words, form: model.publish(
        site, reader, whole_number(words.get("wanted", "")) or 0, form.get("reason", "")
    ),
}


def answer(site: Site, asked: Asked) -> Facts:
    """Return `facts`, `page`, or `csv` and `table`; nothing for a change; `error` and `status`."""
    try:
        return _answered(site, asked)
    except ERRORS as error:
        return {"error": str(error), "status": _status_of(error)}
    except Exception:  # noqa: BLE001 - a fault of ours costs this answer only
        traceback.print_exc()
        return {"error": "", "status": 500}


def _answered(site: Site, asked: Asked) -> Facts:
    if asked.page not in PAGES.keys() | CHANGES.keys():
        raise UnknownJobError("There is no such page.")
    reader = site.reader(asked.user, is_operator=asked.is_operator)
    if asked.page in CHANGES:
        reader.check_operator()
        CHANGES[asked.page](site, reader, asked.words, asked.query)
        return {}
    with site.store() as store:
        page = PAGES[asked.page](Visit(site, store, reader, asked.words, asked.query))
    if asked.form == "json":
        return {"facts": page.facts}
    arranged = page.arranged(asked.query)
    if asked.form == "html":
        return {"page": arranged.cut(asked.query).as_json()}
    wanted = asked.query.get("table", arranged.tables[0].name if arranged.tables else "")
    for table in arranged.tables:
        if table.name == wanted:
            return {"csv": table.csv(), "table": table.name}
    raise UnknownJobError(f"This page has no table {wanted}.")


KINDS = (
    ((UnknownJobError, NoSuchValueError), 404),
    ((HiddenError,), 403),
    ((QueryError, ReviewError), 400),
    ((HistoryError, SlurmError, CoreError, OSError), 503),
)
ERRORS = tuple(kind for kinds, _ in KINDS for kind in kinds)


def _status_of(error: Exception) -> int:
    return next(status for kinds, status in KINDS if isinstance(error, kinds))
