"""Schedules over HTTP: the command's documents, and its checks."""

import json

import pytest
from click.testing import CliRunner

from advisor.cli.schedule import schedule as command
from advisor.service.problems import without_folders

WEEKLY = {"cron": "0 3 * * 1", "timezone": "Europe/Berlin", "name": "weekly", "sweep": {"preset": "small"}}
GRID = {"networks": "googlenet", "tasks": "inference", "vcpus": 1, "memory": "2GiB", "disks": "gp3"}


def command_output(*arguments):
    return without_folders(json.loads(CliRunner().invoke(command, arguments).stdout))


def timeless(document):
    return {name: value for name, value in document.items() if name != "at"}


def test_what_is_added_is_listed_and_shown_as_the_command_does(service):
    answer = service.post("/v1/schedules", json=WEEKLY)
    assert (answer.status_code, answer.headers["location"]) == (201, "/v1/schedules/weekly")
    assert answer.json()["schedule"]["command"] == ["sweep", "run", "--preset=small"]
    assert timeless(service.get("/v1/schedules").json()) == timeless(command_output("list", "-o", "json"))
    shown = service.get("/v1/schedules/weekly").json()
    assert timeless(shown) == timeless(command_output("show", "weekly", "-o", "json"))


def test_the_same_schedule_is_added_once_and_another_of_its_name_is_a_conflict(service):
    codes = [service.post("/v1/schedules", json=WEEKLY).status_code for _ in range(2)]
    assert codes == [201, 200]
    assert service.post("/v1/schedules", json={**WEEKLY, "cron": "@daily"}).status_code == 409
    assert len(service.get("/v1/schedules").json()["schedules"]) == 1


@pytest.mark.parametrize("word", ["send", "report", "reporting", "report_format", "plan"])
def test_no_client_names_where_a_report_goes(service, word):
    """Whoever may schedule over HTTP may not have this machine connect or write anywhere."""
    for words in ({word: "https://127.0.0.1/"}, {"fit": {word: ["file:/tmp/x"]}, "sweep": None}):
        assert service.post("/v1/schedules", json={**WEEKLY, **words}).status_code in (400, 422)
    assert service.get("/v1/schedules").json()["schedules"] == []


def test_what_is_wrong_within_a_sweep_is_named_by_its_place_in_the_body(service):
    body = {"cron": "@daily", "sweep": {**GRID, "batch_sizes": ["8", 1.5]}}
    refused = service.post("/v1/schedules", json=body).json()
    assert refused["field"] == "sweep.batch_sizes"
    assert refused["detail"] == "batch_sizes must be a whole number, not '1.5'"
    assert service.post("/v1/schedules", json={"sweep": GRID}).json()["field"] == "cron"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"timezone": "Europe/Berln"}, "Europe/Berlin"),
        ({"fit": {}}, "exactly one"),
        ({"sweep": {"preset": "small", "dry_run": True}}, "dry_run"),
        ({"sweep": {"preset": "small", "log_file": "x"}}, "log_file"),
        ({"command": ["rm", "-rf", "/"]}, "command"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(service, changes, said):
    answer = service.post("/v1/schedules", json={**WEEKLY, **changes})
    assert answer.status_code == 422
    assert said in answer.text
    assert service.get("/v1/schedules").json()["schedules"] == []
