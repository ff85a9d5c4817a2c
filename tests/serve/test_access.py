"""Who is let in, what they see, and what they may send."""

import json
import re
from contextlib import closing

import pytest
from click.testing import CliRunner
from served_site import ANN, ANNS, BOB, HOSTILE, OTHER_TOKEN, TOKEN, ServedSite

from sluice.cli.main import main as sluice
from sluice.serve.access import AccessError, Door
from sluice.slurm.records import Controller, UserDefaults
from sluice.slurm.viewers import Privacy

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


def test_a_server_that_would_let_nobody_in_does_not_start(served):
    with pytest.raises(AccessError, match="nobody could log in"):
        Door(served.site(), user_header=None, tokens=None, operators=frozenset())


def test_the_header_is_refused_on_loopback_unless_the_site_trusts_it(served):
    words = ["serve", "--listen", "127.0.0.1:0", "--user-header", HEADER]
    found = CliRunner().invoke(sluice, [*words, "--config", str(served.conf)])
    assert found.exit_code == 1
    assert "--trust-loopback" in found.output


def test_the_audit_is_for_operators_in_every_form(served):
    client = served.app().test_client()

    def asked(path: str, token: str):
        return client.get(path, headers={"Authorization": f"Bearer {token}"})

    for path in ("/audit", "/audit.json", "/audit.csv", "/audit?format=json"):
        assert "for operators" in asked(path, OTHER_TOKEN).text
        assert asked(path, OTHER_TOKEN).status_code == 403
    assert asked("/audit", TOKEN).status_code == 200
    assert 'href="/audit"' in asked("/now", TOKEN).text
    assert 'href="/audit"' not in asked("/now", OTHER_TOKEN).text


# PrivateData


def asker(site):
    client = site.app().test_client()
    return lambda path: client.get(path, headers={"Authorization": f"Bearer {TOKEN}"}).text


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    """Ask as a user who sees their own jobs alone."""
    with closing(ServedSite(tmp_path_factory.mktemp("private"), is_private=True)) as site:
        site.make_busy()
        yield asker(site)


@pytest.mark.parametrize(
    "path",
    [
        f"{path}{form}"
        for path in (
            "/now",
            "/predictions",
            "/predictions?evidence=all",
            "/predictions/2",
            "/interference",
            "/interference/1/2",
            "/decisions",
            "/decisions?find=script",
            "/decisions?user=bin",
            "/decisions/701",
            "/decisions/601",
            "/models",
            "/models/1",
            "/models/2/difference",
            "/doubts",
            "/reports",
            "/reports/1",
            "/audit",
        )
        for form in ("", "&format=json" if "?" in path else "?format=json")
    ],
)
def test_private_data_hides_the_jobs_of_others_on_every_page(private, path):
    page = private(path)
    assert HOSTILE[:10] not in page
    assert "alert" not in page
    unasked = page.replace("/decisions/701", "").replace("no job 701", "")
    assert not re.search(r"(?<![\d.])[57]01(?!\d)", unasked)


def test_private_data_shows_users_their_own_jobs(private):
    decisions = json.loads(private("/decisions.json"))["decisions"]
    assert {row["user"] for row in decisions} == {ANN}
    assert "What was known before it ran" in private("/decisions/601")
    facts = json.loads(private("/now.json"))
    assert [row["job_id"] for row in facts["waiting"]] == [601]
    assert [row["job_id"] for row in facts["writing"]] == [502]
    assert {lane["level"] for lane in facts["lanes"]} == {"idle", "little"}
    assert {lane["load"] for lane in facts["lanes"]} == {None}
    assert "running" not in facts["snapshot"]


def test_operators_of_slurm_see_all_jobs(served):
    served.tell_privacy(is_private=True, operators=(0, ANNS))
    assert ">701<" in asker(served)("/decisions")


def test_without_word_of_the_controller_everybody_sees_their_own_jobs_alone(served):
    assert ">701<" in asker(served)("/decisions")
    (served.folder / "snapshot.status").unlink()
    assert ">701<" not in asker(served)("/decisions")
    assert ">601<" in asker(served)("/decisions")


def test_privacy_survives_the_way_through_the_status_file():
    controller = Controller("c", "23.02", 64030, (), (), "", "", (), (), ("jobs", "usage"))
    users = [UserDefaults(7, "a", is_operator=True), UserDefaults(8, "a")]
    told = Privacy.of(controller, users)
    assert Privacy.parse(str(told)) == told
    assert [told.viewer(uid).sees_all for uid in (0, 64030, 7, 8)] == [True, True, True, False]
    for text in ("", "open", "open:x", "shut:1", "private:"):
        assert not Privacy.parse(text).viewer(1).sees_all
