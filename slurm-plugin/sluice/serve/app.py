"""Answers requests: who asks, which page, in which form, and the headers that go with it.

Nothing is loaded from elsewhere, no script or style stands in a page, everything that users wrote
is escaped, and what changes something is a POST with the word of a form of ours.
"""

from __future__ import annotations

import json
import secrets
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from flask import Flask, Response, abort, g, redirect, render_template, request, session, url_for
from jinja2 import StrictUndefined
from werkzeug.exceptions import BadRequest, HTTPException
from werkzeug.routing import IntegerConverter

from sluice.history_db.errors import HistoryError, NoSuchValueError
from sluice.policies.core import CoreError
from sluice.policies.review import ReviewError
from sluice.serve import attention, audit, decisions, models, now, predictions, reports, rulings
from sluice.serve.access import MOST_BYTES, AccessError, HiddenError
from sluice.serve.tables import WHOLE_NUMBER
from sluice.slurm.job_explanation import Heading, Rows
from sluice.slurm.records import QueryError, SlurmError, UnknownJobError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.history_db.store import Store
    from sluice.serve.access import Door, Who
    from sluice.serve.site import Site
    from sluice.serve.tables import Page

    Answer = Response | str | tuple[str, int]

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
SESSION = timedelta(hours=12)
READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
SESSIONS = frozenset({"log_in", "logout"})
OPEN = frozenset({"login", "log_in", "static"})
"""What is answered to anybody."""
NAVIGATION = (
    "now",
    "predictions",
    "interference",
    "decisions",
    "doubts",
    "reviews",
    "models",
    "reports",
    "audit",
)
FOR_OPERATORS = frozenset({"audit", "reports", "report", "difference"})
"""What nobody else may look at: as by the commands, which read the history."""


class WholeNumber(IntegerConverter):
    """What can be the number of something here: no page is at any other."""

    regex = WHOLE_NUMBER.pattern


def create_app(site: Site, door: Door, *, version: str, is_secure: bool) -> Flask:
    """Return the application; is_secure: browsers reach it by HTTPS alone."""
    app = Flask(__name__)
    app.url_map.converters["int"] = WholeNumber
    app.secret_key = secrets.token_bytes(32)
    app.config |= {
        "MAX_CONTENT_LENGTH": MOST_BYTES,
        "PERMANENT_SESSION_LIFETIME": SESSION,
        "SESSION_COOKIE_NAME": "sluice",
        "SESSION_COOKIE_HTTPONLY": True,
        "SESSION_COOKIE_SAMESITE": "Lax",
        "SESSION_COOKIE_SECURE": is_secure,
    }
    app.jinja_env.undefined = StrictUndefined
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.tests |= {
        "heading": lambda part: isinstance(part, Heading),
        "rows": lambda part: isinstance(part, Rows),
    }
    app.context_processor(lambda: _context(door))
    app.before_request(_refuse_zero_bytes)
    app.before_request(lambda: _admit(door))
    app.after_request(_harden)
    app.register_error_handler(Exception, _failed)
    _add_login(app, door)
    _add_pages(app, site, version)
    _add_changes(app, site)
    return app


# Who asks


def _context(door: Door) -> dict[str, Any]:
    who: Who | None = g.get("who")
    return {
        "who": who,
        "navigation": [name for name in NAVIGATION if _may_see(who, name)],
        "form_token": door.form_token(who.name if who else ""),
        "takes_tokens": door.takes_tokens,
        "has_session": "user" in session,
        "treatments": rulings.TREAT,
    }


def _admit(door: Door) -> Any:
    """Let somebody in, or send them to the login; refuse forms that are not ours."""
    g.who = _who(door)
    if request.method not in READING:
        _check_form(door)
    if g.who is not None and not _may_see(g.who, request.endpoint):
        abort(403, "This page is for operators: `sluice serve --operators` names them.")
    if g.who is not None or request.endpoint in OPEN:
        return None
    if door.takes_tokens and request.endpoint and _wanted_form() == "html":
        return redirect(url_for("login"))
    return abort(401, "Log in through the site's proxy, or with a token of your own.")


def _refuse_zero_bytes() -> None:
    """Refuse what no text of a system or of the history can contain."""
    given = [*request.args.items(multi=True), *request.form.items(multi=True)]
    if any("\0" in text for text in chain([request.path], *given)):
        abort(400, "No zero byte can be asked for.")


def _who(door: Door) -> Who | None:
    """Return who asks: by a token, by the proxy's word, or by the login before."""
    kind, _, text = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() == "bearer":
        token = door.token(text)
        return door.who(token.user) if token else None
    if door.user_header and (user := request.headers.get(door.user_header)):
        return door.who(user)
    user, digest = session.get("user", ""), session.get("token", "")
    return door.who(user) if user and door.is_valid(user, digest) else None


def _may_see(who: Who | None, name: str | None) -> bool:
    is_open = (name or "").removesuffix("_as") not in FOR_OPERATORS
    return is_open or (who is not None and who.is_operator)


def _check_form(door: Door) -> None:
    """Refuse what another site made a browser send."""
    user = g.who.name if g.who else ""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
        abort(403, "This form came from another site.")
    if not door.is_own_form(user, request.form.get("form_token", "")):
        abort(403, "This form is too old; go back, load the page again and repeat it.")


def _add_login(app: Flask, door: Door) -> None:
    @app.get("/login")
    def login() -> str:
        return render_template("login.html", title="Log in", failed=False)

    @app.post("/login")
    def log_in() -> Any:
        token = door.token(request.form.get("token", ""))
        if token is None or door.who(token.user) is None:
            return render_template("login.html", title="Log in", failed=True), 403
        session.clear()
        session.permanent = True
        session["user"], session["token"] = token.user, token.digest
        return redirect(url_for("now"))

    @app.post("/logout")
    def logout() -> Any:
        session.clear()
        return redirect(url_for("login" if door.takes_tokens else "now"))


# Pages


def _add_pages(app: Flask, site: Site, version: str) -> None:
    def add(name: str, rule: str, make: Callable[..., Page]) -> None:
        """Answer a page at its rule, and in other forms at RULE.json and RULE.csv."""

        def answer(form: str = "", **words: Any) -> Answer:
            with site.store() as store:
                page = make(store, **words)
            return _answer(page, form or _wanted_form(), version)

        app.add_url_rule(rule, name, answer)
        app.add_url_rule(f"{rule}.<any(json, csv):form>", f"{name}_as", answer)

    @app.get("/")
    def home() -> Any:
        return redirect(url_for("now"))

    @app.before_request
    def find_job() -> Any:
        """Go to the job that somebody typed into the form of decisions."""
        job = request.args.get("job", "").strip()
        if request.endpoint == "decisions" and job:
            return redirect(url_for("job", job=job))
        return None

    _add_lists(add, site)
    _add_details(add, site)


def _add_lists(add: Callable[[str, str, Callable[..., Page]], None], site: Site) -> None:
    def query() -> dict[str, str]:
        return request.args.to_dict()

    add("now", "/now", lambda store: now.page(site, store, g.who))
    add("predictions", "/predictions", lambda s: predictions.page(site, s, g.who, query()))
    add("interference", "/interference", lambda s: predictions.matrix_page(site, s, g.who))
    add("decisions", "/decisions", lambda s: decisions.page(site, s, g.who, query()))
    add("doubts", "/doubts", lambda store: attention.page(site, store, g.who))
    add("audit", "/audit", lambda store: audit.page(site, store, g.who, query()))
    add("reviews", "/reviews", lambda store: rulings.page(site, store, g.who))
    add("models", "/models", lambda store: models.page(store, g.who))
    add("reports", "/reports", lambda store: reports.page(store, g.who))


def _add_details(add: Callable[[str, str, Callable[..., Page]], None], site: Site) -> None:
    def of_program(store: Store, number: int) -> Page:
        return predictions.program_page(site, store, g.who, number)

    def of_pair(store: Store, one: int, other: int) -> Page:
        return predictions.pair_page(site, store, g.who, one, other)

    def difference(store: Store, wanted: int) -> Page:
        return models.difference_page(site, store, g.who, wanted)

    add("program", "/predictions/<int:number>", of_program)
    add("pair", "/interference/<int:one>/<int:other>", of_pair)
    add("job", "/decisions/<job>", lambda store, job: decisions.job_page(store, g.who, job))
    add("model", "/models/<int:wanted>", lambda s, wanted: models.card(s, g.who, wanted))
    add("difference", "/models/<int:wanted>/difference", difference)
    add("report", "/reports/<int:number>", lambda s, number: reports.one_page(s, g.who, number))


def _add_changes(app: Flask, site: Site) -> None:
    @app.before_request
    def check_role() -> None:
        """Let nobody but operators change anything; to log in and out is no change."""
        is_change = request.method not in READING and request.endpoint not in SESSIONS
        if is_change and not (g.who and g.who.is_operator):
            abort(403, "You may look, not rule: `sluice serve --operators` names who may.")

    @app.post("/reviews")
    def rule() -> Any:
        rulings.rule(site, g.who, request.form.to_dict())
        return redirect(url_for("reviews"), 303)

    @app.post("/models/<int:wanted>")
    def publish(wanted: int) -> Any:
        models.publish(site, g.who, wanted, request.form.get("reason", ""))
        return redirect(url_for("models"), 303)


def _wanted_form() -> str:
    form = (request.view_args or {}).get("form") or request.args.get("format", "html")
    return form if form in {"json", "csv"} else "html"


def _answer(page: Page, form: str, version: str) -> Answer:
    arranged = page.arranged(request.args)
    if form == "json":
        return _json({"version": version, **page.facts})
    if form == "csv":
        wanted = request.args.get("table", arranged.tables[0].name if arranged.tables else "")
        for table in arranged.tables:
            if table.name == wanted:
                named = {"Content-Disposition": f'attachment; filename="{table.name}.csv"'}
                return Response(table.csv(), mimetype="text/csv", headers=named)
        abort(404, f"This page has no table {wanted}.")
    return render_template(
        "page.html", title=page.title, page=arranged.cut(request.args), link=_link
    )


def _json(value: dict[str, Any], status: int = 200) -> Response:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return Response(f"{text}\n", status, mimetype="application/json")


def _link(form: str = "", **changes: str) -> str:
    """Return the address of this page with a changed query, or in another form."""
    words = request.args.to_dict() | changes
    words.pop("format", None)
    place = dict(request.view_args or {})
    place.pop("form", None)
    name = (request.endpoint or "now").removesuffix("_as")
    path = url_for(f"{name}_as", **place, form=form) if form else url_for(name, **place)
    return f"{path}?{urlencode(words)}" if words else path


# What goes with every answer


def _harden(response: Response) -> Response:
    response.headers.update(HEADERS)
    if request.endpoint != "static":
        response.headers["Cache-Control"] = "no-store"
    return response


def _failed(error: Exception) -> Any:
    """Say what is wrong in the form that was asked for; a fault of ours says nothing more."""
    if isinstance(error, HTTPException):
        status, text = error.code or 500, error.description or ""
    else:
        status, text = _status_of(error), str(error)
    if status >= 500 and not text:
        raise error
    is_without_host = isinstance(request.routing_exception, BadRequest)  # no links can be made then
    if is_without_host or _wanted_form() != "html":
        return _json({"error": text}, status)
    return render_template("error.html", title="This did not work", text=text), status


def _status_of(error: Exception) -> int:
    kinds = (
        ((UnknownJobError, NoSuchValueError), 404),
        (HiddenError, 403),
        ((QueryError, ReviewError), 400),
        ((HistoryError, SlurmError, CoreError, AccessError, OSError), 503),
    )
    for kind, status in kinds:
        if isinstance(error, kind):
            return status
    raise error
