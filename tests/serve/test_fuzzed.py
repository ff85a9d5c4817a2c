"""Whatever is asked of any page is answered, or refused as the asker's fault."""

import json
import re
from contextlib import closing
from urllib.parse import quote

import pytest
from served_site import TOKEN, ServedSite

NUMBERS = (
    *("0", "-1", "+1", "1.5", "1e9", "1_000", "NaN", "4294967296", "9223372036854775807"),
    *("9223372036854775808", "9" * 18, "9" * 40, "9" * 5000, "0" * 5000, "-" + "9" * 40),
    *("1.9223372036854775808", "1." + "9" * 18, "4711_" + "9" * 20, "1+99999999999", "1_", "4_2_1"),
    "\N{SUPERSCRIPT TWO}",
    "\N{ARABIC-INDIC DIGIT FOUR}2",
)
WORDS = (
    *("", "\0", "a\0b", "\ud800", "a" * 5000, "%00", "..", "../../etc/passwd", "\\x00"),
    *("'\"; DROP TABLE jobs; --", "\r\nX-Header: 1", "\N{RIGHT-TO-LEFT OVERRIDE}"),
    *("yesterday", "2026-02-30", "9999-12-31", "programs:-", ":written", "decisions:-time"),
    *("json", "treat", "daemon,bin", "daemon\0", "root," * 500),
)
NASTY = (
    "",
    "\0",
    "\ud800",
    "-1",
    "9" * 5000,
    "0" * 5000,
    "9223372036854775808",
    "\N{SUPERSCRIPT TWO}",
    "a" * 5000,
)
PARAMETERS = (
    *("find", "user", "action", "pattern", "grant", "since", "before", "from", "sort", "job"),
    *(
        "evidence",
        "format",
        "table",
        "form",
        "number",
        "wanted",
        "_external",
        "_anchor",
        "endpoint",
    ),
)
FIELDS = (
    *("do", "id", "job", "program", "with", "with_program", "user", "account", "until"),
    *("treat_as", "comment", "reason", "token"),
)


def written(text: str) -> str:
    """Write a text into an address; what is no Unicode goes as the bytes of such a thing."""
    return quote(text.encode(errors="surrogatepass"), safe="")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with closing(ServedSite(tmp_path_factory.mktemp("served"))) as site:
        site.make_busy()
        yield site


@pytest.fixture(scope="module")
def app(served):
    return served.app(user_header="X-Remote-User")


@pytest.fixture(scope="module")
def ask(app):
    """Ask as an operator, and return what came; only what the asker got wrong may be refused."""
    client = app.test_client()

    def get(path: str, method: str = "GET", **more):
        headers = {"Authorization": f"Bearer {TOKEN}"} | more.pop("headers", {})
        answer = client.open(path, method=method, headers=headers, **more)
        assert answer.status_code < 500, (method, path[:200], more, answer.text[:500])
        if answer.status_code == 200 and answer.is_json:
            json.loads(answer.data)
        return answer

    return get


def pages(app, value: str) -> list[str]:
    """Return the path of each page with something in place of its names and numbers."""
    found = (str(one) for one in app.url_map.iter_rules() if "GET" in one.methods)
    return sorted({re.sub(r"<[^>]*>", value, rule) for rule in found if "<any" not in rule})


def asked(pairs) -> str:
    return "&".join(f"{name}={written(text)}" for name, text in pairs)


@pytest.mark.parametrize("text", NUMBERS + WORDS, ids=range(len(NUMBERS + WORDS)))
def test_nothing_is_too_much_in_a_path_or_in_all_of_a_query(app, ask, text):
    for path in pages(app, written(text)):
        ask(path)
    for path in pages(app, "2"):
        ask(f"{path}?{asked((name, text) for name in PARAMETERS if name != 'job')}")
        ask(f"{path}?{written(text)}={written(text)}&find=1&find={written(text)}&find=%ff%fe")


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_nothing_is_too_much_in_one_word_of_a_query(ask, parameter):
    """One alone: in company another may be refused before it is looked at."""
    for path in ("/now", "/programs", "/jobs", "/reviews", "/reviews.csv", "/model"):
        for text in NASTY:
            ask(f"{path}?{asked([(parameter, text)])}")


@pytest.mark.parametrize("form", ["", ".json", ".csv"])
@pytest.mark.parametrize("number", ["99999", "9223372036854775808", "9" * 40, "9" * 5000])
def test_a_number_of_nothing_is_not_found_however_large(ask, number, form):
    for path in (
        *("/programs/{}", "/programs/{}/1", "/programs/1/{}", "/model/{}"),
        *("/model/{}/difference", "/model/reports/{}", "/jobs/{}", "/jobs/4711_{}"),
        "/jobs/{}+1",
    ):
        assert ask(path.format(number) + form).status_code == 404, path


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_a_zero_byte_is_refused(ask, parameter):
    assert ask(f"/jobs?{parameter}=a%00").status_code == 400
    assert ask(f"/now?a%00={parameter}").status_code == 400
    assert ask(f"/jobs/{parameter}%00").status_code == 400
    assert ask(f"/jobs?find=%5Cx00&{parameter}=").status_code in {200, 302}


@pytest.mark.parametrize("field", FIELDS)
def test_nothing_is_too_much_in_a_form(ask, field):
    word = re.search(r'name="form_token" value="(\w+)"', ask("/jobs/601").text)[1]
    for text in NASTY:
        for do in ("reject", "treat", "never_delay", "undo"):
            form = {"form_token": word, "do": do, "job": "601", field: text}
            body = {"data": asked(form.items()), "content_type": TYPE}
            ask("/reviews", method="POST", **body)
        ask("/model/9", method="POST", **body)
        ask("/login", method="POST", **body)
        if field == "job":
            ask("/reviews", method="POST", data=asked([("form_token", text)]), content_type=TYPE)


TYPE = "application/x-www-form-urlencoded"


@pytest.mark.parametrize("name", ["Authorization", "X-Remote-User", "Cookie", "Host", "Accept"])
def test_nothing_is_too_much_in_a_header(app, name):
    client = app.test_client()
    for text in NASTY:
        sent = text.encode(errors="surrogatepass").decode("latin-1").replace("\r\n", "")
        for value in (sent, f"Bearer {sent}", f"sluice={sent}"):
            answer = client.get("/now.json", headers={name: value})
            assert answer.status_code < 500, (name, value[:99], answer.text[:500])
