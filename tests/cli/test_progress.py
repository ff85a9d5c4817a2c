"""Commands that take long say on a terminal how far they are, and nowhere else."""

import os
import pty
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from made_history import made_history
from sluiced import BIN

from sluice.history_db.store import Store

LONG = {
    "backtest": (["model", "score", "--backtest"], "jobs"),
    "train": (["model", "train"], "learning"),
    "score": (["model", "score"], "scoring"),
    "assess": (["site", "assess", "--no-levers"], "reading the history"),
    "interference": (["site", "interference"], "reading the history"),
    "top": (["history", "top", "harmful"], "reading the history"),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    with Store(folder / "history.db", create=True) as store:
        made = list(made_history(60, seed=3))
        store.jobs.upsert_jobs(run.job for run in made if run.job)
        store.runs.add_logs([(run.log, run.profile, b"") for run in made])
        store.jobs.link_logs()
    (folder / "sluice.conf").write_text(
        f"History={folder}/history.db\nBundle={folder}/model.bundle\n"
    )
    ask(folder, ["model", "train", "--publish"])
    return folder


def ask(folder, words, errors=None) -> str:
    """Return what a command prints; its errors go elsewhere."""
    done = subprocess.run(
        [BIN / "sluice", *words, "--config", folder / "sluice.conf"],
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
        timeout=300,
        check=True,
    )
    return done.stdout.decode()


def on_terminal(folder, words) -> tuple[str, str]:
    """Return what a command prints, and what a terminal shows of its errors."""
    ours, theirs = pty.openpty()
    with ThreadPoolExecutor(1) as reader:
        shown = reader.submit(everything, ours)
        try:
            printed = ask(folder, words, theirs)
        finally:
            os.close(theirs)
        return printed, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.result().decode())


def everything(terminal: int) -> bytes:
    shown = b""
    with suppress(OSError):  # Linux says so that the other end is closed
        while part := os.read(terminal, 1 << 16):
            shown += part
    os.close(terminal)
    return shown


@pytest.mark.parametrize("name", LONG)
def test_what_takes_long_says_so_on_a_terminal_alone(site, tmp_path, name):
    words, unit = LONG[name]
    printed, shown = on_terminal(site, words)
    assert unit in shown
    assert "\x1b[" not in printed
    with (tmp_path / "errors").open("w+b") as errors:
        ask(site, words, errors)
        errors.seek(0)
        assert unit not in errors.read().decode()
