"""The pages over the socket of sluice-pages: as in one process, and not for every user."""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
from served_site import ANN, BOB, TOKEN, ServedSite

from sluice.history_db.store import Store
from sluice.serve import backend, pages, wire
from sluice.serve.access import Door
from sluice.serve.app import create_app
from sluice.serve.wire import Asked
from sluice.slurm.children import PAGES, Children

SPEAKER, OTHER = "games", "nobody"
"""Users of every Debian: one in the place of sluice-serve, and one that is not."""


@pytest.fixture(scope="module")
def served():
    """A busy site and its sluice-pages, in a folder whose sockets all users find."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-pages-") as name,
        pytest.MonkeyPatch.context() as patch,
        closing(ServedSite(Path(name))) as site,
    ):
        Path(name).chmod(0o711)
        site.make_busy()
        site.history.chmod(0o600)
        patch.setattr(backend, "SERVE_USER", SPEAKER)
        threading.Thread(target=backend.serve, args=[site.site()], daemon=True).start()
        wait_for(socket_of(site).exists)
        yield site


def socket_of(site: ServedSite):
    return site.folder / "pages.sock"


@pytest.mark.parametrize("path", ["/now", "/jobs/601", "/programs", "/reviews", "/model", "/x"])
def test_pages_are_the_same_from_another_process(served, path):
    door = Door(user_header=None, tokens=served.tokens, operators=frozenset({ANN}))
    ask = partial(wire.ask, socket_of(served))
    far = create_app(ask, door, version="0", is_secure=False).test_client()
    near = served.app().test_client()
    for form in ("html", "json", "csv"):
        one, other = (
            client.get(f"{path}?format={form}", headers={"Authorization": f"Bearer {TOKEN}"})
            for client in (far, near)
        )
        assert one.status_code == other.status_code
        if form != "html" and path not in {"/now", "/programs"}:  # these tell the time
            assert one.text == other.text


def test_sluiced_runs_it_and_starts_it_again(tmp_path):
    with closing(ServedSite(tmp_path / "own")) as site:
        site.make_busy()
        services = Children(site.conf)
        asked = Asked("now", ANN, is_operator=True, form="json")

        def is_answered() -> bool:
            with suppress(wire.QueryError):
                return "facts" in wire.ask(socket_of(site), asked)
            return False

        services.run({PAGES: (str(socket_of(site)),)})
        try:
            wait_for(is_answered)
            (first,) = pids_of(site.conf)
            os.kill(first, signal.SIGKILL)
            wait_for(lambda: services.states()[PAGES]["restarts"] == 1)
            wait_for(is_answered)
            assert pids_of(site.conf) != [first]
        finally:
            services.close()
        assert pids_of(site.conf) == []


def pids_of(config) -> list[int]:
    """Return the processes that answer pages by this configuration."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"sluice.serve.backend" in words and str(config).encode() in words:
                found.append(int(path.parent.name))
    return found


def wait_for(condition) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def asked_as(user: str, served: ServedSite, asked: Asked) -> dict | None:
    """Ask as a user of this machine; None: there was no answer."""
    program = (
        "import json, os, sys; from pathlib import Path; from sluice.serve import wire\n"
        "os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))\n"
        "assert not os.access(sys.argv[4], os.R_OK)\n"
        "asked = wire.Asked(*json.loads(sys.argv[3]))\n"
        "try: print(json.dumps(wire.ask(Path(sys.argv[2]), asked)))\n"
        "except wire.QueryError: print('null')\n"
    )
    uid = str(pwd.getpwnam(user).pw_uid)
    words = [uid, socket_of(served), json.dumps(asked), served.history]
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@needs_root
def test_a_user_that_cannot_read_the_history_speaks_for_others_only_if_it_is_that_of_serve(served):
    asked = Asked("jobs", BOB, is_operator=False, form="json")
    assert asked_as(SPEAKER, served, asked)["facts"]["decisions"]
    assert asked_as(OTHER, served, asked) is None


@needs_root
def test_reviews_go_the_same_way_and_roles_are_checked_behind_the_socket(served):
    form = {"do": "reject", "job": "601"}
    for user, page, is_operator, status in (
        (BOB, "rule", False, 403),
        (BOB, "report", False, 403),
        ("no-such-user", "now", True, 403),
        (ANN, "rule", True, None),
    ):
        asked = Asked(page, user, is_operator, {"number": "1"}, form)
        assert asked_as(SPEAKER, served, asked).get("status") == status
    with Store(served.history, read_only=True) as store:
        [entry] = store.administration.audit()
    assert entry.uid == pwd.getpwnam(ANN).pw_uid


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[]",
        b"[1, 2, 3]",
        b'["now", "daemon", true, {}, {"a": 1}]',
        b'["now", "daemon", true, {}, [], "json"]',
        b'["nothing", "daemon", true]',
        b"[" * 100_000,
        b'"' + b"x" * (1 << 18),
    ],
)
def test_nothing_that_is_said_ends_it(served, line):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(socket_of(served)))
        try:
            client.sendall(line + b"\n")
            reply = client.recv(1 << 16)
        except ConnectionError:
            reply = b""
    assert not reply or json.loads(reply)["status"] in {400, 404}
    asked = Asked("now", ANN, is_operator=True, form="json")
    assert wire.ask(socket_of(served), asked).keys() == pages.answer(served.site(), asked).keys()


def test_without_sluiced_a_page_says_so(served, tmp_path):
    door = Door(user_header=None, tokens=served.tokens, operators=frozenset())
    ask = partial(wire.ask, tmp_path / "pages.sock")
    client = create_app(ask, door, version="0", is_secure=False).test_client()
    answer = client.get("/now", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 503
    assert "sluiced does not answer pages" in answer.text


def test_a_fault_of_ours_is_logged_and_tells_users_nothing(served, monkeypatch, capsys):
    def fail(*_):
        raise ZeroDivisionError("of the secret job")

    monkeypatch.setitem(pages.PAGES, "now", fail)
    client = served.app().test_client()
    answer = client.get("/now", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "ZeroDivisionError: of the secret job" in capsys.readouterr().err
