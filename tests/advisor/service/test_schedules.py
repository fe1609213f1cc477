"""Schedules over HTTP: the command's documents, and its checks."""

import json

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from advisor.cli.schedule import schedule as command
from advisor.service.app import create_app
from advisor.service.private import without_paths
from advisor.service.settings import Settings

WEEKLY = {
    "cron": "0 3 * * 1", "timezone": "Europe/Berlin", "name": "weekly",
    "sweep": {"preset": "small"},
}  # fmt: skip


@pytest.fixture
def client():
    with TestClient(create_app(Settings(rate_limit=0.0)), base_url="http://localhost") as client:
        yield client


def told(*arguments):
    return without_paths(json.loads(CliRunner().invoke(command, arguments).stdout))


def timeless(document):
    return {name: value for name, value in document.items() if name != "at"}


def test_what_is_added_is_listed_and_shown_as_the_command_does(client):
    answer = client.post("/v1/schedules", json=WEEKLY)
    assert (answer.status_code, answer.headers["location"]) == (201, "/v1/schedules/weekly")
    assert answer.json()["schedule"]["command"] == ["sweep", "run", "--preset=small"]
    assert timeless(client.get("/v1/schedules").json()) == timeless(told("list", "-o", "json"))
    shown = client.get("/v1/schedules/weekly").json()
    assert timeless(shown) == timeless(told("show", "weekly", "-o", "json"))


def test_the_same_schedule_is_added_once_and_another_of_its_name_is_a_conflict(client):
    codes = [client.post("/v1/schedules", json=WEEKLY).status_code for _ in range(2)]
    assert codes == [201, 200]
    assert client.post("/v1/schedules", json={**WEEKLY, "cron": "@daily"}).status_code == 409
    assert len(client.get("/v1/schedules").json()["schedules"]) == 1


def test_a_schedule_that_is_removed_is_gone(client):
    client.post("/v1/schedules", json=WEEKLY)
    assert client.delete("/v1/schedules/weekly").json()["removed"] == "weekly"
    assert client.delete("/v1/schedules/weekly").status_code == 404
    assert client.get("/v1/schedules").json()["schedules"] == []


def test_fits_and_refreshes_are_scheduled_too(client):
    for what, words in (
        ({"fit": {}}, ["fit"]),
        ({"catalog_refresh": {"gpu": "T4,L4"}}, ["catalog", "refresh", "--gpu=T4,L4"]),
    ):
        answer = client.post("/v1/schedules", json={"cron": "@daily", **what})
        assert answer.json()["schedule"]["command"] == words


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cron": "61 * * * *"}, "61"),
        ({"timezone": "Europe/Berln"}, "Europe/Berlin"),
        ({"name": "../x"}, "64 letters"),
        ({"misfire": "never"}, "skip"),
        ({"fit": {}}, "exactly one"),
        ({"sweep": {"preset": "smal"}}, "small"),
        ({"sweep": {"preset": "small", "dry_run": True}}, "dry_run"),
        ({"sweep": {"preset": "small", "log_file": "x"}}, "log_file"),
        ({"budget_per_month": "20USD"}, "usd_per_hour"),
        ({"command": ["rm", "-rf", "/"]}, "command"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(client, changes, said):
    answer = client.post("/v1/schedules", json={**WEEKLY, **changes})
    assert answer.status_code == 422
    assert said in answer.text
    assert client.get("/v1/schedules").json()["schedules"] == []
