"""Who is let in, what they see, and what they may send."""

import json
import re
import socket
import threading
from contextlib import closing

import pytest
from click.testing import CliRunner
from served_site import ANN, ANNS, BOB, BOBS, HOSTILE, OTHER_TOKEN, TOKEN, ServedSite

from sluice.cli.main import main as sluice
from sluice.history_db.records import StoredReview
from sluice.history_db.store import Store
from sluice.policies.review import Review, Selector
from sluice.serve.access import AccessError, Door
from sluice.serve.server import bind, serve
from sluice.serve.site import Site
from sluice.slurm.records import Controller, UserDefaults
from sluice.slurm.visibility import Privacy

HEADER = "X-Remote-User"


@pytest.fixture
def served(tmp_path):
    with closing(ServedSite(tmp_path)) as site:
        site.make_busy()
        yield site


def form_token(page: str) -> str:
    return re.search(r'name="form_token" value="([0-9a-f]+)"', page)[1]


def test_nobody_is_let_in_without_saying_who(served):
    client = served.app().test_client()
    assert client.get("/now").headers["Location"] == "/login"
    assert client.get("/now.json").status_code == 401
    wrong = {"Authorization": f"Bearer {TOKEN[:-1]}x"}
    assert client.get("/now.json", headers=wrong).status_code == 401


def test_a_token_logs_in_until_it_leaves_the_file(served):
    client = served.app().test_client()
    word = form_token(client.get("/login").text)
    assert client.post("/login", data={"token": "guess", "form_token": word}).status_code == 403
    answer = client.post("/login", data={"token": TOKEN, "form_token": word})
    assert answer.headers["Location"] == "/now"
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert client.get("/now").status_code == 200
    served.tokens.write_text(f"{BOB} {OTHER_TOKEN}\n")
    assert client.get("/now").status_code == 302


def test_logging_out_takes_a_form_of_ours(served):
    client = served.app().test_client()
    word = form_token(client.get("/login").text)
    client.post("/login", data={"token": TOKEN, "form_token": word})
    assert client.post("/logout").status_code == 403
    own = form_token(client.get("/now").text)
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert client.post("/logout", data={"form_token": own}, headers=foreign).status_code == 403
    assert client.post("/logout", data={"form_token": own}).status_code == 302
    assert client.get("/now").status_code == 302


def test_the_header_of_the_proxy_counts_only_where_it_was_named(served):
    ann = {HEADER: ANN}
    assert served.app().test_client().get("/now.json", headers=ann).status_code == 401
    client = served.app(user_header=HEADER).test_client()
    assert client.get("/now.json", headers=ann).status_code == 200
    assert client.get("/now.json", headers={HEADER: "nobody-here"}).status_code == 401
    assert client.get("/now.json", headers={HEADER: f"{BOB},{ANN}"}).status_code == 401


def test_a_file_of_tokens_that_others_may_read_is_refused(served):
    served.tokens.chmod(0o640)
    with pytest.raises(AccessError, match="chmod 600"):
        served.app()


def test_a_short_token_is_refused_and_not_repeated(served):
    served.tokens.write_text("ann secret\n")
    with pytest.raises(AccessError, match="at least 24") as refused:
        served.app()
    assert "secret" not in str(refused.value)


def test_a_server_that_would_admit_no_user_does_not_start():
    with pytest.raises(AccessError, match="no user could log in"):
        Door(user_header=None, tokens=None, operators=frozenset())


def test_the_header_is_refused_on_loopback_unless_the_site_trusts_it(served):
    words = ["serve", "--listen", "127.0.0.1:0", "--user-header", HEADER]
    found = CliRunner().invoke(sluice, [*words, "--config", str(served.conf)])
    assert found.exit_code == 1
    assert "--trust-loopback" in found.output


OPERATORS_ONLY = ("/model/reports/1", "/model/2/difference")


@pytest.mark.parametrize("page", OPERATORS_ONLY)
def test_what_tells_of_all_users_is_for_operators_in_every_form(served, page):
    client = served.app().test_client()

    def asked(path: str, token: str):
        return client.get(path, headers={"Authorization": f"Bearer {token}"})

    for path in (page, f"{page}.json", f"{page}.csv", f"{page}?format=json"):
        assert "for operators" in asked(path, OTHER_TOKEN).text
        assert asked(path, OTHER_TOKEN).status_code == 403
    assert asked(page, TOKEN).status_code == 200
    assert "difference" not in asked("/model/2", OTHER_TOKEN).text


def test_the_audit_and_the_list_of_reports_are_for_operators(served):
    client = served.app().test_client()

    def asked(path: str, token: str):
        return client.get(path, headers={"Authorization": f"Bearer {token}"})

    for page, member, table in (("reviews", "entries", "audit"), ("model", "reports", "reports")):
        for token, is_operator in ((TOKEN, True), (OTHER_TOKEN, False)):
            assert (member in asked(f"/{page}.json", token).json) is is_operator
            assert (f'id="title-{table}"' in asked(f"/{page}", token).text) is is_operator
            status = asked(f"/{page}.csv?table={table}", token).status_code
            assert status == (200 if is_operator else 404)


def test_a_viewer_changes_nothing_by_any_form_there_is(served):
    """With a form of their own, too: who may look may not post, wherever that is."""
    app = served.app()
    client = app.test_client()
    word = form_token(client.get("/login").text)
    client.post("/login", data={"token": OTHER_TOKEN, "form_token": word})
    rules = [
        (rule, method)
        for rule in app.url_map.iter_rules()
        for method in rule.methods - {"GET", "HEAD", "OPTIONS"}
        if rule.endpoint not in {"log_in", "logout"}
    ]
    assert {str(rule) for rule, _ in rules} >= {"/reviews", "/model/<wanted>"}
    form = {
        "form_token": form_token(client.get("/now").text),
        "do": "reject",
        "job": "701",
        "program": "2",
    }
    for rule, method in rules:
        path = re.sub(r"<[^>]*>", "2", str(rule))
        answer = client.open(path, method=method, data=form)
        assert answer.status_code == 403
        assert "Only operators" in answer.text
    with Store(served.history, read_only=True) as store:
        assert (
            store.administration.reviews(),
            store.administration.audit(),
            store.models.model_in_use(),
        ) == ([], [], 1)


@pytest.mark.parametrize(
    "forged",
    [
        ("X-Remote-User: bin", "X_Remote_User: daemon"),
        ("X_Remote_User: daemon", "X-Remote-User: bin"),
        ("X-Remote-User: bin", "X-Remote-User: daemon"),
        ("X-Remote-User : daemon",),
        ("X_Remote_User: daemon",),
    ],
)
def test_no_header_that_only_looks_like_the_proxys_counts(served, forged):
    """What a proxy lets through beside its own: nobody becomes an operator by it."""
    listener = bind(f"unix:{served.folder}/serve.sock")
    listener.listen()
    app = served.app(user_header=HEADER)
    threading.Thread(target=serve, args=[app, listener], daemon=True).start()
    lines = ["GET /model/reports/1 HTTP/1.1", "Host: a", "Connection: close", *forged, "", ""]
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"{served.folder}/serve.sock")
        client.sendall("\r\n".join(lines).encode())
        answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert int(answer.split()[1]) in {302, 400, 401, 403}


# PrivateData


def asker(site):
    client = site.app().test_client()
    return lambda path: client.get(path, headers={"Authorization": f"Bearer {TOKEN}"}).text


@pytest.fixture(scope="module")
def private_client(tmp_path_factory):
    """Ask as a user who sees their own jobs alone, although they are an operator of the page."""
    with closing(ServedSite(tmp_path_factory.mktemp("private"), is_private=True)) as site:
        site.make_busy()
        client = site.app().test_client()
        yield lambda path: client.get(path, headers={"Authorization": f"Bearer {TOKEN}"})


@pytest.fixture(scope="module")
def private(private_client):
    return lambda path: private_client(path).text


@pytest.mark.parametrize(
    "path",
    [
        f"{path}{form}"
        for path in (
            "/now",
            "/programs",
            "/programs?evidence=all",
            "/programs/2",
            "/programs/1/2",
            "/jobs",
            "/jobs?find=script",
            "/jobs?user=bin",
            "/jobs/701",
            "/jobs/601",
            "/model",
            "/model/1",
            "/model/2/difference",
            "/model/reports/1",
            "/reviews",
        )
        for form in ("", "&format=json" if "?" in path else "?format=json")
    ],
)
def test_private_data_hides_the_jobs_of_others_on_every_page(private, path):
    page = private(path)
    assert HOSTILE[:10] not in page
    assert "alert" not in page
    unasked = page.replace("/jobs/701", "").replace("no job 701", "")
    assert not re.search(r"(?<![\d.])[57]01(?!\d)", unasked)


UNKNOWN = {
    "/jobs/701": "/jobs/79",
    "/jobs/701_1": "/jobs/79_1",
    "/jobs?job=701": "/jobs?job=79",
    "/programs/2": "/programs/79",
    "/programs/1/2": "/programs/1/79",
    "/programs/2/2": "/programs/79/79",
    "/programs/2/1": "/programs/79/1",
    "/model/1": "/model/79",
    "/model/2/difference": "/model/79/difference",
    "/model/reports/1": "/model/reports/79",
    "/jobs?user=bin": "/jobs?user=man",
    "/programs?find=script": "/programs?find=absentword",
    "/jobs?find=script": "/jobs?find=absentword",
    "/reviews?find=script": "/reviews?find=absentword",
    "/now?find=script": "/now?find=absentword",
}
"""What is hidden, and the like that does not exist."""


@pytest.mark.parametrize("form", ["html", "json", "csv"])
@pytest.mark.parametrize("hidden", UNKNOWN)
def test_what_is_hidden_is_answered_as_what_does_not_exist(private_client, hidden, form):
    def answer(path: str) -> tuple[int, str]:
        sign = "&" if "?" in path else "?"
        found = private_client(f"{path}{sign}format={form}")
        text = re.sub(r'"(now|age|computed)": [\d.]+|\d+ s\b', "", found.text)
        asked = r"(?<![0-9a-z])(701|79|2|script|absentword|bin|man)(?![0-9a-z])"
        return found.status_code, re.sub(asked, "…", text)

    assert answer(hidden) == answer(UNKNOWN[hidden])


def test_what_could_not_be_computed_names_nobody_to_who_sees_a_part(served, monkeypatch):
    failed = {"computed": 1, "failed": "KeyError: 'bobs_program'", "pairs": [], "doubts": []}
    monkeypatch.setattr(Site, "rankings", property(lambda _: failed))
    for is_private in (False, True):
        served.tell_privacy(is_private=is_private)
        for form in ("", ".json"):
            assert ("bobs_program" in asker(served)(f"/programs{form}")) is not is_private


def test_a_comment_that_may_name_others_is_for_who_sees_all(served):
    review = Review("ignore", Selector(uid=BOBS), comment="for ann's sake", by=ANN, made_at=1)
    with Store(served.history) as store:
        store.administration.add_review(StoredReview(review.name, "command", 1, review.to_json()))
    client = served.app().test_client()

    def told() -> list[str]:
        answers = [
            client.get(f"/reviews{form}", headers={"Authorization": f"Bearer {OTHER_TOKEN}"})
            for form in ("", ".json", ".csv")
        ]
        return [answer.text for answer in answers]

    assert all("for ann" in text for text in told())
    served.tell_privacy(is_private=True)
    for text in told():
        assert review.name in text
        assert "for ann" not in text
        assert ANN not in text


def test_private_data_shows_users_their_own_jobs(private):
    decisions = json.loads(private("/jobs.json"))["decisions"]
    assert {row["user"] for row in decisions} == {ANN}
    assert "What was known before it ran" in private("/jobs/601")
    facts = json.loads(private("/now.json"))
    assert [row["job_id"] for row in facts["waiting"]] == [601]
    assert [row["job_id"] for row in facts["writing"]] == [502]
    assert {lane["level"] for lane in facts["lanes"]} == {"idle", "little"}
    assert {lane["load"] for lane in facts["lanes"]} == {None}
    assert "running" not in facts["snapshot"]


def test_operators_of_slurm_see_all_jobs(served):
    served.tell_privacy(is_private=True, operators=(0, ANNS))
    assert ">701<" in asker(served)("/jobs")


def test_without_word_of_the_controller_everybody_sees_their_own_jobs_alone(served):
    assert ">701<" in asker(served)("/jobs")
    (served.folder / "snapshot.status").unlink()
    assert ">701<" not in asker(served)("/jobs")
    assert ">601<" in asker(served)("/jobs")


def test_privacy_survives_the_way_through_the_status_file():
    controller = Controller("c", "23.02", 64030, (), (), "", "", (), (), ("jobs", "usage"))
    users = [UserDefaults(7, "a", is_operator=True), UserDefaults(8, "a")]
    told = Privacy.of(controller, users)
    assert Privacy.parse(str(told)) == told
    assert [told.viewer(uid).sees_all for uid in (0, 64030, 7, 8)] == [True, True, True, False]
    for text in ("", "open", "open:x", "shut:1", "private:"):
        assert not Privacy.parse(text).viewer(1).sees_all
