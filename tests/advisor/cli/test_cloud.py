"""`advisor cloud`: what is told of moto's EC2, and what is removed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from importlib.resources import files

import jsonschema
import pytest
from click.testing import CliRunner
from moto import mock_aws

from advisor.cli.cloud import cloud, time_left
from advisor.cli.main import run
from advisor.infra.aws import tags
from tests.infra.aws.reaping import NOW, a_group, a_volume, an_instance, worn
from tests.infra.live.conftest import without_real_aws

SCHEMA = json.loads((files("advisor.render") / "schemas/cloud.schema.json").read_text())
LONG_AGO, LATER = datetime(2020, 1, 1, tzinfo=UTC), datetime.now(UTC) + timedelta(hours=1)
HERE = ("--region", "us-east-1", "--region", "eu-west-1")


@pytest.fixture(autouse=True)
def account(monkeypatch, tmp_path):
    without_real_aws(monkeypatch, tmp_path)
    with mock_aws():
        yield


def ask(*arguments, exit_code=0):
    result = CliRunner().invoke(cloud, arguments, standalone_mode=False)
    assert (result.exception, result.return_value) == (None, exit_code)
    return result.stdout


def printed(*arguments):
    """What a command says that has no exit code of its own."""
    return json.loads(CliRunner().invoke(cloud, arguments, catch_exceptions=False).stdout)


def document(*arguments, exit_code=0):
    told = json.loads(ask(*arguments, "-o", "json", exit_code=exit_code))
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(told, SCHEMA)
    return told


def test_nothing_is_told_in_one_line():
    assert ask("status", *HERE) == "Nothing of a sweep is there; asked 2 regions.\n"
    assert ask("reap", *HERE) == "0 things removed; asked 2 regions.\n"


def test_what_is_there_is_told_with_its_time_and_how_to_remove_it():
    old, new = a_volume("us-east-1", worn(LONG_AGO)), an_instance("eu-west-1", worn(LATER))
    told = ask("status", *HERE)
    first, _, head, expired, kept, *rest = told.splitlines()
    assert first == "2 things of sweeps, 1 expired; asked 2 regions."
    assert head.split() == ["Kind", "id", "region", "sweep", "owner", "state", "time"]
    assert expired.startswith(f"volume    {old}")
    assert "days" in expired
    assert kept.startswith(f"instance  {new}")
    assert "g4dn.xlarge" in kept
    assert kept.endswith("min left")
    assert rest == ["", "Remove what is expired: advisor cloud reap"]


def test_a_dry_run_then_the_removal_then_nothing():
    name = a_volume("us-east-1", worn(LONG_AGO))
    a_volume("us-east-1", worn(LATER))
    would = document("reap", "--dry-run", *HERE)
    assert would["schema"] == "advisor.cloud-reap/1"
    assert would["dry_run"]
    assert [one["id"] for one in would["expired"]] == [name]
    done = document("reap", *HERE)
    assert [one["id"] for one in done["removed"]] == [name]
    assert document("reap", *HERE)["removed"] == []
    assert len(document("status", *HERE)["kept"]) == 1


def test_what_has_no_readable_time_is_told_and_kept():
    name = a_group("us-east-1", worn(**{tags.EXPIRES_AT: "soon"}))
    said = ask("reap", *HERE)
    assert f"remove it by hand: security-group {name} in us-east-1" in said
    (kept,) = document("status", *HERE)["kept"]
    assert kept["expires_at"] is None


def test_what_could_not_be_removed_is_an_error_that_a_schedule_sees(monkeypatch):
    from advisor.infra.aws import managed
    from advisor.infra.aws.errors import Refused

    a_volume("us-east-1", worn(LONG_AGO))
    refused = Refused("DeleteVolume", "UnauthorizedOperation", "not you")
    monkeypatch.setattr(managed, "_refusal", lambda *_: refused)
    told = document("reap", *HERE, exit_code=1)
    assert "advisor cloud policy reaper" in told["remaining"][0]["reason"]
    assert "still there: volume" in ask("reap", *HERE, exit_code=1)


def test_without_credentials_it_says_how(monkeypatch, capsys):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert run(["cloud", "status"]) == 1
    assert "aws configure" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (timedelta(minutes=40), "40 min left"),
        (timedelta(hours=5), "5 h left"),
        (timedelta(days=3), "3 days left"),
        (-timedelta(minutes=1), "over since 1 min"),
        (-timedelta(days=431), "over since 431 days"),
    ],
)
def test_times_are_words(ahead, words):
    assert time_left(NOW + ahead, NOW) == words


def test_a_policy_is_printed_for_a_bucket():
    told = printed("policy", "guest", "--bucket", "my-bucket", "--account", "1" * 12)
    assert "arn:aws:s3:::my-bucket" in json.dumps(told)


@pytest.mark.parametrize("arguments", [["policy", "guest"], ["policy", "reeper"], ["template", "x"]])
def test_what_is_asked_wrongly_is_usage(arguments, capsys):
    assert run(["cloud", *arguments]) == 2
    assert capsys.readouterr().err.startswith("advisor: ")


def test_templates_are_printed():
    for name in ("account", "schedules"):
        assert printed("template", name)["Resources"]
