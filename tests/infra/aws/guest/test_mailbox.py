"""Objects of a bucket: written once, found again, over moto's S3."""

import boto3
import pytest

from advisor.infra.aws.errors import Refused
from advisor.infra.aws.guest.result_bucket import ResultBucket
from tests.infra.aws.clients import moto_account
from tests.infra.aws.reaping import aws

BUCKET = "advisor-test"


@pytest.fixture
def bucket(monkeypatch):
    with moto_account(monkeypatch):
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=BUCKET)
        yield BUCKET


def result_bucket(bucket, faults=None, prefix="sweeps/s1"):
    return ResultBucket(aws({"us-east-1": faults or {}}), "us-east-1", bucket, prefix)


def test_an_object_is_written_once(bucket):
    box = result_bucket(bucket)
    assert box.put_once("a/1", b"first")
    assert not box.put_once("a/1", b"second")
    assert box.get("a/1") == b"first"


def test_what_may_change_is_written_again(bucket):
    box = result_bucket(bucket)
    box.put("state", b"1")
    box.put("state", b"2")
    assert box.get("state") == b"2"


def test_names_are_told_beneath_a_folder_and_nothing_beside_the_prefix(bucket):
    result_bucket(bucket, prefix="sweeps/s10").put("a/9", b"")
    box = result_bucket(bucket)
    for key in ("a/2", "a/1", "b/1"):
        box.put(key, b"")
    assert list(box.keys("a/")) == ["a/1", "a/2"]
    assert list(box.keys()) == ["a/1", "a/2", "b/1"]


@pytest.mark.slow
def test_many_names_come_in_pages(bucket, monkeypatch):
    box = result_bucket(bucket)
    names = [f"a/{number:04}" for number in range(1_005)]
    s3 = boto3.client("s3", region_name="us-east-1")
    for name in names:
        s3.put_object(Bucket=bucket, Key=f"sweeps/s1/{name}", Body=b"")
    assert list(box.keys("a/")) == names


def test_nothing_there_is_none(bucket):
    assert result_bucket(bucket).get("job.json") is None


def test_two_writers_at_one_moment_are_told_apart_by_asking_again(bucket):
    faults = {"put_object": ["ConditionalRequestConflict", "SlowDown"]}
    assert result_bucket(bucket, faults).put_once("a/1", b"x")


def test_a_missing_right_is_told(bucket):
    with pytest.raises(Refused, match="AccessDenied"):
        result_bucket(bucket, {"put_object": "AccessDenied"}).put_once("a/1", b"x")
