"""Files that are whole whatever the moment of Ctrl-C."""

import signal
import sys

import pytest

from sluice.policies.container import write_atomically

OLD, NEW = b"old\n", b"new\n"


def write_with_ctrl_c_at(event: int, path) -> bool:
    """Press Ctrl-C at this event of Python's profiler; return whether it came and was heard."""
    seen = 0

    def press(*_):
        nonlocal seen
        seen += 1
        if seen == event:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    try:
        sys.setprofile(press)
        write_atomically(path, NEW)
        sys.setprofile(None)
    except KeyboardInterrupt:
        return True
    return False


@pytest.fixture(autouse=True)
def interruptible():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_at_any_moment_leaves_a_whole_file_and_is_heard(tmp_path):
    path = tmp_path / "file"
    states = []
    while True:
        path.write_bytes(OLD)
        if not write_with_ctrl_c_at(len(states) + 1, path):
            break
        assert [one.name for one in tmp_path.iterdir()] == ["file"]
        states.append(path.read_bytes())
        assert states[-1] in (OLD, NEW)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert path.read_bytes() == NEW
    assert states.count(NEW) > len(states) // 2
    assert states == sorted(states, reverse=True)  # OLD is left only before the writing began


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_tells(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        write_atomically(tmp_path / "nowhere" / "file", NEW)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
