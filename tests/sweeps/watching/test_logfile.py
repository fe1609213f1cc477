"""The log: a JSON object a line, bounded, shared, and never the end of a sweep."""

import errno
import io
import json
import logging
import shutil
import subprocess
import sys
from contextlib import closing
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import DataError
from advisor.sweeps.events import DEBUG, WARNING, emit, handled
from advisor.sweeps.watching import logfile
from advisor.sweeps.watching.logfile import SharedFile, logged, without_secrets
from advisor.sweeps.watching.story import log_lines

WRITER = """
import sys
from pathlib import Path
from advisor.sweeps.events import emit, handled
from advisor.sweeps.watching.logfile import SharedFile
with handled(SharedFile(Path(sys.argv[1]), most_bytes=int(sys.argv[3]))):
    for number in range(200):
        emit("stored", trial_id=f"{sys.argv[2]}-{number}", text="x" * 50)
"""


def written(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_says_when_what_which_trial_and_where(tmp_path):
    path, facts = tmp_path / "deep" / "log.jsonl", {"attempt": 1, "seconds": 2.5, "reason": "full"}
    with logged(path):
        emit("attempt_ended", trial_id="abc", level=WARNING, **facts)
    (line,) = written(path)
    assert datetime.fromisoformat(line.pop("time")).tzinfo
    assert line.pop("node")
    assert line.pop("pid")
    assert line == {"level": "warning", "event": "attempt_ended", "trial_id": "abc", **facts}


def test_what_json_does_not_have_is_null_and_no_password_is_written(tmp_path):
    with logged(tmp_path / "l"):
        emit("x", rate=float("nan"), where={"url": "postgresql://me:secret@db/x"}, of=[tmp_path])
    (line,) = written(tmp_path / "l")
    assert line["rate"] is None
    assert line["where"] == {"url": "postgresql://me:***@db/x"}
    assert line["of"] == [str(tmp_path)]


def test_a_disk_without_locks_is_told_once_and_ends_nothing(tmp_path, monkeypatch, capsys):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(logfile.fcntl, "flock", refuse)
    with logged(tmp_path / "l"):
        emit("stored")
        emit("stored")
    assert capsys.readouterr().err.count("no locks available") == 1


def test_a_log_that_cannot_be_opened_anew_ends_nothing(tmp_path):
    folder = tmp_path / "f"
    with logged(folder / "l"):
        emit("stored")
        shutil.rmtree(folder)
        emit("stored")
        emit("stored")
        folder.mkdir()
        emit("began")
    assert [line["event"] for line in written(folder / "l")] == ["began"]


def test_the_level_holds_back_what_is_below_it(tmp_path):
    with logged(tmp_path / "l", logging.WARNING):
        emit("heartbeat", level=DEBUG)
        emit("stored")
        emit("heartbeat_failed", level=WARNING)
    assert [line["event"] for line in written(tmp_path / "l")] == ["heartbeat_failed"]


def test_warnings_of_sweeps_are_logged_and_still_told(tmp_path, capsys):
    with logged(tmp_path / "l"):
        logging.getLogger("advisor.sweeps.driver.runner").warning("waiting for %d trials", 2)
    (line,) = written(tmp_path / "l")
    assert (line["event"], line["text"]) == ("message", "waiting for 2 trials")
    assert capsys.readouterr().err == "waiting for 2 trials\n"


def test_its_size_is_bounded(tmp_path):
    file = SharedFile(tmp_path / "l", most_bytes=2000, older=2)
    with closing(file), handled(file):
        for number in range(200):
            emit("stored", trial_id=str(number))
    files = [one for one in tmp_path.iterdir() if one.suffix != ".lock"]
    assert {one.name for one in files} == {"l", "l.1", "l.2"}
    assert all(one.stat().st_size <= 2000 for one in files)


@pytest.mark.parametrize("most_bytes", [10**9, 20_000])
def test_drivers_that_share_it_lose_no_line_and_tear_none(tmp_path, most_bytes):
    """With the small bound, each of them turns the file while the others write."""
    path = tmp_path / "l"
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, name, str(most_bytes)]) for name in "abc"]
    assert [one.wait() for one in writers] == [0, 0, 0]
    seen = [line["trial_id"] for line in log_lines(path)]
    assert len(seen) == len(set(seen))
    total = sum(file.read_text().count("\n") for file in tmp_path.glob("l*"))
    assert total == len(seen)
    if most_bytes == 10**9:
        assert len(seen) == 600
    for name in "abc":
        mine = [int(one.partition("-")[2]) for one in seen if one.startswith(name)]
        assert mine == sorted(mine)


def test_a_log_that_cannot_be_written_any_more_is_told_once(tmp_path, capsys):
    class Full(io.StringIO):
        def write(self, _text):
            raise OSError(errno.ENOSPC, "No space left on device")

    handler = SharedFile(tmp_path / "l")
    handler._open = Full
    (tmp_path / "l").unlink()
    with closing(handler), handled(handler):
        emit("stored")
        emit("stored")
    assert capsys.readouterr().err.count("cannot be written") == 1


def test_a_log_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="--log-file"), logged(tmp_path / "file" / "l"):
        pass


WORDS = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=12)
PASSWORDS = st.text(st.characters(codec="ascii", exclude_categories=("Z", "C")), min_size=1, max_size=20)


@given(WORDS, PASSWORDS, WORDS)
def test_a_url_never_shows_its_password(user, password, host):
    secret = f"%{password}%"  # marked, or it may stand elsewhere by chance
    shown = without_secrets(f"cannot reach postgresql://{user}:{secret}@{host}:5432/db now")
    assert secret not in shown
    assert f"postgresql://{user}:***@{host}:5432/db now" in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("host=db password=hunter2 user=me", "host=db password=*** user=me"),
        ("PGPASSWORD='a b c'; psql", "PGPASSWORD=***; psql"),
        ("db?password=x&sslmode=require", "db?password=***&sslmode=require"),
        ("aws_secret_access_key: AbC/9", "aws_secret_access_key: ***"),
    ],
)
def test_settings_do_not_either(text, shown):
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        'FATAL: password authentication failed for user "me"',
        "sqlite:////data/sweeps.sqlite",
        "see http://127.0.0.1:9464/metrics",
        "mail me@example.org",
    ],
)
def test_what_holds_no_secret_stays(text):
    assert without_secrets(text) == text
