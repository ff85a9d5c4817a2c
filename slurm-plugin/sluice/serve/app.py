"""Answers requests: login, form and headers; pages come from `pages.answer`, here or elsewhere.

Nothing is loaded from elsewhere, no script or style stands in a page, everything that users wrote
is escaped, and what changes something is a POST with a token of a form of ours.
"""

from __future__ import annotations

import json
import secrets
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from flask import Flask, Response, abort, g, redirect, render_template, request, session, url_for
from werkzeug.exceptions import BadRequest, HTTPException

from sluice.serve.access import MOST_BYTES, AccessError
from sluice.serve.files import prepare
from sluice.serve.wire import Asked
from sluice.slurm.records import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.serve.access import Door, User

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
"""Endpoints that need no login."""
NAVIGATION = ("now", "jobs", "programs", "reviews", "model")
RULES = {
    "now": "/now",
    "jobs": "/jobs",
    "job": "/jobs/<job>",
    "programs": "/programs",
    "program": "/programs/<number>",
    "pair": "/programs/<one>/<other>",
    "reviews": "/reviews",
    "model": "/model",
    "card": "/model/<wanted>",
    "difference": "/model/<wanted>/difference",
    "report": "/model/reports/<number>",
}
"""Paths of the pages; each is also there as RULE.json and RULE.csv."""


def create_app(
    ask: Callable[[Asked], dict[str, Any]], door: Door, *, version: str, is_secure: bool
) -> Flask:
    """Return the application; ask answers as `pages.answer` does.

    is_secure: browsers reach it only by HTTPS.
    """
    app = Flask(__name__)
    app.secret_key = secrets.token_bytes(32)
    app.config |= {
        "MAX_CONTENT_LENGTH": MOST_BYTES,
        "PERMANENT_SESSION_LIFETIME": SESSION,
        "SESSION_COOKIE_NAME": "sluice",
        "SESSION_COOKIE_HTTPONLY": True,
        "SESSION_COOKIE_SAMESITE": "Lax",
        "SESSION_COOKIE_SECURE": is_secure,
    }
    prepare(app.jinja_env)
    app.context_processor(lambda: _context(door))
    app.before_request(_refuse_zero_bytes)
    app.before_request(lambda: _admit(door))
    app.after_request(_harden)
    app.register_error_handler(Exception, _failed)
    _add_login(app, door)
    _add_pages(app, ask, version)
    _add_changes(app, ask)
    return app


# Logins


def _context(door: Door) -> dict[str, Any]:
    user: User | None = g.get("user")
    return {
        "user": user,
        "navigation": NAVIGATION,
        "form_token": door.form_token(user.name if user else ""),
        "takes_tokens": door.takes_tokens,
        "has_session": "user" in session,
    }


def _admit(door: Door) -> Any:
    """Admit a user or lead to the login; refuse forms that are not ours."""
    g.user = _user(door)
    if request.method not in READING:
        _check_form(door)
    if g.user is not None or request.endpoint in OPEN:
        return None
    if door.takes_tokens and request.endpoint and _wanted_form() == "html":
        return redirect(url_for("login"))
    return abort(401, "Log in through the site's proxy, or with a token of your own.")


def _refuse_zero_bytes() -> None:
    """Refuse what no text of a system or of the history can contain."""
    given = [*request.args.items(multi=True), *request.form.items(multi=True)]
    if any("\0" in text for text in chain([request.path], *given)):
        abort(400, "No zero byte can be asked for.")


def _user(door: Door) -> User | None:
    """Return the user: by a token, by the proxy's header, or by an earlier login."""
    kind, _, text = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() == "bearer":
        token = door.token(text)
        return door.user(token.user) if token else None
    if door.user_header and (name := request.headers.get(door.user_header)):
        return door.user(name)
    name, digest = session.get("user", ""), session.get("token", "")
    return door.user(name) if name and door.is_valid(name, digest) else None


def _check_form(door: Door) -> None:
    """Refuse what another site made a browser send."""
    user = g.user.name if g.user else ""
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
        if token is None or door.user(token.user) is None:
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


def _add_pages(app: Flask, ask: Callable[[Asked], dict[str, Any]], version: str) -> None:
    def add(name: str, rule: str) -> None:
        def answer(form: str = "", **words: str) -> Answer:
            wanted = form or _wanted_form()
            asked = _asked(name, words, request.args.to_dict(), wanted)
            return _told(_checked(ask(asked)), version)

        app.add_url_rule(rule, name, answer)
        app.add_url_rule(f"{rule}.<any(json, csv):form>", f"{name}_as", answer)

    for name, rule in RULES.items():
        add(name, rule)

    @app.get("/")
    def home() -> Any:
        return redirect(url_for("now"))

    @app.before_request
    def find_job() -> Any:
        """Go to the job whose number was typed into the form of jobs."""
        job = request.args.get("job", "").strip()
        return redirect(url_for("job", job=job)) if request.endpoint == "jobs" and job else None


def _add_changes(app: Flask, ask: Callable[[Asked], dict[str, Any]]) -> None:
    @app.before_request
    def check_role() -> None:
        """Let only operators change anything; to log in and out is no change."""
        is_change = request.method not in READING and request.endpoint not in SESSIONS
        if is_change and not (g.user and g.user.is_operator):
            abort(403, "Only operators, as `sluice serve --operators` names them, may do this.")

    @app.post("/reviews")
    def rule() -> Any:
        _checked(ask(_asked("rule", {}, request.form.to_dict())))
        return redirect(url_for("reviews"), 303)

    @app.post("/model/<wanted>")
    def publish(wanted: str) -> Any:
        _checked(ask(_asked("publish", {"wanted": wanted}, request.form.to_dict())))
        return redirect(url_for("model"), 303)


def _asked(page: str, words: dict[str, str], query: dict[str, str], form: str = "html") -> Asked:
    return Asked(page, g.user.name, g.user.is_operator, words, query, form)


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer, unless it is an error."""
    if "error" in answer:
        abort(_failure(answer["error"], answer["status"]))
    return answer


def _wanted_form() -> str:
    form = (request.view_args or {}).get("form") or request.args.get("format", "html")
    return form if form in {"json", "csv"} else "html"


def _told(answer: dict[str, Any], version: str) -> Answer:
    if "facts" in answer:
        return _json({"version": version, **answer["facts"]})
    if "csv" in answer:
        named = {"Content-Disposition": f'attachment; filename="{answer["table"]}.csv"'}
        return Response(answer["csv"], mimetype="text/csv", headers=named)
    page = answer["page"]
    return render_template("page.html", title=page["title"], page=page, link=_link)


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
        if error.response is not None:
            return error.response
        return _failure(error.description or "", error.code or 500)
    if isinstance(error, (AccessError, OSError, QueryError)):
        return _failure(str(error), 503)
    raise error


def _failure(text: str, status: int) -> Response:
    is_without_host = isinstance(request.routing_exception, BadRequest)  # no links can be made then
    if is_without_host or _wanted_form() != "html":
        return _json({"error": text or FAULT}, status)
    page = render_template("error.html", title="This did not work", text=text or FAULT)
    return Response(page, status)


FAULT = "Sluice failed; its log says why."
