"""A coordinator with a real munged, and agents of nodes."""

from collections.abc import Iterator

import pytest
import turns_daemons
from turns_daemons import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with turns_daemons.cluster() as found:
        yield found
