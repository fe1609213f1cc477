"""The folder in which worker processes count together."""

import os
import time
from pathlib import Path

import pytest

from advisor.service.shared_metrics import shared_metrics

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where temporary folders are made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path


def left(folder, name, seconds_ago=3600.0):
    """A folder as a server leaves it that was killed so long ago."""
    made = folder / name
    made.mkdir()
    (made / "counter_1.db").write_bytes(b"1")
    os.utime(made, (time.time() - seconds_ago,) * 2)
    return made


def test_the_next_server_removes_what_a_killed_one_left(folder):
    killed = left(folder, "advisor-metrics-killed")
    with shared_metrics():
        assert not killed.exists()
        assert Path(os.environ[VARIABLE]).parent == folder
    assert list(folder.iterdir()) == []
    assert VARIABLE not in os.environ


def test_a_server_that_runs_keeps_its_folder(folder):
    with shared_metrics():
        mine = Path(os.environ.pop(VARIABLE))
        os.utime(mine, (time.time() - 3600,) * 2)
        with shared_metrics():
            assert mine.exists()
        os.environ[VARIABLE] = str(mine)


def test_what_may_be_another_ones_stays(folder):
    """One that is being made, one of the operator's, and a link to elsewhere."""
    young = left(folder, "advisor-metrics-young", seconds_ago=1)
    other = left(folder, "other")
    link = folder / "advisor-metrics-link"
    link.symlink_to(other)
    os.utime(link, (0, 0), follow_symlinks=False)
    with shared_metrics():
        pass
    assert young.exists()
    assert (other / "counter_1.db").exists()


def test_the_operators_own_folder_is_left_alone(folder, monkeypatch):
    killed = left(folder, "advisor-metrics-own")
    monkeypatch.setenv(VARIABLE, str(killed))
    with shared_metrics():
        assert os.environ[VARIABLE] == str(killed)
    assert killed.exists()
