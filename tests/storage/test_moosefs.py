"""A real parallel file system, on which it can be proven where a file lies."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from moosefs import MooseFS, MooseFSError
from other_owner import kill, other_owner
from storage_lab import Remains, report, start
from target_kinds import MIB

pytestmark = [
    pytest.mark.storage,
    pytest.mark.skipif(bool(MooseFS.missing()), reason=MooseFS.missing() or "available"),
]


@pytest.fixture(scope="module")
def moosefs() -> Iterator[MooseFS]:
    with tempfile.TemporaryDirectory(prefix="sluice-storage-") as name:
        Path(name).chmod(0o755)
        with MooseFS(name, clients=2) as moosefs:
            remains = Remains(moosefs.place)
            remains.note(moosefs.targets)
            yield moosefs
        assert remains.found() == []


def write(path: Path) -> Path:
    with path.open("wb") as file:
        file.write(bytes(3 * MIB))
        os.fsync(file.fileno())
    return path


@pytest.mark.parametrize("lane", ["sl0", "sl1"])
@pytest.mark.parametrize("client", [0, 1])
def test_a_file_lies_on_the_lane_of_its_directory(moosefs: MooseFS, lane: str, client: int) -> None:
    path = write(moosefs.path(lane, client=client) / f"file{client}")
    assert moosefs.file_targets(path) == {lane}


def test_a_directory_of_an_ordinary_user_inherits_the_lane(moosefs: MooseFS) -> None:
    directory = moosefs.path("sl1") / "job"
    file = directory / "file"
    # dd says so when what it wrote is lost at the flush; a shell's redirection does not.
    write_it = f"echo data | dd of='{file}' conv=fsync status=none"
    script = f"umask 022; mkdir '{directory}' && {write_it}"
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    subprocess.run([*user, "sh", "-c", script], check=True)
    assert file.stat().st_uid == 65534
    deadline = time.monotonic() + 120
    while not moosefs.file_targets(file) and time.monotonic() < deadline:
        time.sleep(0.1)  # the client writes small files behind
    assert moosefs.file_targets(file) == {"sl1"}


def test_an_empty_file_lies_nowhere(moosefs: MooseFS) -> None:
    path = moosefs.path("sl0") / "empty"
    path.touch()
    assert moosefs.file_targets(path) == frozenset()


def test_a_file_that_is_not_there_is_an_error(moosefs: MooseFS) -> None:
    with pytest.raises(MooseFSError, match="missing"):
        moosefs.file_targets(moosefs.path("sl0") / "missing")


def test_data_reaches_the_lane_at_its_rate_and_no_other_lane(
    moosefs: MooseFS, writer: Path
) -> None:
    targets = moosefs.targets
    before = {lane: targets.bytes_written(lane) for lane in moosefs.lanes}
    words = ("--pattern", "aw", "--volume", "64M", "--flush", "--remove")
    answer = report(start([writer, *words, moosefs.path("sl0")]))
    reached = {lane: targets.bytes_written(lane) - before[lane] for lane in moosefs.lanes}
    assert reached["sl0"] >= answer["bytes"]
    assert reached["sl1"] < 0.1 * reached["sl0"]
    assert 0.3 < reached["sl0"] / answer["io_seconds"] / targets.limits.bandwidth < 1.4


def test_its_address_exists_in_its_own_network_only(moosefs: MooseFS) -> None:
    outside = subprocess.run(["ip", "address"], check=True, capture_output=True, text=True).stdout
    assert "10.231.77.1" in moosefs.run("ip", "address")
    assert "10.231.77.1" not in outside


def test_a_second_one_at_the_same_place_is_refused_and_harms_nothing(moosefs: MooseFS) -> None:
    with pytest.raises(MooseFSError, match="in use"):
        MooseFS(moosefs.place.parent).up()
    assert moosefs.file_targets(write(moosefs.path("sl0") / "after")) == {"sl0"}


def test_it_goes_with_its_killed_owner_and_the_place_can_be_used_again(place: Path) -> None:
    owner = other_owner(
        "import sys; from moosefs import MooseFS; MooseFS(sys.argv[1], lanes=['a']).up()", place
    )
    remains = Remains(place / "moosefs")
    assert remains.found() != []
    kill(owner)
    assert remains.left() == []
    with MooseFS(place, lanes=["a"]) as moosefs:
        assert moosefs.file_targets(write(moosefs.path("a") / "file")) == {"a"}
