"""Examples in the guide are what commands print of a made-up site."""

from __future__ import annotations

import re
import time
from pathlib import Path

from click.testing import CliRunner
from decided_site import DAY, HOUR, site

from sluice.cli.main import main

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
LONG_AGO = 1_761_292_800  # 2025-10-24, 8 o'clock: which months it lies in changes what is compared


def printed(folder: Path, *words: str, end: int, status: int = 0) -> str:
    history, conf = folder / "history.db", folder / "sluice.conf"
    site(history, end=end, days=28, turns_gain=0.7)
    conf.write_text(f"Mode=observe\nBundle={folder}/none.bundle\n")
    done = CliRunner().invoke(
        main, [*words, "--bandwidth", "600M", "--history", str(history), "--config", str(conf)]
    )
    assert done.exit_code == status, done.output
    return done.output


def shown(page: str) -> str:
    found = re.search(r"```text\n(.*?)```", (GUIDE / page).read_text(), re.DOTALL)
    assert found
    return found[1].strip()


def test_the_report_is_what_the_command_prints(tmp_path):
    """With dates of before in the place of today's."""
    # at one hour whenever this runs: intervals are of days
    end = int(time.time()) // DAY * DAY - 3 * HOUR
    said = printed(tmp_path, "report", end=end, status=3)
    since, until = "2026-10-25 08:00:00", "2026-11-24 08:00:00"
    assert shown("report.md") == DATE.sub(until, said).replace(until, since, 1).strip()


def test_the_assessment_is_what_the_command_prints(tmp_path):
    said = printed(tmp_path, "site", "assess", "--no-levers", end=LONG_AGO)
    assert shown("assess.md") == said.strip()
