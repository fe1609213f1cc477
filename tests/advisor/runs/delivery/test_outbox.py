"""Parcels that did not arrive: kept, tried again, given up."""

import stat

import pytest

from advisor.runs.delivery.outbox import PAUSES_SECONDS, Outbox
from advisor.runs.resending import Resending
from tests.advisor.runs.delivery.servers import hook, parcel, postbox

DOWN = [(503, {}, b"")]


class Clock:
    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def box(tmp_path, clock):
    return Outbox(tmp_path / "outbox", clock)


def kept(tmp_path):
    return sorted((tmp_path / "outbox").iterdir())


def test_a_parcel_is_tried_again_when_it_is_due_and_arrives_whole(box, clock, tmp_path):
    with postbox() as mail:
        box.keep(parcel(), [f"smtp://127.0.0.1:{mail.port}?to=a@b.example&from=c@d.example"])
        assert not box.any_due()
        assert box.try_again(print) == []
        clock.now += PAUSES_SECONDS[0]
        assert box.any_due()
        said = []
        (found,) = box.try_again(said.append)
    assert found.arrived
    assert "has arrived at smtp://127.0.0.1" in said[-1]
    assert b"PK" in mail.got[0][2] or b"report.xlsx" in mail.got[0][2]
    assert kept(tmp_path) == []


def test_only_its_owner_reads_what_is_kept(box, tmp_path):
    box.keep(parcel(), ["https://example.com/secret"])
    (path,) = kept(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_after_two_days_it_is_given_up_and_said_so(box, clock, tmp_path):
    said = []
    with hook(DOWN * 20) as server:
        box.keep(parcel(), [server.url])
        for pause in PAUSES_SECONDS:
            clock.now += pause
            box.try_again(said.append)
    assert len(server.got) == len(PAUSES_SECONDS)
    assert len({headers["webhook-id"] for _, headers, _ in server.got}) == 1
    assert "given up" in said[-1]
    assert "secret-path" not in " ".join(said)
    assert kept(tmp_path) == []


def test_one_that_somebody_else_sends_is_left_to_them(box, clock, tmp_path):
    import fcntl

    with hook() as server:
        box.keep(parcel(), [server.url])
        clock.now += PAUSES_SECONDS[0]
        with kept(tmp_path)[0].open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            assert box.try_again(print) == []
        assert len(box.try_again(lambda _line: None)) == 1


def test_a_broken_file_keeps_no_other_back(box, clock, tmp_path):
    with hook() as server:
        box.keep(parcel(), [server.url])
        (tmp_path / "outbox" / "advisor-0.json").write_text('{"at": ')
        (tmp_path / "outbox" / "advisor-1.json").write_text("{}")
        clock.now += PAUSES_SECONDS[0]
        assert box.any_due()
        assert [one.arrived for one in box.try_again(lambda _line: None)] == [True]


def test_a_daemon_sends_again_beside_its_schedules(monkeypatch, tmp_path):
    """In a thread; a look in between does nothing."""
    now = [0.0]
    monkeypatch.setattr("advisor.runs.delivery.outbox.state_folder", lambda: tmp_path)
    said = []
    with hook() as server:
        Outbox(tmp_path / "outbox", lambda: 0.0).keep(parcel(), [server.url])
        resending = Resending(said.append, clock=lambda: now[0])
        resending.look()
        resending.look()
        resending.wait()
    assert len(server.got) == 1
    assert "has arrived" in said[0]
