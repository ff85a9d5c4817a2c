"""What servers counted over time, as CSV."""

import json

import pytest
from click.testing import CliRunner

from sluice.cli.main import main
from sluice.history_db.records import ServerCount
from sluice.history_db.server_counts import ServerCountsError, parse_server_counts
from sluice.history_db.store import Store

HEADING = "time,target,read_bytes,write_bytes"


def parsed(*rows: str, heading: str = HEADING) -> list[ServerCount]:
    return parse_server_counts([heading, *rows], name="x")


def test_a_count_lasts_until_the_next_of_its_target():
    assert parsed("100,a,1,2", "130,b,0,9", "105,a,3,4", "110,a,5,6", "135,b,8,0") == [
        ServerCount("a", 100.0, 5.0, 1.0, 2.0),
        ServerCount("a", 105.0, 5.0, 3.0, 4.0),
        ServerCount("a", 110.0, 5.0, 5.0, 6.0),  # the last one as long as the others
        ServerCount("b", 130.0, 5.0, 0.0, 9.0),
        ServerCount("b", 135.0, 5.0, 8.0, 0.0),
    ]


def test_a_gap_is_not_filled_with_what_came_before_it():
    (_, before, _, _) = parsed("0,a,1,1", "5,a,1,1", "500,a,1,1", "505,a,1,1")
    assert (before.start, before.seconds) == (5.0, 5.0)


def test_times_may_be_dates_with_a_zone():
    (first, _) = parsed("1970-01-01T01:00:00+01:00,a,1,2", "1970-01-01T00:00:10+00:00,a,1,2")
    assert (first.start, first.seconds) == (0.0, 10.0)


def test_one_row_of_a_target_lasts_for_no_time_that_is_known():
    assert parsed("100,a,1,2") == []


@pytest.mark.parametrize(
    "row", ["x,a,1,2", "1,a,1", "1,a,-1,2", "1,a,nan,2", "1,a,inf,2", "1970-01-01T00:00:00,a,1,2"]
)
def test_what_is_no_count_is_named(row):
    with pytest.raises(ServerCountsError, match=r"x:2: not a time"):
        parsed(row)


def test_other_headings_are_refused_and_more_are_not():
    with pytest.raises(ServerCountsError, match="does not name time, target"):
        parsed("1,a,1,2", heading="when,target,read_bytes,write_bytes")
    assert (
        len(parsed("1,7,a,1,2", "2,7,a,1,2", heading="time,ops,target,read_bytes,write_bytes")) == 2
    )


def test_the_history_keeps_them_once(tmp_path):
    history = str(tmp_path / "history.db")
    text = f"{HEADING}\n100,a,1,2\n105,a,3,4\n"
    command = ["history", "ingest", "--history", history, "--json", "--server-counts", "-"]
    for _ in range(2):
        done = CliRunner().invoke(main, command, input=text, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["server_counts"] == 2
    with Store(tmp_path / "history.db", read_only=True) as store:
        counts = store.interference.server_counts_during(0, 1000)
    assert [one.bytes for one in counts] == [3.0, 7.0]
    refused = CliRunner().invoke(main, command, input="no counts\n")
    assert refused.exit_code != 0
