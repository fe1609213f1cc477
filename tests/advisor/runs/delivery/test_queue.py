"""Messages that did not arrive: kept, sent again, given up."""

import stat
from types import SimpleNamespace

import pytest

from advisor.runs.delivery.queue import PAUSES_SECONDS, Resender, RetryQueue
from tests.advisor.runs.delivery.servers import hook, parcel, postbox

DOWN = [(503, {}, b"")]


@pytest.fixture
def clock():
    return SimpleNamespace(now=1_000_000.0)


@pytest.fixture
def box(tmp_path, clock):
    return RetryQueue(tmp_path / "outbox", lambda: clock.now)


def lines_of_all_tries(box, clock):
    """What is said while it is sent again after each pause."""
    said = []
    for pause in PAUSES_SECONDS:
        clock.now += pause
        box.send_due(said.append)
    return said


def kept(tmp_path):
    return sorted((tmp_path / "outbox").glob("*.json"))


def test_a_parcel_is_tried_again_when_it_is_due_and_arrives_whole(box, clock, tmp_path):
    with postbox() as mail:
        box.keep(parcel(), f"smtp://127.0.0.1:{mail.port}?to=a@b.example&from=c@d.example")
        assert not box.has_due()
        assert box.send_due(print) == []
        clock.now += PAUSES_SECONDS[0]
        assert box.has_due()
        said = []
        (result,) = box.send_due(said.append)
    assert result.arrived
    assert "has arrived at smtp://127.0.0.1" in said[-1]
    assert b"PK" in mail.got[0][2] or b"report.xlsx" in mail.got[0][2]
    assert kept(tmp_path) == []


def test_only_its_owner_reads_what_is_kept(box, tmp_path):
    box.keep(parcel(), "https://example.com/secret")
    (path,) = kept(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_after_two_days_it_is_given_up_and_said_so(box, clock, tmp_path):
    with hook(DOWN * 20) as server:
        box.keep(parcel(), server.url)
        said = lines_of_all_tries(box, clock)
    assert len(server.got) == len(PAUSES_SECONDS)
    assert len({headers["webhook-id"] for _, headers, _ in server.got}) == 1
    assert "given up" in said[-1]
    assert "secret-path" not in " ".join(said)
    assert kept(tmp_path) == []


@pytest.mark.parametrize("status", [404, 410, 403])
def test_what_a_server_refuses_for_good_is_said_once_and_not_sent_again(box, clock, tmp_path, status):
    with hook([(status, {}, b"gone")] * 9) as server:
        box.keep(parcel(), server.url)
        said = lines_of_all_tries(box, clock)
    assert len(server.got) == 1
    assert len(said) == 1
    assert f"answered {status}: gone; given up" in said[0]
    assert kept(tmp_path) == []


def test_a_folder_that_is_missing_is_said_once_and_not_tried_again(box, clock, tmp_path):
    box.keep(parcel(), f"file:{tmp_path}/nowhere/")
    (said,) = lines_of_all_tries(box, clock)
    assert "there is no folder" in said
    assert kept(tmp_path) == []


def test_one_that_somebody_else_sends_is_left_to_them(box, clock, tmp_path):
    import fcntl

    with hook() as server:
        box.keep(parcel(), server.url)
        clock.now += PAUSES_SECONDS[0]
        with (tmp_path / "outbox" / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            assert box.send_due(print) == []
        assert len(box.send_due(lambda _line: None)) == 1


def test_a_broken_file_keeps_no_other_back(box, clock, tmp_path):
    with hook() as server:
        box.keep(parcel(), server.url)
        (tmp_path / "outbox" / "advisor-0.json").write_text('{"at": ')
        (tmp_path / "outbox" / "advisor-1.json").write_text("{}")
        clock.now += PAUSES_SECONDS[0]
        assert box.has_due()
        assert [delivery.arrived for delivery in box.send_due(lambda _line: None)] == [True]


def test_a_daemon_sends_again_beside_its_schedules(monkeypatch, tmp_path):
    """In a thread; a look in between does nothing."""
    now = [0.0]
    monkeypatch.setattr("advisor.runs.delivery.queue.state_folder", lambda: tmp_path)
    said = []
    with hook() as server:
        RetryQueue(tmp_path / "outbox", lambda: 0.0).keep(parcel(), server.url)
        resender = Resender(said.append, clock=lambda: now[0])
        resender.look()
        resender.look()
        resender.wait()
    assert len(server.got) == 1
    assert "has arrived" in said[0]
