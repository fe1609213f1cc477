"""Files, S3 (moto's server), and the words behind `--send`. Messages that did not arrive: kept, sent again,
given up."""

import stat
import threading
from types import SimpleNamespace

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import UsageError
from advisor.runs.delivery.sending import (
    KEPT_SECONDS,
    Outbox,
    checked_target,
    deliver,
    deliver_to,
    resend_until,
)
from advisor.runs.delivery.targets import checked_words, parse_target, target_label
from tests.advisor.runs.delivery.servers import hook, parcel, postbox, sent
from tests.infra.aws.reaping import moto_server

BUCKET = "team-reports"


@pytest.fixture
def s3(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with moto_server(monkeypatch):
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        yield client


def test_s3_gets_the_first_file_or_all_of_them(s3):
    key, folder = f"s3://{BUCKET}/a/{{date}}.md", f"s3://{BUCKET}/报告/"
    for target in (key, folder):
        assert sent(checked_target(target)).arrived
    names = [content["Key"] for content in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert names == ["a/2026-11-21.md", "报告/report.md", "报告/report.xlsx"]
    kept = s3.get_object(Bucket=BUCKET, Key="a/2026-11-21.md")
    assert kept["Body"].read() == "# 报告 📈\n".encode()
    assert kept["ContentType"] == "text/markdown; charset=utf-8"


def test_a_bucket_that_is_not_there_is_told_at_once(s3):
    result = sent(parse_target("s3://no-such-bucket/a"))
    assert "NoSuchBucket" in result.error
    assert not result.transient


def test_s3_that_is_away_is_tried_again(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with hook([(503, {}, b"")] * 2) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url.partition("/services")[0])
        target = parse_target("s3://some-bucket/a")
        result = sent(target, attempts=2, sleep=lambda _s: None)
    assert (result.arrived, result.attempts, result.transient) == (False, 2, True)


def test_without_credentials_nothing_is_begun(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(UsageError, match="no AWS credentials"):
        checked_target(f"s3://{BUCKET}/a")


def test_a_file_is_written_whole_with_its_day(tmp_path):
    for words in (f"file:{tmp_path}/report-{{date}}.md", f"file://{tmp_path}/"):
        deliver(parcel(), checked_target(words))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {
        "report-2026-11-21.md": "# 报告 📈\n".encode(),
        "report.md": "# 报告 📈\n".encode(),
        "report.xlsx": b"PK\x03\x04\xff",
    }


def test_a_folder_that_is_not_there_is_known_before_the_work(tmp_path):
    with pytest.raises(UsageError, match="there is no folder"):
        checked_target(f"file:{tmp_path}/gone/report.md")


def test_a_file_that_cannot_be_written_is_told_and_not_tried_again(tmp_path):
    lost = sent(parse_target(f"file:{tmp_path}/gone/report.md"))
    assert "cannot write" in lost.error
    assert not lost.transient


def test_a_variable_holds_what_nobody_should_read(tmp_path, monkeypatch):
    monkeypatch.setenv("REPORT_HOOK", "https://hooks.example.com/services/secret")
    assert parse_target("env:REPORT_HOOK").label == "https://hooks.example.com/.."
    monkeypatch.delenv("REPORT_HOOK")
    with pytest.raises(UsageError, match="REPORT_HOOK is not set"):
        parse_target("env:REPORT_HOOK")
    assert checked_words(["env:REPORT_HOOK"]) == ("env:REPORT_HOOK",)
    result = deliver_to(parcel(), "env:REPORT_HOOK")
    assert (result.label, result.arrived) == ("env:REPORT_HOOK", False)


@given(
    st.sampled_from(["", "file:", "s3://", "https://", "smtp://", "smtps://h?to=", "env:"]),
    st.text(max_size=60),
)
def test_no_words_do_more_than_be_refused(start, text):
    """Whatever stands there is a target or a `UsageError`, and has a label of one line."""
    try:
        label = parse_target(start + text).label
    except UsageError as error:
        label = str(error)
    assert label
    assert target_label(start + text)


def test_the_same_parcel_has_the_same_id():
    assert parcel().id == parcel().id
    assert parcel().id != parcel(text="another").id


DOWN = [(503, {}, b"")]


@pytest.fixture
def clock():
    return SimpleNamespace(now=1_000_000.0)


@pytest.fixture
def box(tmp_path, clock):
    return Outbox(tmp_path / "outbox", lambda: clock.now)


def lines_of_all_tries(box, clock):
    """What is said while it is sent again for two days."""
    said = []
    for _ in range(5):
        clock.now += KEPT_SECONDS / 4
        box.send(said.append)
    return said


def kept(tmp_path):
    return sorted((tmp_path / "outbox").glob("*.json"))


def test_a_parcel_is_tried_again_and_arrives_whole(box, tmp_path):
    with postbox() as mail:
        box.keep(parcel(), f"smtp://127.0.0.1:{mail.port}?to=a@b.example&from=c@d.example")
        said = []
        (result,) = box.send(said.append)
    assert result.arrived
    assert "has arrived at smtp://127.0.0.1" in said[-1]
    assert b"PK" in mail.got[0][2] or b"report.xlsx" in mail.got[0][2]
    assert kept(tmp_path) == []


def test_only_its_owner_reads_what_is_kept(box, tmp_path):
    box.keep(parcel(), "https://example.com/secret")
    (path,) = kept(tmp_path)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_after_two_days_it_is_given_up_and_said_so(box, clock, tmp_path):
    with hook(DOWN * 20) as server:
        box.keep(parcel(), server.url)
        said = lines_of_all_tries(box, clock)
    assert len(server.got) == 4
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


def test_one_that_somebody_else_sends_is_left_to_them(box, tmp_path):
    import fcntl

    with hook() as server:
        box.keep(parcel(), server.url)
        with (tmp_path / "outbox" / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            assert box.send(print) == []
        assert len(box.send(lambda _line: None)) == 1


def test_a_broken_file_keeps_no_other_back(box, tmp_path):
    with hook() as server:
        box.keep(parcel(), server.url)
        (tmp_path / "outbox" / "advisor-0.json").write_text('{"at": ')
        (tmp_path / "outbox" / "advisor-1.json").write_text("{}")
        assert [delivery.arrived for delivery in box.send(lambda _line: None)] == [True]


def test_a_daemon_sends_again_beside_its_schedules(monkeypatch, tmp_path):
    monkeypatch.setattr("advisor.runs.delivery.sending.state_folder", lambda: tmp_path)
    stopping, said = threading.Event(), []

    def say(line):
        said.append(line)
        stopping.set()

    with hook() as server:
        Outbox().keep(parcel(), server.url)
        resend_until(stopping, say)
    assert len(server.got) == 1
    assert "has arrived" in said[0]
