"""The probe, as it is installed."""

from pathlib import Path

import probe_program
import pytest


@pytest.fixture(scope="session")
def program() -> Path:
    return probe_program.build()
