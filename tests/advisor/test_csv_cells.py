"""No CSV that we write has a cell that a spreadsheet computes."""

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.files import csv_of, harmless
from advisor.sweeps.formats import SUMMARY_COLUMNS, to_csv
from tests.sweeps.builders import measurement, trial

STARTERS = "=+-@\uff1d\uff0b\uff0d\uff20"
TEXT = st.text() | st.tuples(
    st.sampled_from(["", " ", "\ufeff", ";", "x;", "x\t"]), st.sampled_from(STARTERS), st.text()
).map("".join)
NUMBER = re.compile(r"[+-]?[0-9.]+(e[+-]?[0-9]+)?", re.IGNORECASE)


def cells_of(text, delimiter=","):
    return [cell for row in csv.reader(io.StringIO(text), delimiter=delimiter) for cell in row]


@given(TEXT)
def test_no_text_begins_as_a_formula(text):
    cell = harmless(text)
    seen = cell.strip().lstrip("\ufeff\u200b\t\r\n ")
    assert not seen.startswith(tuple(STARTERS)) or NUMBER.fullmatch(cell)
    assert not cell.startswith(("\t", "\r", "\n"))


@given(TEXT)
def test_nor_does_a_part_of_it_where_another_sign_separates_cells(text):
    line = csv_of([{"a": text}], ["a"]).partition("\n")[2]
    for part in re.split("[;\t]", line):
        seen = part.strip('" \r\n')
        assert not seen.startswith(tuple(STARTERS)) or NUMBER.fullmatch(harmless(text))


@given(TEXT.filter(lambda text: "\r" not in text))
def test_what_was_written_is_read_again_but_for_apostrophes(text):
    (_, cell) = cells_of(csv_of([{"a": f"x{text}"}], ["a"]))
    assert cell.replace("'", "") == f"x{text}".replace("'", "")


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_stay_numbers(number):
    for told in (number, str(number)):
        (_, cell) = cells_of(csv_of([{"a": told}], ["a"]))
        assert float(cell) == float(number)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=cmd|'/c calc'!A0", "'=cmd|'/c calc'!A0"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("Tesla T4;=1+1", "Tesla T4;'=1+1"),
        ("gp3:500GiB", "gp3:500GiB"),
        ("a=b", "a=b"),
        ("-0.5", "-0.5"),
        (None, None),
    ],
)
def test_examples(text, cell):
    assert harmless(text) == cell


def test_all_writers_use_it():
    hostile = "=HYPERLINK(1)"
    assert "'=HYPER" in csv_of([{"name": hostile}], ["name"])
    row = to_csv([measurement(trial=trial(network=hostile))])
    assert cells_of(row)[len(SUMMARY_COLUMNS) + SUMMARY_COLUMNS.index("network")] == f"'{hostile}"
