"""A site's first days: whatever its history holds, it gives a model or a sentence with a remedy."""

import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.cli.main import main
from sluice.history_db.records import NUMBERS, Job, Log, Profile
from sluice.history_db.store import Store
from sluice.policies import core

NOW = 1_750_000_000
DAY = 86400
LOGS = Path(__file__).parents[1] / "data" / "darshan"
PATTERNS = ("owc", "ws", "aw", "read", "metadata", "none", "mixed", "unknown")
SHARES = {field.name for field in core.PROFILE_FIELDS if field.unit.startswith("0")}
PROGRAMS = ("cavity", "relax", "mesh", "post", "x")
COMMANDS = (
    ("model", "train", "--publish"),
    ("model", "train"),  # once more: now a model is in use
    ("site", "assess"),
    ("model", "score", "--backtest"),
    ("model", "score", "--backtest"),
    ("site", "interference"),
    ("site", "interference", "app:cavity", "app:relax"),
    ("predict", "--job-name", "cavity", "--user", "1000"),
    ("model", "publish"),
    ("model", "publish", "--rollback"),
    ("model", "list"),
    ("history",),
    ("history", "top", "harmful"),
    ("history", "top", "harmed"),
)


class Ran(NamedTuple):
    """One job of the history, as far as anybody knows of it."""

    program: int
    uid: int
    day: float  # before now
    seconds: int
    pattern: str | None  # None: it left no log
    numbers: frozenset[str]  # that the profile knows
    value: float  # of each of them
    is_accounted: bool
    has_ended: bool
    bytes: int | None  # as accounting knows them


def accounted(number: int, ran: Ran) -> Job:
    start = int(NOW - ran.day * DAY)
    end = start + ran.seconds if ran.has_ended else None
    state = "COMPLETED" if ran.has_ended else "RUNNING"
    return Job(
        "c", number, start - 5, 0, PROGRAMS[ran.program], f"u{ran.uid}", ran.uid, "phys", "main",
        None, 1, None, 4, None, start, end, state, None, None, None, "sacct",
        write_bytes=ran.bytes,
    )  # fmt: skip


def logged(number: int, ran: Ran) -> tuple[Log, Profile, bytes]:
    start = int(NOW - ran.day * DAY)
    shares = {} if ran.pattern == "unknown" else {ran.pattern: 1.0}
    numbers = {
        name: min(1.0, ran.value) if name in SHARES else ran.value for name in sorted(ran.numbers)
    }
    confidence = 0.3 if ran.pattern == "unknown" else 0.9
    log = Log(
        number.to_bytes(16, "big"), f"/l/{number}", 1, number, None, number, ran.uid,
        PROGRAMS[ran.program], start, start + ran.seconds, 1, partial=False, format="3.41",
    )  # fmt: skip
    return log, Profile(ran.pattern, confidence, shares, numbers, 0.5), b""


def keep(history: Path, runs: list[Ran], *, first: int = 1) -> None:
    """Add runs, numbered from first on."""
    with Store(history, create=True) as store:
        numbered = list(enumerate(runs, first))
        store.jobs.upsert_jobs([accounted(i, ran) for i, ran in numbered if ran.is_accounted])
        store.runs.add_logs([logged(i, ran) for i, ran in numbered if ran.pattern])
        store.jobs.link_logs()
        store.jobs.update_coverage()


def answers(directory: Path, *commands: tuple[str, ...]) -> dict[tuple[str, ...], tuple[int, str]]:
    """What commands say of the history there; the bundle is written alongside it."""
    config = directory / "sluice.conf"
    config.write_text(
        f"History={directory}/history.db\nBundle={directory}/model.bundle\n"
        "Lane=sl0 Targets=1 Bandwidth=100M\n"
    )
    said = {}
    for words in commands:
        done = CliRunner().invoke(main, [*words, "--config", str(config)], catch_exceptions=True)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        said[words] = done.exit_code, done.output
    return said


ran = st.builds(
    Ran,
    program=st.integers(0, len(PROGRAMS) - 1),
    uid=st.sampled_from((1000, 1001)),
    day=st.floats(0, 400),
    seconds=st.sampled_from((0, 1, 30, 3600)),
    pattern=st.sampled_from((None, *PATTERNS)),
    numbers=st.frozensets(st.sampled_from(NUMBERS)),
    value=st.sampled_from((0.0, 0.5, 1e6, 1e10)),
    is_accounted=st.booleans(),
    has_ended=st.booleans(),
    bytes=st.sampled_from((None, 0, 1 << 34)),
)
USUAL = Ran(
    program=0,
    uid=1000,
    day=5.0,
    seconds=600,
    pattern="owc",
    numbers=frozenset({"write_bytes"}),
    value=1e9,
    is_accounted=True,
    has_ended=True,
    bytes=None,
)


def histories() -> st.SearchStrategy[list[Ran]]:
    """Histories of few runs, and of enough for the forests; of any age, or of one day only."""
    few = st.lists(ran, max_size=6)
    more = st.tuples(st.lists(ran, min_size=1, max_size=6), st.integers(2, 12)).map(
        lambda drawn: [one for one in drawn[0] for _ in range(drawn[1])]
    )
    of_today = st.floats(0, 1).flatmap(
        lambda day: more.map(lambda runs: [one._replace(day=day) for one in runs])
    )
    return few | more | of_today


def check(runs: list[Ran], *later: list[Ran]) -> None:
    """Ask everything of the runs, and again whenever more have come."""
    with tempfile.TemporaryDirectory() as directory:
        history = Path(directory) / "history.db"
        first = 1
        for some in (runs, *later):
            keep(history, some, first=first)
            first += len(some)
            for words, (code, output) in answers(Path(directory), *COMMANDS).items():
                is_told = output.startswith("sluice: ") and "`" in output  # names a command
                assert code == 0 or (code == 1 and is_told), (words, code, output)


YOUNG = {
    "nothing": [],
    "one log": [USUAL._replace(is_accounted=False)],
    "one log, with its accounting": [USUAL],
    "a job that still runs": [USUAL._replace(has_ended=False)],
    "accounting alone": [
        USUAL._replace(pattern=None, bytes=1 << 34, day=i / 10, program=i % 4) for i in range(30)
    ],
    "accounting without bytes": [USUAL._replace(pattern=None, day=float(i)) for i in range(30)],
    "logs of yesterday only": [
        USUAL._replace(day=1 + i / 100, program=i % 4, pattern=PATTERNS[i % 2]) for i in range(30)
    ],
    "one program": [USUAL._replace(day=1.0 + i) for i in range(30)],
    "no pattern known": [
        USUAL._replace(day=1.0 + i, program=i % 4, pattern="unknown") for i in range(30)
    ],
    "one pattern known, of one program": [
        USUAL._replace(day=1.0 + i, program=i % 4, pattern="unknown" if i % 4 else "owc")
        for i in range(30)
    ],
    "no number known": [
        USUAL._replace(day=1.0 + i, program=i % 4, numbers=frozenset()) for i in range(30)
    ],
}
LEARNED = YOUNG.keys() - {"nothing", "a job that still runs", "accounting without bytes"}
MANY = [
    USUAL._replace(day=i / 1000, program=i % 4, pattern=PATTERNS[i % 4]) for i in range(90, 0, -1)
]


@pytest.mark.parametrize("name", YOUNG)
def test_a_young_site_is_answered(name):
    check(YOUNG[name])


@pytest.mark.acceptance
@pytest.mark.parametrize("name", YOUNG)
def test_a_young_site_that_grows_is_answered(name):
    check(YOUNG[name], MANY)


@pytest.mark.parametrize("name", sorted(LEARNED))
def test_a_young_site_gets_a_model_as_soon_as_there_is_anything_to_learn_from(name, tmp_path):
    keep(tmp_path / "history.db", YOUNG[name])
    (code, output), *_ = answers(tmp_path, ("model", "train", "--publish")).values()
    assert code == 0, output
    assert (tmp_path / "model.bundle").exists()


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_any_history_gives_answers_or_a_sentence_with_a_remedy(runs):
    check(runs)


@pytest.mark.acceptance
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(histories(), histories())
def test_many_histories_give_answers_or_a_sentence_with_a_remedy(runs, later):
    check(runs, later)
