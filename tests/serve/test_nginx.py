"""Behind a real nginx, set up as the guide says: who logs in there is who reads here."""

import base64
import http.client
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from served_site import ANN, BOB, ServedSite

GUIDE = Path(__file__).parents[2] / "docs/guide/serve.md"
SLUICE = Path(sys.executable).with_name("sluice")
GROUP = "www-data"
PASSWORD = "of tests alone"  # noqa: S105
PATIENCE = 600  # seconds; far more than any of it takes
BOUND = ["setpriv", "--pdeathsig", "TERM"]
"""Before a command: it ends with the process that began it."""

pytestmark = pytest.mark.acceptance


def location(place: Path) -> str:
    """Return the guide's block for nginx, with the files of this place."""
    (block,) = re.findall(r"```nginx\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return block.replace("/etc/nginx/users", f"{place}/users").replace(
        "/run/sluice-serve", str(place)
    )


def config(place: Path, port: int) -> str:
    temporary = "\n".join(
        f"{kind}_temp_path {place}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        f"user {GROUP};\ndaemon off;\npid {place}/pid;\nerror_log {place}/error.log;\n"
        f"worker_processes 1;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}\n"
        f"server {{\nlisten 127.0.0.1:{port};\n{location(place)}}}\n}}\n"
    )


@contextmanager
def running(*words: str | Path):
    process = subprocess.Popen([*BOUND, *words])
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE)


def wait_for(family: int, address: object) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with suppress(OSError), socket.socket(family) as connection:
            connection.connect(address)
            return
        time.sleep(0.1)
    raise TimeoutError(address)


@pytest.fixture(scope="module")
def place():
    """A directory through which nginx's own user may go."""
    path = Path(tempfile.mkdtemp(prefix="sluice-nginx-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def port(place, tmp_path_factory):
    """Serve a busy site behind nginx; return where nginx listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = int(listener.getsockname()[1])
    (place / "nginx.conf").write_text(config(place, port))
    (place / "users").write_text("".join(f"{one}:{{PLAIN}}{PASSWORD}\n" for one in (ANN, BOB)))
    with closing(ServedSite(tmp_path_factory.mktemp("served"))) as site:
        site.make_busy()
        words = ["--config", site.conf, "--listen", f"unix:{place}/serve.sock"]
        words += ["--socket-group", GROUP, "--user-header", "X-Remote-User"]
        words += ["--operators", ANN, "--prefix", "/sluice"]
        with (
            running(sys.executable, "-m", "sluice.serve.backend", "--config", site.conf),
            running(SLUICE, "serve", *words),
            running("nginx", "-c", place / "nginx.conf"),
        ):
            wait_for(socket.AF_UNIX, f"{site.folder}/pages.sock")
            wait_for(socket.AF_UNIX, f"{place}/serve.sock")
            wait_for(socket.AF_INET, ("127.0.0.1", port))
            yield port


def ask(port: int, path: str, user: str = "", *, form: str | None = None, **headers: str):
    """Return status, headers and text of an answer; a form is posted."""
    named = {name.replace("__", "-"): value for name, value in headers.items()}
    if user:
        word = base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()
        named["Authorization"] = f"Basic {word}"
    if form is not None:
        named["Content-Type"] = "application/x-www-form-urlencoded"
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("GET" if form is None else "POST", path, form, named)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


def reader(page: str) -> str:
    """Return whom a page says that it is for."""
    return " ".join(re.sub(r"<[^>]*>", " ", page.partition('class="login-name">')[2]).split()[:2])


def test_who_logs_in_at_nginx_is_who_reads_here(port):
    assert ask(port, "/sluice/now")[0] == 401
    for user, role in ((ANN, "operator"), (BOB, "viewer")):
        status, headers, page = ask(port, "/sluice/now", user)
        assert (status, reader(page)) == (200, f"{user} {role}")
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert 'href="/sluice/jobs/601"' in page
    assert ask(port, "/sluice/static/serve.css", BOB)[0] == 200
    status, headers, _ = ask(port, "/sluice/", BOB)
    assert (status, headers["Location"]) == (302, "/sluice/now")


@pytest.mark.parametrize("name", ["X__Remote__User", "x__remote__user", "X_Remote_User"])
def test_a_header_that_a_client_forges_is_dropped(port, name):
    assert reader(ask(port, "/sluice/now", BOB, **{name: ANN})[2]) == f"{BOB} viewer"
    assert ask(port, "/sluice/model/reports/1", BOB, **{name: ANN})[0] == 403
    assert ask(port, "/sluice/now", **{name: ANN})[0] == 401


def test_an_operator_rules_through_nginx_and_a_viewer_does_not(port):
    page = ask(port, "/sluice/jobs/601", ANN)[2]
    (word,) = set(re.findall(r'name="form_token" value="(\w+)"', page))
    assert 'action="/sluice/reviews"' in page
    form = f"form_token={word}&job=601&do=reject"
    assert ask(port, "/sluice/reviews", BOB, form=form)[0] == 403
    assert ask(port, "/sluice/reviews", form=form)[0] == 401
    assert ask(port, "/sluice/reviews.json", ANN)[2].count('"stands"') == 0
    status, headers, _ = ask(port, "/sluice/reviews", ANN, form=form)
    assert (status, headers["Location"]) == (303, "/sluice/reviews")
    assert ask(port, "/sluice/reviews.json", ANN)[2].count('"stands"') == 1


def test_nobody_but_the_web_server_gets_at_the_socket(port, place):
    assert port
    path = place / "serve.sock"
    assert (path.group(), path.stat().st_mode & 0o777) == (GROUP, 0o660)
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
    words = ["/usr/bin/python3", "-c", connect]
    for user, code in ((BOB, 1), (GROUP, 0)):
        who = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]
        done = subprocess.run([*who, *words], capture_output=True, check=False)
        assert done.returncode == code, done.stderr
