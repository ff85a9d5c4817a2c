"""Tables: plain in a pipe, one line a row on a terminal of any width, and as Slurm's users ask."""

import json
import os
import pty
import re
import subprocess
import sys
import time
from importlib.metadata import version

import click
import pytest
from click.testing import CliRunner

from sluice.cli.common import Layout, aligned, column_key, fitting, show_json, show_table
from sluice.cli.listing import Since, States
from sluice.cli.main import main

COLUMNS = ("Job", "Name", "Chunk", "Reason")
ROWS = [(4711, "a very long name of a job", "4 KiB", "it waits because " + "of others " * 9)]


def printed(capsys, layout: Layout | None = None) -> list[str]:
    show_table(COLUMNS, ROWS, least=("Chunk",), layout=layout)
    return capsys.readouterr().out.splitlines()


def on_terminal(columns: int) -> list[str]:
    """The lines that a terminal so wide shows."""
    code = (
        f"from sluice.cli.common import show_table; "
        f"show_table({COLUMNS!r}, {ROWS!r}, least=('Chunk',))"
    )
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    child = subprocess.Popen([sys.executable, "-c", code], stdout=theirs, env=environment)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # Linux says so that the other end is closed
        pass
    child.wait()
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    return [line.rstrip() for line in text.splitlines()]


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 200])
def test_a_row_is_one_line_that_fits_however_narrow_the_terminal_is(columns):
    lines = on_terminal(columns)
    (row,) = (line for line in lines if "4711" in line)
    assert all(len(line) <= columns for line in lines)
    assert ("4 KiB" in row) == (columns == 200)
    assert ("…" in row) == (20 < columns < 200)
    assert ("not shown for want of room:" in " ".join(lines)) == (columns < 200)


def test_columns_leave_by_priority_then_texts_are_cut_then_columns_leave_from_the_right():
    widths, is_number = [6, 30, 7, 60], [True, False, True, False]
    assert fitting(widths, is_number, [2], 200) == {0: 6, 1: 30, 2: 7, 3: 60}
    assert fitting(widths, is_number, [2], 107) == {0: 6, 1: 30, 3: 60}
    assert fitting(widths, is_number, [2], 80) == {0: 6, 1: 30, 3: 34}
    assert fitting(widths, is_number, [2], 40) == {0: 6, 1: 12, 3: 12}
    assert fitting(widths, is_number, [2], 30) == {0: 6, 1: 12}
    assert fitting(widths, is_number, [], 8) == {0: 4}


def test_parsable2_separates_by_bars_and_ends_without_one(capsys):
    heading, row = printed(capsys, Layout(parsable=True))
    assert heading == "Job|Name|Chunk|Reason"
    assert row.startswith("4711|a very long name of a job|4 KiB|it waits")
    assert printed(capsys, Layout(parsable=True, noheader=True)) == [row]


def test_a_bar_in_a_text_separates_nothing(capsys):
    show_table(("Name",), [("a|b",)], layout=Layout(noheader=True, parsable=True))
    assert capsys.readouterr().out == "a\N{REPLACEMENT CHARACTER}b\n"


def test_noheader_leaves_the_rows_and_nothing_of_no_rows(capsys):
    assert printed(capsys, Layout(noheader=True))[0].startswith("4711  a very")
    show_table(COLUMNS, [], layout=Layout(noheader=True))
    assert capsys.readouterr().out == ""


def test_format_chooses_columns_their_order_and_their_width(capsys):
    layout = Layout(columns=("CHUNK", "name%6", "job"), parsable=True)
    assert printed(capsys, layout) == ["Chunk|Name|Job", "4 KiB|a very|4711"]


@pytest.mark.parametrize("wrong", ["jobs", "name%x", ""])
def test_format_refuses_a_column_that_is_not_there_and_names_those_that_are(wrong):
    with pytest.raises(click.UsageError, match="there are job, name, chunk, reason"):
        show_table(COLUMNS, ROWS, layout=Layout(columns=(wrong,)))


def test_a_column_is_known_by_its_heading_in_any_case_without_blanks():
    assert column_key("Longest wait") == "longestwait"
    assert column_key("I/O") == "i/o"


def test_a_document_says_by_which_sluice_it_was_written(capsys):
    show_json({"jobs": 3})
    shown = json.loads(capsys.readouterr().out)
    assert list(shown) == ["version", "jobs"]
    assert shown["version"] == version("sluice")


def test_a_table_in_a_pipe_is_aligned_plain_text():
    lines = aligned(
        ("Name", "Size", "Share"), [("a", "4 KiB", "12%"), ("long name", "16 MiB", "–")]
    )
    assert lines == [
        "Name         Size  Share",
        "a           4 KiB    12%",
        "long name  16 MiB      –",
    ]


def test_a_table_of_no_rows_is_its_heading():
    assert aligned(("A", "B"), []) == ["A  B"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("36h", 36 * 3600),
        ("now", 0),
        ("now-90", 90),
        ("now-2hours", 7200),
        ("now-7days", 7 * 86400),
        ("now-1week", 7 * 86400),
    ],
)
def test_a_span_of_time_is_written_as_slurms_commands_take_it(text: str, seconds: int) -> None:
    earliest = int(time.time())
    found = Since().convert(text, None, None)
    assert earliest - seconds <= found <= int(time.time()) - seconds


def test_today_begins_at_midnight_here() -> None:
    found = time.localtime(Since().convert("today", None, None))
    assert (found.tm_hour, found.tm_min, found.tm_sec) == (0, 0, 0)


@pytest.mark.parametrize(
    ("text", "hour"),
    [("midnight", 0), ("yesterday", 0), ("noon", 12), ("fika", 15), ("teatime", 16)],
)
def test_slurms_words_for_a_time_are_the_latest_such_time_here(text: str, hour: int) -> None:
    before = time.time()
    found = Since().convert(text, None, None)
    shown = time.localtime(found)
    assert (shown.tm_hour, shown.tm_min, shown.tm_sec) == (hour, 0, 0)
    assert found <= time.time()
    assert before - found < (3 if text == "yesterday" else 2) * 86400
    if text == "yesterday":
        assert found < Since().convert("today", None, None)


@pytest.mark.parametrize(
    "text", ["7 days ago", "tomorrow", "now-", "now-5parsecs", "now-day", "2026-13-45", ""]
)
def test_what_is_no_span_of_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="36h"):
        Since().convert(text, None, None)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("RUNNIN", "Did you mean RUNNING?"),
        ("running,cancled", "Did you mean CANCELLED?"),
        ("gone", "COMPLETED"),
    ],
)
def test_a_state_that_no_job_has_is_refused_with_what_may_be_meant(words: str, says: str) -> None:
    result = CliRunner().invoke(main, ["decisions", "--state", words])
    assert result.exit_code == 2
    assert says in result.stderr


def test_states_are_taken_in_any_case() -> None:
    assert States().convert("running, Out_Of_Memory", None, None) == ("RUNNING", "OUT_OF_MEMORY")
