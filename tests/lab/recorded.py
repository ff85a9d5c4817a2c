"""What was measured on throttled targets and is kept in tests/data/throttled."""

import json
from pathlib import Path
from typing import Any

from sluice.history_db.records import CoRun

DATA = Path(__file__).parents[1] / "data" / "throttled"


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text().splitlines()]


def coruns(calibration: str) -> list[CoRun]:
    fixed = {"started": 0, "mode": "rates"}
    return [
        CoRun(**{k: tuple(v) if isinstance(v, list) else v for k, v in (fixed | row).items()})
        for row in rows(calibration)
    ]
