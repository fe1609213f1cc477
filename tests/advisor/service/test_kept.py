"""Answers that are given again, and an audit log that nothing steers."""

import json
import multiprocessing
import stat
from datetime import UTC, datetime
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import STILL_WANTED, DataError, SpentError
from advisor.questions.network import Recommend
from advisor.questions.reading import from_values
from advisor.service.answers import Answered, KeptAnswers
from advisor.service.audit import AuditLog, line_of
from advisor.service.routes import answers as routes

QUESTION = {"task": "inference", "model": "googlenet", "target_throughput": 500, "gpu": "T4"}


@pytest.fixture
def counted(monkeypatch):
    """How often a recommendation was computed."""
    counted = Mock(side_effect=routes.recommended)
    monkeypatch.setattr(routes, "recommended", counted)
    return counted


def test_the_same_question_is_computed_once_however_it_is_asked(service, counted):
    first = service.post("/v1/recommend", json=QUESTION)
    again = service.post("/v1/recommend", json=dict(reversed(QUESTION.items())))
    link = service.get("/v1/recommend", params=QUESTION)
    plain = service.get("/v1/recommend", params=QUESTION, headers={"Accept-Encoding": "identity"})
    assert first.content == again.content == link.content == plain.content
    assert "Content-Encoding" not in plain.headers
    assert counted.call_count == 1
    assert service.post("/v1/recommend", json=QUESTION | {"target_throughput": 501}).is_success
    assert counted.call_count == 2


def test_what_nobody_asked_for_in_the_longest_time_goes_first():
    kept = KeptAnswers(most_bytes=30)
    for name in "abc":
        kept.keep(name, Answered(b"x" * 10))
    kept.get("a")
    kept.keep("d", Answered(b"x" * 10))
    kept.keep("d", Answered(b"x" * 10))
    assert [name for name in "abcd" if kept.get(name)] == ["a", "c", "d"]


@pytest.mark.parametrize(("cron", "status"), [("* * * * *", 403), ("0 * * * *", 201)])
def test_a_key_that_may_measure_keeps_no_machine_busy(serve, key_of, cron, status):
    words = {"cron": cron, "name": "often", "fit": {}}
    response = serve().post("/v1/schedules", json=words, headers=key_of("measure"))
    assert response.status_code == status, response.text
    admin = serve().post("/v1/schedules", json=words | {"name": "a"}, headers=key_of("admin"))
    assert admin.status_code == 201


def test_a_search_that_nobody_waits_for_ends_before_its_first_answer(context):
    """Over all clouds and nodes it takes seconds, in which no page would be answered."""
    wide = {"task": "training", "model": "vgg16", "target_throughput": 1e7, "max_nodes": 64, "pareto": True}
    wide |= dict.fromkeys(("cloud", "market"), "any")
    wanted = STILL_WANTED.set(lambda: False)
    try:
        with pytest.raises(SpentError):
            routes.recommended(context, from_values(Recommend, wide))
    finally:
        STILL_WANTED.reset(wanted)


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


def test_the_log_is_its_owners_alone_is_no_link_and_is_made_anew_when_it_is_rotated(tmp_path):
    path = tmp_path / "audit.jsonl"
    path.touch(0o644)
    AuditLog(path).write("request")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    log = AuditLog(tmp_path / "audit.jsonl")
    log.write("request", count=1)
    log.path.rename(tmp_path / "audit.1")
    log.write("request", count=2)
    assert json.loads(log.path.read_text())["count"] == 2
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("link", "."):
        with pytest.raises(DataError, match="--audit-log"):
            AuditLog(tmp_path / name).check()
    assert not (tmp_path / "elsewhere").exists()


def test_a_line_tells_when_who_and_what_and_has_no_field_for_a_body_or_a_secret():
    said = {"event": "request", "key": "0123", "name": "ci", "status": 201}
    line = line_of({**said, "subject": None}, MOMENT)
    assert json.loads(line) == {"at": "2026-11-21T00:00:00.000+00:00", **said}
    assert b"body" not in line_of({"event": "request", "body": "x"}, MOMENT)
