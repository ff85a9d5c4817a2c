"""Tables of docs/evidence/replays.md are written from what was measured."""

import pytest
import tables_of_docs as tables

HEAD = "<!-- one: `make figures` -->\n| a | b |\n|---|---|\n"
OTHER = "| 1 | 2 |\n\nText.\n\n| c |\n|---|\n| 3 |\n"


def test_rows_take_the_place_of_the_old_ones_and_nothing_else_changes():
    page = tables.filled(HEAD + OTHER, "one", [("x", "y"), ("z", "w")])
    assert page == HEAD + "| x | y |\n| z | w |\n" + OTHER.removeprefix("| 1 | 2 |\n")


def test_a_table_that_is_not_in_the_page_is_an_error():
    with pytest.raises(SystemExit, match="two: `make figures`"):
        tables.filled(HEAD + OTHER, "two", [("x", "y")])


def test_each_table_has_its_place_in_the_page():
    page = tables.PAGE.read_text()
    names = [name for name, _ in tables.tables()]
    assert len(names) == 5
    for name in names:
        assert "| new |" in tables.filled(page, name, [("new",)])


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.031, "+3.1 %"), (0.9986, "\N{MINUS SIGN}0.1 %"), (1.0004, "0.0 %"), (1.31, "+31 %"),
     (3.42, "+242 %"), (884.0, "880-fold")],
)  # fmt: skip
def test_a_longer_wait_is_said_in_percent_or_as_a_multiple(ratio, text):
    assert tables.longer(ratio) == text


def test_a_span_has_true_minuses_and_no_sign_before_nothing():
    values = [-1.0, *[0.0] * 18, 2.0]
    assert tables.percent(values, "{:+.1f}") == "0.0 % (\N{MINUS SIGN}1.0 to +2.0)"
