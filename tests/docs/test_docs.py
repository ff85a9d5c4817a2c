"""The documentation cannot promise what is not there."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from sluice.cli.main import main as sluice
from sluice.policies import core
from sluice.policies.control import release_text
from sluice.policies.structs import RELEASES
from sluice.sim.policies.policies import POLICIES

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*/*.md"), *ROOT.glob("tests/*/README.md")])


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def fenced(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)", prose, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page):
    """Link targets in Markdown exist in the repository, and so do the headings behind a #."""
    links = re.findall(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text())
    for target, anchor in links:
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


def test_every_page_of_the_docs_that_a_file_names_exists():
    """Comments, help texts, messages, recipes and manuals: `docs/…` in any file of the tree."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().split("\0")[:-1]:
        if not (ROOT / name).is_file() or name.startswith("tests/data/"):
            continue
        text = (ROOT / name).read_text(errors="ignore")
        named = re.findall(r"(?<![\w/.-])docs/[\w./-]*\.(?:md|py|svg|png|[158])\b", text)
        assert not [path for path in named if not (ROOT / path).exists()], name


def test_every_page_can_be_reached_from_the_readme():
    """By links alone, so that nobody has to list the folder."""
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        targets = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text())
        waiting += [(page.parent / target).resolve() for target in targets]
    assert not [name_of(page) for page in PAGES if page not in reached]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_of_the_repository_that_is_named_exists(page):
    """A path in backticks that begins in one of the repository's folders, and a test's name."""
    text = page.read_text()
    folders = "classifier|docs|history-db|policies|sim|slurm-plugin|tests"
    named = re.findall(rf"`((?:{folders})/[\w./*-]+)`", text)
    assert not [path for path in named if not any(ROOT.glob(path))]
    tests = "".join(path.read_text() for path in ROOT.glob("tests/**/test_*.py"))
    assert not [name for name in re.findall(r"`(test_\w{12,})`", text) if name not in tests]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_make_target_shown_exists(page):
    shown = "\n".join(fenced(page, "console")) + "\n".join(
        re.findall(r"`(make [^`]+)`", page.read_text())
    )
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^(?:sudo )?make ([a-z-]+)", shown, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_sluice_command_shown_exists_with_its_options(page):
    """`sluice VERB --option` in a console block or a table is a real command line."""
    shown = "\n".join(fenced(page, "console")) + "\n".join(
        re.findall(r"`(sluice [^`]+)`", page.read_text())
    )
    for line in re.findall(r"\bsluice ([a-z]+\b[^|\n`]*)", shown):
        command = command_named(line.split("#")[0].split(), page.name)
        options = {name for parameter in command.params for name in parameter.opts}
        used = set(re.findall(r"(?<!\S)--[a-z0-9-]+", line.split("#")[0]))
        assert used <= options, f"{page.name} shows `sluice {line}`"


def command_named(words: list[str], where: str) -> click.Command:
    """Follow the words from group to group as far as they name commands, by their new names."""
    command: click.Command = sluice
    for word in words:
        if not isinstance(command, click.Group):
            break
        context = click.Context(command)
        if word not in command.list_commands(context) and getattr(command, "default", ""):
            word = command.default  # noqa: PLW2901 - what `sluice history` alone stands for
        inner = command.get_command(context, word)
        assert inner, f"{where} names `sluice {' '.join(words)}`, and there is no {word}"
        command = inner
    return command


def test_every_command_that_a_message_or_a_comment_names_exists():
    """In Python, C and units: `sluice VERB …` between backticks, on one line or two."""
    kinds = ("py", "c", "h", "service", "sh")
    roots = ("policies", "history-db", "classifier", "sim", "slurm-plugin")
    paths = [path for root in roots for kind in kinds for path in ROOT.glob(f"{root}/**/*.{kind}")]
    found = 0
    for path in paths:
        text = re.sub(r"(\"\s*f?\"|\s+\*?\s*|\s*\\\\?n)+", " ", path.read_text())
        for words in re.findall(r"`(?:sudo )?sluice ([a-z][^`]*)", text):
            command_named(re.findall(r"^[a-z ]+", words)[0].split(), str(path.relative_to(ROOT)))
            found += 1
    assert found > 50


def test_the_readme_is_short_and_shows_the_figures_of_the_evidence():
    """Its table of what is at stake is that of replays.md, which `make figures` writes."""
    readme = (ROOT / "README.md").read_text()
    assert len(readme.split()) <= 900
    page = (ROOT / "docs/evidence/replays.md").read_text()
    rows = [row.split(" | ") for row in re.findall(r"^\| (.+) \|$", page, flags=re.MULTILINE)]
    made = {(row[0].strip("`"), row[1]): row[2:4] for row in rows if len(row) > 3}
    kinds = {"with checkpoints": "checkpointing", "with short bursts": "short"}
    shown = re.findall(r"^\| (\d+ %), ([a-z ]+) \| (.+?) \| (.+) \|$", readme, flags=re.MULTILINE)
    assert len(shown) == 4
    for share, kind, lost, recovered in shown:
        assert [lost.removesuffix(" of all slot-hours"), recovered] == made[kinds[kind], share]


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs/guide/operating.md"])
def test_every_sluice_conf_shown_is_accepted(page):
    """What we tell administrators to write is what the parser takes."""
    examples = [text for text in fenced(page, "ini") if "Mode=" in text]
    assert examples
    for text in examples:
        core.parse_config(page.name, text.encode())


def test_the_page_on_gates_explains_every_reason_of_a_release():
    page = (ROOT / "docs/reference/gates.md").read_text()
    for release in RELEASES[1:]:
        assert f"| `{release}` | {release_text(release)} |" in page


def test_the_settings_page_explains_every_key():
    """Each key of the parser stands in docs/reference/settings.md with its meaning."""
    page = (ROOT / "docs/reference/settings.md").read_text()
    for key in core.config_keys():
        assert f"`{key.key}`" in page
        assert key.text in page


@pytest.mark.parametrize(
    ("way", "most"),
    [
        ("From a log to a profile", 8),
        ("From a submission to a decision", 6),
        ("From a trace to a table", 6),
    ],
)
def test_a_newcomer_reads_few_files(way, most):
    """More than these, and the way has too many doors."""
    page = (ROOT / "docs/guide/how-it-works.md").read_text()
    section = page.split(f"### {way}\n")[1].split("\n#")[0]
    files = re.findall(r"^\| `([^`]+)` \|", section, flags=re.MULTILINE)
    assert 0 < len(files) <= most
    assert all((ROOT / file).is_file() for file in files)


def test_each_policy_of_a_replay_is_in_the_table():
    page = (ROOT / "docs/reference/replay.md").read_text()
    table = page.split("\nPolicies for a planner:\n")[1]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, flags=re.MULTILINE) == list(POLICIES)


WRITTEN = [page for page in PAGES if page.name not in ("commands.md", "settings.md")]
OTHER_WORDS = (
    r"foret[eo]l\w*|straggl\w*|dossiers?|ladders?|rungs?|whoever|let go|kept back|gives? back"
    r"|encounters?|beside|company|desks?|crowds?|mend(?:ed|s)?|books|he|him|his"
)


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_a_page_uses_the_words_of_the_field(page):
    """Predict, slow, job report, ablation, step, the job, release, delay, recover."""
    prose = re.sub(r"```.*?```|`[^`\n]*`|<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
    assert not re.findall(rf"\b(?:{OTHER_WORDS})\b", prose, flags=re.IGNORECASE)


@pytest.mark.parametrize("root", ["policies", "history-db", "classifier", "sim", "slurm-plugin"])
def test_a_source_uses_them_too(root):
    """But for tables of the history, which keep their names, and names of before."""
    stored = {
        "migrations.py",
        "measured.py",
        "decisions.py",
        "gates.py",
        "interference.py",
        "targets.py",
        "upkeep.py",
        "main.py",
    }
    sources = [path for path in (ROOT / root).rglob("*.*") if path.suffix in {".py", ".c", ".h"}]
    assert sources
    for path in sources:
        said = re.findall(
            rf"(?:\b|_)(?:{OTHER_WORDS})(?:\b|_)", path.read_text(), flags=re.IGNORECASE
        )
        assert not said or path.name in stored, path


MANUAL = sorted((ROOT / "docs/man").glob("sluice*"))


@pytest.mark.parametrize("page", MANUAL, ids=lambda page: page.name)
def test_every_manual_page_is_of_a_program_and_says_what_its_exit_status_means(page):
    text = page.read_text()
    words = page.stem.split("-")
    daemons = {"sluiced.8", "sluice-learn.8", "sluice-turns.8", "sluice-agent.8"}
    if page.name not in {"sluice.conf.5", "sluice-drain.1", "sluice-probe.1"} | daemons:
        assert command_named(words[1:], page.name)
    if page.suffix != ".5":
        assert ".SH EXIT STATUS\n.TP\n.B 0\n" in text
    if "--config" in text.replace("\\", ""):
        assert ".SH FILES\n" in text
        assert ".SH ENVIRONMENT\n.TP\n.B SLUICE_CONF\n" in text


def test_every_command_has_a_manual_page():
    def walk(name: str, command: click.Command) -> list[str]:
        inner = (
            command.list_commands(click.Context(command)) if hasattr(command, "commands") else []
        )
        return [name] + [
            page
            for word in inner
            for page in walk(f"{name}-{word}", command.get_command(click.Context(command), word))
        ]

    names = {page.name for page in MANUAL}
    assert {f"{name}.1" for name in walk("sluice", sluice)} <= names


def test_no_two_test_files_share_a_name():
    """`make acceptance` imports all of them by it."""
    names = [path.name for path in ROOT.glob("tests/*/test_*.py")]
    assert len(names) == len(set(names))


def test_the_site_has_every_page_a_search_and_nothing_from_elsewhere(tmp_path):
    """`make docs` builds it; Sphinx warns of nothing, and no page loads from another host."""
    command = [sys.executable, ROOT / "docs/site.py", tmp_path / "html"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    named = {str(page.relative_to(tmp_path / "html")) for page in (tmp_path / "html").rglob("*")}
    pages = [*ROOT.glob("docs/[egr]*/*.md"), *ROOT.glob("docs/man/*")]
    for page in pages:
        assert re.sub(r"\.md$", "", str(page.relative_to(ROOT / "docs"))) + ".html" in named
    assert "searchindex.js" in named
    loads = (
        r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=[\"'](?:https?:)?//"
        r"|@import|url\([\"']?http"
    )
    assert not [
        name
        for name in named
        if name.endswith((".html", ".css"))
        and re.search(loads, (tmp_path / "html" / name).read_text())
    ]
