"""Answers users over a socket of sluiced, each about what PrivateData lets the user see.

The kernel names the user that asks (SO_PEERCRED). Threads of its own, with their own connection to
the history: a question never holds up a poll. Everything has a limit: the length of a request, the
time to send it and to take the answer, and how many are answered at once, of one user and of all.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.history_db.errors import HistoryError
from sluice.history_db.store import Store
from sluice.slurm.gates.gate_status import overview
from sluice.slurm.records import QueryError
from sluice.slurm.status import EXPECTED
from sluice.slurm.unix_socket import LineError, listen, peer_uid, receive_line
from sluice.slurm.views import query_replies
from sluice.slurm.views.top import top
from sluice.slurm.visibility import MAX_REQUEST, Viewer, socket_path, viewer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluice.policies.core import Config
    from sluice.slurm.records import Controller, UserDefaults

MOST = 8
"""Requests that are answered at once."""
MOST_OF_USER = 2
SECONDS = 5.0
"""For a client to say what it wants, and again to take the answer."""
BUSY_SECONDS = 2.0
MOST_DECISIONS = 1000
MOST_WORDS = 100
"""Names of users, accounts, … of which a list shall be."""
MOST_SCORED = 2000
MOST_COUNTED = 500
"""Jobs that servers count, of which `top` is told."""
GATES_SECONDS = 2.0
"""For so long the gates that one user was told hold for the next one, too."""
REQUEST_MEMBERS: dict[str, type] = {
    **dict.fromkeys(("uid", "nodes", "tasks", "cpus_per_task", "time_limit"), int),
    **dict.fromkeys(("name", "account", "partition", "script", "submit_line"), str),
}
"""What `predict` may say of a job."""
NUMBER_END = 1 << 32


@dataclass(frozen=True, slots=True)
class Site:
    """What answers need to know; replaced as a whole."""

    config: Config
    controller: Controller
    users: list[UserDefaults]


class QueryServer:
    """Serves the socket from `serve` to `close`."""

    def __init__(self) -> None:
        self._site: Site | None = None
        self._path: Path | None = None
        self._socket: socket.socket | None = None
        self._busy: Counter[int] = Counter()
        self._lock = threading.Lock()
        self._gates: tuple[float, Any] = (-GATES_SECONDS, None)
        self._gates_lock = threading.Lock()

    def serve(
        self, config: Config, controller: Controller | None, users: list[UserDefaults]
    ) -> None:
        """Answer from now on by these settings; raises OSError if the socket cannot be made."""
        if controller is not None:
            self._site = Site(config, controller, users)
        path = socket_path(config)
        if path != self._path or not path.is_socket():
            self._bind(path)

    def close(self) -> None:
        if self._socket:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            self._socket.close()
        if self._path:
            self._path.unlink(missing_ok=True)
        self._socket = self._path = None

    def _bind(self, path: Path) -> None:
        self.close()
        listener = listen(path, MOST * MOST_OF_USER)
        self._socket, self._path = listener, path
        threading.Thread(target=self._accept, args=[listener], daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                if listener.fileno() < 0 or listener is not self._socket:
                    return
                time.sleep(0.1)  # out of descriptors, say
                continue
            uid = peer_uid(connection)
            if self._take_place(uid):
                threading.Thread(target=self._serve, args=[connection, uid], daemon=True).start()
            else:
                _refuse(connection)

    def _serve(self, connection: socket.socket, uid: int) -> None:
        with connection, self._place(uid), suppress(OSError):
            try:
                reply = {"answer": self._answer(_receive(connection), uid)}
            except EXPECTED as error:
                reply = {"error": str(error)}
            connection.settimeout(SECONDS)
            connection.sendall(json.dumps(reply).encode())

    @contextmanager
    def _place(self, uid: int) -> Iterator[None]:
        """Leave the place at the end, before the client hears that this is the end."""
        try:
            yield
        finally:
            with self._lock:
                self._busy -= Counter([uid])  # users without one are not kept

    def _take_place(self, uid: int) -> bool:
        """Take one of the places in which requests are answered."""
        with self._lock:
            if self._busy.total() >= MOST or self._busy[uid] >= MOST_OF_USER:
                return False
            self._busy[uid] += 1
            return True

    def _answer(self, request: dict[str, Any], uid: int) -> Any:
        site = self._site
        if site is None:
            raise QueryError("sluiced has not reached slurmctld yet; ask again")
        who = viewer(uid, site.controller, site.users)
        command, arguments = request["command"], request["arguments"]
        if command == "gates":
            return self._overview(site.config)
        if command == "predict":
            return _predict(site.config, who, _job(arguments.get("request")))
        if not isinstance(command, str) or command not in OF_HISTORY:
            raise QueryError(
                "sluiced does not answer this; ask an administrator, or in the service group"
            )
        with _history(site.config) as store:
            return OF_HISTORY[command](store, who, site.config, arguments)

    def _overview(self, config: Config) -> Any:
        """Return the gates: numbers of all jobs together, which name no user."""
        with self._gates_lock:
            asked, found = self._gates
            if time.monotonic() - asked >= GATES_SECONDS:
                found = overview(config, int(time.time()))
                self._gates = (time.monotonic(), found)
            return found


def _decisions(store: Store, who: Viewer, _: Config, arguments: dict[str, Any]) -> Any:
    limit = min(_number(arguments, "limit"), MOST_DECISIONS)
    since = _number({"since": 0} | arguments, "since")
    return query_replies.decisions(store, who, limit=limit, since=since, **_selection(arguments))


def _why(store: Store, who: Viewer, _: Config, arguments: dict[str, Any]) -> Any:
    job, cluster = _text(arguments, "job"), arguments.get("cluster")
    return query_replies.why(store, who, job=job or "", cluster=cluster and str(cluster)[:256])


def _score(store: Store, who: Viewer, _: Config, arguments: dict[str, Any]) -> Any:
    since = _number(arguments, "since")
    return query_replies.model_score(store, who, since=since, most=MOST_SCORED)


def _report(store: Store, who: Viewer, config: Config, arguments: dict[str, Any]) -> Any:
    since = _number(arguments, "since")
    return query_replies.report(store, who, config=config, since=since)


def _top(store: Store, who: Viewer, config: Config, arguments: dict[str, Any]) -> Any:
    counted = arguments.get("counted", [])
    if not isinstance(counted, list) or len(counted) > MOST_COUNTED:
        raise QueryError(f"counted is a list of at most {MOST_COUNTED} jobs")
    jobs = [_number({"counted": job}, "counted") for job in counted]
    return top(store, who, config, int(time.time()), jobs)


OF_HISTORY: dict[object, Callable[[Store, Viewer, Config, dict[str, Any]], Any]] = {
    "decisions": _decisions,
    "why": _why,
    "model score": _score,
    "report": _report,
    "top": _top,
}
"""What is answered from the history, by the command that asks."""


def _refuse(connection: socket.socket) -> None:
    text = {"error": "sluiced answers others at the moment; ask again"}
    with connection, suppress(OSError):
        connection.settimeout(0)
        connection.sendall(json.dumps(text).encode())


@contextmanager
def _history(config: Config) -> Iterator[Store]:
    with Store(config.history, read_only=True, busy_seconds=BUSY_SECONDS) as store:
        yield store


def _predict(config: Config, who: Viewer, request: dict[str, Any]) -> Any:
    bundle = Path(config.bundle)
    try:
        with _history(config) as store:
            return query_replies.predict(store, who, bundle=bundle, request=request)
    except HistoryError:
        return query_replies.predict(None, who, bundle=bundle, request=request)


def _receive(connection: socket.socket) -> dict[str, Any]:
    """Read a request, a line of JSON, for as long as a client may take and no longer."""
    try:
        request = json.loads(receive_line(connection, MAX_REQUEST, SECONDS))
    except LineError:
        raise QueryError(f"a request is one line of at most {MAX_REQUEST >> 10} KiB") from None
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict) or not isinstance(request.get("arguments"), dict):
        raise QueryError("a request is {command, arguments} in JSON")
    return {"command": request.get("command"), "arguments": request["arguments"]}


def _number(arguments: dict[str, Any], name: str) -> int:
    value = arguments.get(name)
    if not isinstance(value, int) or not 0 <= value < NUMBER_END:
        raise QueryError(f"{name} is a number from 0 to {NUMBER_END - 1}")
    return value


def _text(arguments: dict[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or "\0" in value:
        raise QueryError(f"{name} is a text")
    return value


def _selection(arguments: dict[str, Any]) -> dict[str, list[str]]:
    """Check of which users, accounts, clusters and states a list shall be."""
    found = {}
    for name in ("users", "accounts", "clusters", "states"):
        words = arguments.get(name, [])
        if not isinstance(words, list) or len(words) > MOST_WORDS:
            raise QueryError(f"{name} is a list of at most {MOST_WORDS} names")
        found[name] = [_text({name: word}, name) for word in words]
    return found


def _job(request: object) -> dict[str, Any]:
    """Check what a user says of a job to be predicted."""
    if not isinstance(request, dict) or not request.keys() <= REQUEST_MEMBERS.keys():
        raise QueryError(f"a job is described by {', '.join(REQUEST_MEMBERS)}")
    return {
        name: (_number if kind is int else _text)(request, name)
        for name, kind in REQUEST_MEMBERS.items()
        if request.get(name) is not None
    }
