"""A file is written whole or not at all, and no CSV of ours has a cell that a spreadsheet computes."""

import csv
import io
import os
import re
import stat
import sys
import threading

import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import DataError, UsageError
from advisor.files import APPLICATION, csv_of, harmless, require_writable, user_folder, write_whole
from advisor.sweeps.formats import SUMMARY_COLUMNS, to_csv
from tests.sweeps.builders import measurement, trial


def test_a_file_is_written_whole_or_nothing_is_changed(tmp_path):
    write_whole(tmp_path / "out.csv", "text")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.csv", "text")]
    with pytest.raises(DataError, match="nothing was changed"):
        write_whole(tmp_path / "missing" / "out.csv", "text")
    assert not (tmp_path / "missing").exists()


def test_a_write_that_is_ended_in_its_middle_leaves_the_old_file_alone(tmp_path, monkeypatch):
    def ended(_descriptor):
        raise KeyboardInterrupt

    (tmp_path / "a.md").write_text("old")
    monkeypatch.setattr("advisor.files.os.fsync", ended)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "a.md", "new")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a.md", "old")]


def test_a_link_keeps_pointing_and_a_pipe_stays_a_pipe(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "text")
    reader.join(timeout=10)
    assert read == ["text"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_bytes_and_long_names_are_written_as_they_are(tmp_path):
    write_whole(tmp_path / "out.pdf", b"%PDF\r\n\xff")
    assert (tmp_path / "out.pdf").read_bytes() == b"%PDF\r\n\xff"
    name = "图" * 84 + ".md"  # 255 bytes
    require_writable(tmp_path / name)
    write_whole(tmp_path / name, "text")
    assert (tmp_path / name).read_text() == "text"
    assert {one.name for one in tmp_path.iterdir()} == {name, "out.pdf"}


def test_looking_whether_a_place_can_be_written_changes_nothing(tmp_path):
    old = tmp_path / "old.md"
    old.write_text("old")
    require_writable(old)
    require_writable(tmp_path / "new.md")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("old.md", "old")]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (".", "is a folder"),
        ("no/such/a.md", "No such file"),
        ("x" * 300, "too long"),
        ("/proc/a.md", "cannot be written"),
    ],
)
def test_a_place_that_cannot_be_written_is_told_beforehand(tmp_path, name, words):
    with pytest.raises(UsageError, match=f"--out .*{words}"):
        require_writable(tmp_path / name)


# A user's files lie where the platform wants them.
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere platformdirs itself is asked")
@pytest.mark.parametrize("home", ["/home/somebody", "/home/a b/"])
@pytest.mark.parametrize("data_home", [None, "", "/srv/data", "/srv/data/"])
def test_the_data_folder_is_the_one_of_platformdirs(monkeypatch, home, data_home):
    monkeypatch.setenv("HOME", home)
    if data_home is None:
        monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_DATA_HOME", data_home)
    assert user_folder() == platformdirs.user_data_path(APPLICATION)


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
