"""Measurements over HTTP: the same rows and documents as on the command line."""

import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from advisor.cli.measurements import measurements as command
from advisor.service.app import create_app
from advisor.service.settings import Settings
from advisor.store import default_database_url
from advisor.store.measurements import open_store
from advisor.sweeps.formats import to_csv, to_jsonl
from tests.sweeps.builders import row


@pytest.fixture
def client():
    app = create_app(Settings(most_import_bytes=100_000, rate_limit=0.0))
    with TestClient(app, base_url="http://localhost") as client:
        yield client


def some(count, **changes):
    return [row(512.0 + number, **changes) for number in range(count)]


def sent(client, text, **headers):
    headers = {"content-type": "application/x-ndjson", **headers}
    return client.post("/v1/measurements/import", content=text, headers=headers)


def command_output(*arguments):
    return CliRunner().invoke(command, arguments).stdout


def test_what_is_imported_is_listed_and_exported_as_the_command_does_and_taken_once(client):
    rows = some(3)
    answer = sent(client, to_jsonl(rows))
    assert (answer.status_code, answer.json()["added"]) == (200, 3)
    assert client.get("/v1/measurements").json() == json.loads(command_output("list", "-o", "json"))
    assert client.get("/v1/measurements/export").text == command_output("export") == to_jsonl(rows)
    csv = client.get("/v1/measurements/export", params={"format": "csv"})
    assert csv.text == command_output("export", "--format", "csv") == to_csv(rows)
    again = sent(client, to_jsonl(rows)).json()
    assert (again["added"], again["replaced"], again["known"]) == (0, 0, 3)
    assert len(open_store().summaries()) == 3


def test_bad_lines_are_told_by_number_and_the_good_ones_alone_are_kept(client):
    answer = sent(client, "no JSON\n")
    assert answer.status_code == 422
    assert answer.json()["refused"][0]["line"] == 1
    assert answer.json()["way_out"]
    assert sent(client, "a,b", **{"content-type": "text/csv"}).status_code == 415
    answer = sent(client, "no JSON\n" + to_jsonl(some(1)) + "{}\n")
    assert answer.status_code == 207
    assert [entry["line"] for entry in answer.json()["refused"]] == [1, 3]
    assert len(open_store().summaries()) == 1


def test_pages_follow_each_other_by_links_and_miss_nothing_that_comes_meanwhile(client):
    sent(client, to_jsonl(some(5)))
    result, url = [], "/v1/measurements?limit=2&task=preprocessing"
    while url:
        answer = client.get(url)
        result += [row["memory_mib"] for row in answer.json()["measurements"]]
        url = answer.links.get("next", {}).get("url")
        if len(result) == 2:
            sent(client, to_jsonl(some(6)))
    assert result == [512.0 + i for i in range(6)]


@pytest.mark.parametrize("words", [{"task": "infrence"}, {"limit": 0}, {"cursor": "../x"}, {"modle": "x"}])
def test_a_wrong_filter_is_refused_by_name(client, words):
    answer = client.get("/v1/measurements", params=words)
    assert answer.status_code == 422
    assert next(iter(words)) in answer.json()["detail"]


def test_a_new_store_is_its_owners_alone_and_a_row_that_cannot_be_read_hides_no_other(client):
    """What was measured, where and with which keys is nobody else's on this machine."""
    sent(client, to_jsonl(some(1)))
    store = default_database_url().removeprefix("sqlite:///")
    assert stat.S_IMODE(Path(store).stat().st_mode) == 0o600
    sent(client, to_jsonl(some(2)))
    with closing(sqlite3.connect(open_store().name)) as connection:
        connection.execute("UPDATE measurements SET payload = '{' WHERE number = 1")
        connection.commit()
    listed = client.get("/v1/measurements").json()
    assert (len(listed["measurements"]), len(listed["damaged"])) == (1, 1)
    exported = client.get("/v1/measurements/export").text
    assert sent(client, exported).json()["refused"][0]["line"] == 2
