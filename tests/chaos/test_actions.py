"""What the driver expects of a job after it asked for tokens that users may not have."""

from random import Random
from subprocess import CompletedProcess

import pytest
from actions import Actions
from workload import Job


class Obedient:
    """A controller that changes what it is told to."""

    def as_user(self, _uid: int, *words: str) -> CompletedProcess[str]:
        return CompletedProcess(words, 0)


@pytest.mark.parametrize(
    ("uid", "licenses", "left"),
    [(0, "", "all_flush:500000"), (0, "tool:9", "all_flush:500000"), (5, "tool:9", "tool:9")],
)
def test_a_token_is_roots_for_the_asking_and_takes_the_place_of_licences(
    uid: int, licenses: str, left: str
) -> None:
    job = Job(7, uid, {"Licenses": licenses})
    Actions(Obedient(), None, Random(1)).user_asks_for_tokens(job)  # type: ignore[arg-type]
    assert job.changes
    assert job.differences({"Licenses": left}) == []
