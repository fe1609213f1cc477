"""Objects of a bucket: written once, found again, over moto's S3."""

import os
import zipfile
from pathlib import Path

import boto3
import pytest

from advisor.errors import DataError
from advisor.infra.aws.asking import Clock
from advisor.infra.aws.errors import Refused
from advisor.infra.aws.guest.metadata import ResultBucket
from advisor.infra.aws.guest.volumes import HUB_TOKEN, engine_environment, installed_engine
from tests.infra.aws.reaping import aws, moto_account

BUCKET = "advisor-test"


@pytest.fixture
def bucket(monkeypatch):
    with moto_account(monkeypatch):
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=BUCKET)
        yield BUCKET


def result_bucket(bucket, faults=None, prefix="sweeps/s1"):
    return ResultBucket(aws({"us-east-1": faults or {}}), "us-east-1", bucket, prefix)


def test_an_object_is_written_once_and_found_beneath_its_folder_and_prefix_alone(bucket):
    box = result_bucket(bucket)
    assert box.put_once("a/1", b"first")
    assert not box.put_once("a/1", b"second")
    assert box.get("a/1") == b"first"
    box.put("a/1", b"third")
    assert box.get("a/1") == b"third"
    assert box.get("job.json") is None
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


def test_two_writers_at_one_moment_are_told_apart_by_asking_again(bucket):
    faults = {"put_object": ["ConditionalRequestConflict", "SlowDown"]}
    assert result_bucket(bucket, faults).put_once("a/1", b"x")
    with pytest.raises(Refused, match="AccessDenied"):
        result_bucket(bucket, {"put_object": "AccessDenied"}).put_once("a/2", b"x")


# An engine in an environment of its own, and the token for gated models.

REGION = "us-east-1"
_WHEEL = {
    "tiny.py": "def main(): print('served')",
    "tiny-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n",
    "tiny-1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "tiny-1.dist-info/entry_points.txt": "[console_scripts]\ntiny = tiny:main\n",
    "tiny-1.dist-info/RECORD": "",
}


@pytest.mark.slow
def test_an_engine_has_an_environment_of_its_own(tmp_path):
    """Its program is there; and what cannot be had is told by pip's own words."""
    wheel = tmp_path / "tiny-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in _WHEEL.items():
            archive.writestr(name, content)
    programs = installed_engine(str(wheel), tmp_path)
    assert os.access(programs / "tiny", os.X_OK)
    with pytest.raises(DataError, match=r"gone\.whl cannot be installed: ERROR"):
        installed_engine(str(tmp_path / "gone.whl"), tmp_path)


def test_gated_models_are_loaded_with_the_accounts_token_where_it_has_one(monkeypatch):
    """And its programs come before those of the instance."""
    with moto_account(monkeypatch):
        without = engine_environment(Path("/engine/bin"), aws(None, Clock()), REGION)
        boto3.client("ssm", region_name=REGION).put_parameter(
            Name=HUB_TOKEN, Value="hf_x", Type="SecureString"
        )
        result = engine_environment(Path("/engine/bin"), aws(None, Clock()), REGION)
    assert without["PATH"].startswith("/engine/bin:")
    assert "HF_TOKEN" not in without
    assert result["HF_TOKEN"] == "hf_x"
