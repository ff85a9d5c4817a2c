"""A drainer of a directory that a test writes to."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from drainer import Drainer, drainer


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Drainer]:
    with drainer(tmp_path) as made:
        yield made
