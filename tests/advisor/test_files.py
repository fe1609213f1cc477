"""A file is written whole or not at all, and what is no plain file is never replaced."""

import os
import stat
import threading

import pytest

from advisor.errors import DataError
from advisor.files import write_whole


def test_a_file_is_written_whole(tmp_path):
    write_whole(tmp_path / "out.csv", "text")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.csv", "text")]


def test_a_place_that_cannot_be_written_changes_nothing(tmp_path):
    with pytest.raises(DataError, match="nothing was changed"):
        write_whole(tmp_path / "missing" / "out.csv", "text")
    assert list(tmp_path.iterdir()) == []


def test_a_link_keeps_pointing(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_pipe_is_written_into_and_stays_a_pipe(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "text")
    reader.join(timeout=10)
    assert read == ["text"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
