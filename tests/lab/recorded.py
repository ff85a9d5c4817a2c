"""What was measured on throttled targets and is kept in tests/data/throttled."""

import json
from pathlib import Path
from typing import Any

from sluice.history_db.records import CoRun

CALIBRATIONS = (
    *("calibration", "calibration-again", "calibration-third", "calibration-fourth"),
    *("calibration-fifth", "calibration-sixth"),
)
SESSIONS = (
    *("pairs-first", "pairs", "pairs-third", "pairs-fourth", "pairs-fifth", "pairs-sixth"),
    *("pairs-seventh", "pairs-eighth", "pairs-ninth"),
)
"""Pairs of programs that these calibrations did not measure."""

DATA = Path(__file__).parents[1] / "data" / "throttled"


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text().splitlines()]


def coruns(calibration: str) -> list[CoRun]:
    fixed = {"started": 0, "mode": "rates"}
    return [
        CoRun(**{k: tuple(v) if isinstance(v, list) else v for k, v in (fixed | row).items()})
        for row in rows(calibration)
    ]
