"""The whole service on a real PostgreSQL: keys, logins, measurements and schedules."""

import time
from contextlib import closing

import pytest
from starlette.testclient import TestClient

from advisor.service import gate
from advisor.service.app import create_app
from advisor.service.settings import Settings
from advisor.store.keys import ApiKeys
from advisor.sweeps.formats import to_jsonl
from tests.sweeps.builders import row

LINES = to_jsonl(map(row, (1024.0, 2048.0, 4096.0)))


@pytest.fixture
def url(postgresql):
    return postgresql.new_database()


@pytest.fixture
def client(url):
    with TestClient(create_app(Settings(database_url=url, rate_limit=0.0))) as test_client:
        yield test_client


@pytest.fixture
def mine(url):
    with closing(ApiKeys(url)) as book:
        key, _ = book.add("mine", "measure", lifetime_seconds=None, now=time.time())
    return {"Authorization": f"Bearer {key}"}


def test_measurements_go_in_and_come_out(client, mine):
    kind = {"Content-Type": "application/x-ndjson"}
    first = client.post("/v1/measurements/import", content=LINES, headers=mine | kind)
    assert (first.status_code, first.json()["added"]) == (200, 3)
    again = client.post("/v1/measurements/import", content=LINES, headers=mine | kind)
    assert (again.json()["added"], again.json()["known"]) == (0, 3)
    page = client.get("/v1/measurements", params={"limit": 2}, headers=mine)
    assert len(page.json()["measurements"]) == 2
    rest = client.get(page.links["next"]["url"], headers=mine)
    assert len(rest.json()["measurements"]) == 1
    assert client.get("/v1/measurements/export", headers=mine).text == LINES


def test_a_login_and_a_key_end_when_the_key_is_revoked(client, mine, url, monkeypatch):
    form = {"key": mine["Authorization"].removeprefix("Bearer ")}
    own = {"Origin": "http://testserver"}
    assert client.post("/login", data=form, headers=own, follow_redirects=False).status_code == 303
    assert client.get("/v1/sweeps").status_code == 200
    with closing(ApiKeys(url)) as book:
        book.revoke("mine", now=time.time())
    monkeypatch.setattr(gate, "FRESH_SECONDS", 0.0)
    assert client.get("/v1/sweeps").status_code == 401
    assert client.get("/v1/sweeps", headers=mine).status_code == 401


def test_a_database_that_is_away_opens_no_door(client, mine, monkeypatch):
    assert client.get("/v1/networks", headers=mine).status_code == 200

    def away(*_, **__):
        raise gate.AdvisorError("the database is away")

    monkeypatch.setattr(ApiKeys, "holders", away)
    monkeypatch.setattr(gate, "FRESH_SECONDS", 0.0)
    assert client.get("/v1/networks", headers=mine).status_code == 200  # for some seconds
    monkeypatch.setattr(gate, "STALE_SECONDS", 0.0)
    answer = client.get("/v1/networks", headers=mine)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert client.get("/healthz").status_code == 200
