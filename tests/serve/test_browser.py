"""The pages in a real browser: what a person does, with and without a mouse, and what leaves it.

The short form goes once through what an administrator does; the acceptance tests look at every
page, light, dark and on a phone.
"""

import re
import threading
from contextlib import closing

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright
from served_site import TOKEN, ServedSite

from sluice.history_db.store import Store
from sluice.serve.server import bind, serve

CHROMIUM = "/usr/bin/chromium"
PAGES = (
    "now",
    "programs",
    "programs/2",
    "programs/1/2",
    "jobs",
    "jobs/601",
    "jobs/99999",
    "model",
    "model/1",
    "model/2",
    "model/2/difference",
    "reviews",
    "model/reports/1",
)
LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 860}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 860}},
    "tablet": {"color_scheme": "dark", "viewport": {"width": 768, "height": 1024}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with closing(ServedSite(tmp_path_factory.mktemp("served"))) as site:
        site.make_busy()
        yield site


@pytest.fixture(scope="module")
def address(site):
    """Serve a busy site on loopback."""
    listener = bind("127.0.0.1:0")
    threading.Thread(target=serve, args=[site.app(), listener], daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
        )
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, address):
    """Return a tab that has logged in; afterwards, nothing it asked for was elsewhere."""
    tabs, asked, said = [], [], []

    def open_tab(look: str = "light", **options):
        context = browser.new_context(**LOOKS[look], **options)
        tabs.append(context)
        tab = context.new_page()
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: said.append((message.type, message.text)))
        tab.on("pageerror", lambda error: said.append(("error", str(error))))
        tab.goto(f"{address}/")
        tab.fill("#token", TOKEN)
        tab.click("text=Log in >> nth=-1")
        expect(tab.locator("h1")).to_have_text("Now")
        return tab

    yield open_tab
    for context in tabs:
        context.close()
    assert asked
    assert [url for url in asked if not url.startswith(address)] == []
    wrong = [text for kind, text in said if kind in {"error", "warning"}]
    expected = "status of 404"  # the page of a job that nobody knows
    assert [text for text in wrong if expected not in text] == []


def serious(tab) -> list[str]:
    """Return what keeps somebody from using the page, by axe-core."""
    found = Axe().run(tab).response["violations"]
    return [
        f"{one['id']}: {one['help']} {[node['html'] for node in one['nodes']][:3]}"
        for one in found
        if one["impact"] in {"serious", "critical"}
    ]


def reviews(tab):
    """Return the rows of the table of reviews, which the audit follows."""
    return tab.locator("section", has=tab.locator("#title-reviews")).locator("tbody tr")


def test_an_administrator_finds_why_a_job_waits(visit):
    tab = visit()
    row = tab.locator("#live section", has_text="Held for I/O").locator("tr")
    expect(row.filter(has_text="701")).to_contain_text("19 min 50 s")
    row.filter(has_text="601").get_by_role("link", name="601").click()
    expect(tab.locator("h1")).to_have_text("Job 601")
    expect(tab.locator("main")).to_contain_text("Running jobs with I/O at the time")
    expect(tab.locator("main")).to_contain_text("What could be done, in lost node-seconds")
    assert serious(tab) == []
    tab.get_by_role("link", name="Jobs", exact=True).click()
    tab.get_by_label("Find", exact=True).fill("script")
    tab.keyboard.press("Enter")
    expect(tab.locator("tbody tr")).to_have_count(2)
    assert "find=script" in tab.url
    expect(tab.locator("tbody tr").first).to_contain_text("<script>alert(1)")
    assert serious(tab) == []


def test_an_administrator_rejects_a_prediction_and_undoes_it(visit, site, address):
    tab = visit()

    def decided(job: int) -> str:
        """Let the next bundle come, and the next job; return what its page says."""
        with Store(site.history) as store:
            site.publish(store)
        site.decide(job, *site.running)
        tab.goto(f"{address}/jobs/{job}")
        return tab.locator("main").inner_text()

    before = decided(801)
    assert "colocate" in before
    tab.get_by_label("comment").fill("it read the wrong log")
    tab.get_by_role("button", name="Wrong").click()
    expect(tab.locator("h1")).to_have_text("Reviews")
    expect(reviews(tab)).to_contain_text("stands")
    assert serious(tab) == []
    after = decided(802)
    assert "colocate" not in after
    assert "it read the wrong log" in after
    tab.get_by_role("link", name="Reviews", exact=True).first.click()
    tab.get_by_role("button", name="Undo").click()
    expect(reviews(tab)).to_contain_text("undone")
    assert "colocate" in decided(803)


def test_an_administrator_keeps_two_programs_apart_by_the_keyboard(visit, address):
    tab = visit("phone")
    tab.goto(f"{address}/programs/1/2")
    tab.get_by_role("button", name="Keep apart").focus()
    tab.keyboard.press("Enter")
    expect(tab.locator("h1")).to_have_text("Reviews")
    row = tab.locator("tbody tr").first
    expect(row).to_contain_text("stands")
    expect(row).to_contain_text("<script>alert(#)")
    row.get_by_role("button", name="Undo").focus()
    tab.keyboard.press("Enter")
    expect(tab.locator("tbody tr").first).to_contain_text("undone")


@pytest.mark.acceptance
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("path", PAGES)
def test_no_page_has_a_serious_fault_for_screen_readers_and_keyboards(visit, address, path, look):
    tab = visit(look)
    tab.goto(f"{address}/{path}")
    assert serious(tab) == []
    width = tab.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert width <= 0, "the page itself does not scroll sideways; its tables do"


@pytest.mark.acceptance
def test_a_table_is_sorted_by_the_keyboard_and_keeps_the_focus(visit):
    tab = visit()
    tab.locator("#sort-waiting-6").focus()
    tab.keyboard.press("Enter")
    heading = tab.locator("th", has=tab.locator("#sort-waiting-6"))
    expect(heading).to_have_attribute("aria-sort", "descending")
    expect(tab.locator("#sort-waiting-6")).to_be_focused()
    waiting = tab.locator("section", has_text="Held for I/O").locator("tbody tr")
    expect(waiting.first).to_contain_text("701")


@pytest.mark.acceptance
@pytest.mark.parametrize(("path", "table"), [("programs", "matrix"), ("jobs/601", "timeline")])
def test_a_table_is_one_key_away_from_its_drawing(visit, address, path, table):
    tab = visit("phone")
    tab.goto(f"{address}/{path}")
    shown = tab.locator("section", has=tab.locator(f"#title-{table}"))
    expect(shown.get_by_role("img")).to_be_visible()
    expect(shown.locator("table")).to_be_hidden()
    shown.locator("summary").focus()
    tab.keyboard.press("Enter")
    expect(shown.locator("table")).to_be_visible()
    assert serious(tab) == []


@pytest.mark.acceptance
def test_everything_works_without_javascript(visit):
    tab = visit(java_script_enabled=False)
    tab.locator("#sort-waiting-6").click()
    waiting = tab.locator("section", has_text="Held for I/O").locator("tbody tr")
    expect(waiting.first).to_contain_text("701")
    tab.get_by_role("link", name="Programs", exact=True).click()
    tab.get_by_label("Pattern", exact=True).select_option("aw")
    tab.get_by_role("button", name="Show").click()
    programs = tab.locator("section", has=tab.locator("#title-programs"))
    expect(programs.locator("tbody tr")).to_have_count(1)


@pytest.mark.acceptance
def test_now_renews_itself_until_it_is_paused(visit):
    tab = visit()
    with tab.expect_response(re.compile("/now"), timeout=15_000):
        pass
    tab.get_by_role("button", name="Pause").click()
    expect(tab.get_by_role("button", name="Go on")).to_be_visible()


@pytest.mark.acceptance
def test_the_skip_link_leads_past_the_navigation(visit):
    tab = visit()
    tab.keyboard.press("Tab")
    expect(tab.locator(".skip")).to_be_focused()
    tab.keyboard.press("Enter")
    expect(tab.locator("#main")).to_be_focused()


@pytest.mark.acceptance
def test_a_table_is_downloaded(visit):
    tab = visit()
    with tab.expect_download() as download:
        tab.get_by_role("link", name="Held for I/O as CSV").click()
    assert download.value.suggested_filename == "waiting.csv"
