"""A page as the agent would hand it to a job, and a program that writes in every way."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import turns_page
from compile_c import compiled

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def shim() -> Path:
    return turns_page.build()


@pytest.fixture(scope="session")
def kinds() -> Path:
    return compiled(HERE / "kinds.c", "-pthread")


@pytest.fixture
def page(shim: Path, tmp_path: Path) -> Iterator[turns_page.TurnsPage]:
    """Files below tmp_path count."""
    assert shim.exists()
    page = turns_page.TurnsPage(tmp_path)
    yield page
    page.close()
