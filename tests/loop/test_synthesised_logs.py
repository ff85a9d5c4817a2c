"""Logs of the loop that are made of what strace saw."""

import pytest
from log_rows import rows_of
from synthesised_logs import log_of

CALLS = """\
{pid} 1700000000.000000 openat(AT_FDCWD</lane>, "out", O_CREAT) = 3</lane/out> <0.000021>
{pid} 1700000000.100000 write(3</lane/out>, ""..., 4096 <unfinished ...>
{pid} 1700000000.200000 <... write resumed>) = 4096 <0.100000>
"""


@pytest.mark.parametrize("pid", ["12345", "923  ", "7    "], ids=["five digits", "three", "one"])
def test_a_process_has_a_log_however_small_its_number_is(tmp_path, pid):
    """Strace fills numbers of fewer than five digits with spaces."""
    calls = tmp_path / "10.923.calls"
    calls.write_text(CALLS.format(pid=pid))
    calls.with_suffix(".cmd").write_text("/bin/program")
    log = log_of(calls, tmp_path, uid=1000, jobid=10)
    assert log is not None
    assert rows_of(log)["posix_bytes_written"].sum() == 4096
