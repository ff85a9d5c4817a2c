"""For all tests here."""

import pytest
from acceptance import PARTS, part_of
from hypothesis import settings

# A busy machine must not fail a test: no test asserts a time.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", choices=PARTS, help="only this part of `make acceptance`")


LONG = ("tests/chaos/", "tests/slurm/", "tests/spank/", "tests/harness/")
"""Files of these run for minutes; begun last, they would keep one core busy after all others."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
    if part := config.getoption("--part"):
        others = [item for item in items if part_of(item.nodeid) != part]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]
