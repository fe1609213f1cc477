"""Files, S3 (moto's server), and the words behind `--send`."""

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import UsageError
from advisor.runs.delivery.targets import (
    checked_target,
    checked_words,
    deliver,
    deliver_to,
    parse_target,
    target_label,
)
from tests.advisor.runs.delivery.servers import hook, parcel, sent
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
    assert result.attempts == 1


def test_s3_that_is_away_is_tried_again(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with hook([(503, {}, b"")] * 2) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url.partition("/services")[0])
        target = parse_target("s3://some-bucket/a")
        result = sent(target, attempts=2, sleep=lambda _s: None)
    assert (result.arrived, result.attempts) == (False, 2)


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
    assert lost.attempts == 1


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
