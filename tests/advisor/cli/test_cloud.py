"""`advisor cloud`: what is told of moto's EC2, and what is removed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from moto import mock_aws

from advisor.infra.aws import tags
from tests.infra.aws.reaping import a_group, a_volume, an_instance, worn
from tests.infra.live.conftest import without_real_aws

LONG_AGO, LATER = datetime(2020, 1, 1, tzinfo=UTC), datetime.now(UTC) + timedelta(hours=1)
HERE = ("--region", "us-east-1", "--region", "eu-west-1")


@pytest.fixture(autouse=True)
def account(monkeypatch, tmp_path):
    without_real_aws(monkeypatch, tmp_path)
    with mock_aws():
        yield


@pytest.fixture
def cloud(shown):
    return lambda *words, code=0: shown("cloud", *words, code=code)


@pytest.fixture
def document(answer):
    return lambda *words, code=0: answer("cloud", *words, code=code)


def test_what_is_there_is_told_with_its_time_and_how_to_remove_it_and_nothing_in_one_line(cloud):
    assert cloud("status", *HERE).startswith("0 things of sweeps")
    assert cloud("reap", *HERE) == "0 things removed; asked 2 regions.\n"
    old, new = a_volume("us-east-1", worn(LONG_AGO)), an_instance("eu-west-1", worn(LATER))
    text = cloud("status", *HERE)
    first, _, _, expired, kept = text.splitlines()
    assert first.startswith("2 things of sweeps, 1 expired (advisor cloud reap removes")
    assert expired.startswith(f"volume    {old}")
    assert expired.endswith("2020-01-01 00:00 UTC")
    assert kept.startswith(f"instance  {new}")
    assert "g4dn.xlarge" in kept


def test_a_dry_run_then_the_removal_then_nothing(document):
    name = a_volume("us-east-1", worn(LONG_AGO))
    a_volume("us-east-1", worn(LATER))
    would = document("reap", "--dry-run", *HERE)
    assert would["schema"] == "advisor.cloud-reap/1"
    assert would["dry_run"]
    assert [row["id"] for row in would["expired"]] == [name]
    done = document("reap", *HERE)
    assert [row["id"] for row in done["removed"]] == [name]
    assert document("reap", *HERE)["removed"] == []
    assert len(document("status", *HERE)["kept"]) == 1


def test_what_has_no_readable_time_is_told_and_kept(cloud, document):
    name = a_group("us-east-1", worn(**{tags.EXPIRES_AT: "soon"}))
    said = cloud("reap", *HERE)
    assert f"remove it by hand: security-group {name} in us-east-1" in said
    (kept,) = document("status", *HERE)["kept"]
    assert kept["expires_at"] is None


def test_what_could_not_be_removed_is_an_error_that_a_schedule_sees(cloud, document, monkeypatch):
    from advisor.infra.aws import machines
    from advisor.infra.aws.errors import Refused

    a_volume("us-east-1", worn(LONG_AGO))
    refused = Refused("DeleteVolume", "UnauthorizedOperation", "not you")
    monkeypatch.setattr(machines, "_refusal", lambda *_: refused)
    answer = document("reap", *HERE, code=1)
    assert "advisor cloud policy reaper" in answer["remaining"][0]["reason"]
    assert "still there: volume" in cloud("reap", *HERE, code=1)


def test_without_credentials_it_says_how(monkeypatch, stderr):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "aws configure" in stderr("cloud", "status", code=1)


def test_a_policy_and_templates_are_printed(cloud):
    text = cloud("policy", "guest", "--bucket", "my-bucket", "--account", "1" * 12)
    assert "arn:aws:s3:::my-bucket" in text
    for name in ("account", "schedules"):
        assert json.loads(cloud("template", name))["Resources"]
