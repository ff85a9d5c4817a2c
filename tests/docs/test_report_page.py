"""The example in docs/guide/report.md is what `sluice report` prints of a made-up site."""

from __future__ import annotations

import re
import time
from pathlib import Path

from click.testing import CliRunner
from decided_site import DAY, HOUR, site

from sluice.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "report.md"
DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def example(folder: Path) -> str:
    """What the command prints, with dates of before in the place of today's."""
    history, conf = folder / "history.db", folder / "sluice.conf"
    # at one hour whenever this runs: intervals are of days
    site(history, end=int(time.time()) // DAY * DAY - 3 * HOUR, days=28, turns_gain=0.7)
    conf.write_text(f"Mode=observe\nBundle={folder}/none.bundle\n")
    words = ["report", "--bandwidth", "600M"]
    done = CliRunner().invoke(main, [*words, "--history", str(history), "--config", str(conf)])
    assert done.exit_code == 3, done.output
    since, until = "2026-10-25 08:00:00", "2026-11-24 08:00:00"
    return DATE.sub(until, done.output).replace(until, since, 1).strip()


def test_the_example_is_what_the_command_prints(tmp_path):
    shown = re.search(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert shown
    assert shown[1].strip() == example(tmp_path)
