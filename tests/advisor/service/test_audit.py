"""The audit log takes whole lines from anybody at once, and nothing out of them steers it."""

import json
import multiprocessing
import stat
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import DataError
from advisor.service.audit import AuditLog, line_of

MOMENT = datetime(2026, 11, 21, tzinfo=UTC)


def write_many(path, number):
    log = AuditLog(path)
    for turn in range(200):
        log.write("request", name=f"writer {number}", count=turn, reason="x" * 150)


@given(st.text(), st.text())
def test_no_text_begins_a_line_of_its_own_or_steers_a_terminal(name, reason):
    line = line_of({"event": "refused", "name": name, "reason": reason}, MOMENT)
    assert line.endswith(b"\n")
    assert all(32 <= byte < 127 for byte in line[:-1])
    assert len(line) <= 4096
    assert json.loads(line)["event"] == "refused"


def test_there_is_no_field_for_a_body_or_a_secret():
    with pytest.raises(TypeError, match="no field body"):
        line_of({"event": "request", "body": "x"}, MOMENT)


def test_lines_of_several_processes_stay_whole(tmp_path):
    path = tmp_path / "new" / "audit.jsonl"
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=write_many, args=(path, writer)) for writer in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 600
    for number in range(3):
        mine = [line["count"] for line in lines if line["name"] == f"writer {number}"]
        assert mine == list(range(200))


def test_only_its_owner_may_read_it(tmp_path):
    path = tmp_path / "audit.jsonl"
    path.touch(0o644)
    AuditLog(path).write("request")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_was_rotated_away_is_made_anew(tmp_path):
    log = AuditLog(tmp_path / "audit.jsonl")
    log.write("request", count=1)
    log.path.rename(tmp_path / "audit.1")
    log.write("request", count=2)
    assert json.loads(log.path.read_text())["count"] == 2


def test_a_link_is_not_followed_and_a_folder_is_told(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("link", "."):
        with pytest.raises(DataError, match="--audit-log"):
            AuditLog(tmp_path / name).check()
    assert not (tmp_path / "elsewhere").exists()


def test_a_line_tells_when_who_and_what():
    line = line_of({"event": "request", "key": "0123", "name": "ci", "status": 201, "subject": None}, MOMENT)
    assert json.loads(line) == {
        "at": "2026-11-21T00:00:00.000+00:00",
        "event": "request",
        "key": "0123",
        "name": "ci",
        "status": 201,
    }
