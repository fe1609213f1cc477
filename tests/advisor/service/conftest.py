"""The service in this process, asked as Starlette's test client asks."""

import time
from contextlib import closing

import pytest
from fastapi import APIRouter, Request
from fastapi.testclient import TestClient

from advisor.answers.context import load_context
from advisor.service import app as application
from advisor.service import gate
from advisor.service.answers import json_answer
from advisor.service.app import create_app
from advisor.service.settings import Settings
from advisor.service.visits import needs, require_spender, visit_of
from advisor.store.keys import ApiKeys, Scope

things = APIRouter(prefix="/v1/things")


@things.get("", dependencies=[needs(Scope.READ)])
def read():
    return json_answer({"read": True})


@things.get("/tagged", dependencies=[needs(Scope.READ)])
def tagged():
    answer = json_answer({})
    answer.headers["ETag"] = '"1"'
    return answer


@things.post("", dependencies=[needs(Scope.MEASURE)])
async def add(request: Request):
    visit_of(request).subject = "a\nthing"
    return json_answer({"bytes": len(await request.body())}, 201)


@things.delete("/{name}", dependencies=[needs(Scope.ADMIN)])
def remove(name: str):
    return json_answer({"removed": name})


@things.post("/spent", dependencies=[needs(Scope.MEASURE)])
def spend(request: Request):
    require_spender(request)
    return json_answer({})


@things.get("/defect", dependencies=[needs(Scope.READ)])
def defect():
    raise RuntimeError("the password is hunter2")


@pytest.fixture(autouse=True)
def _known_as_the_test_client_says(monkeypatch):
    monkeypatch.setattr(gate, "LOCAL_NAMES", gate.LOCAL_NAMES | {"testserver"})


@pytest.fixture(scope="session")
def context():
    """What ships, loaded once for all tests."""
    return load_context()


@pytest.fixture
def service(context, monkeypatch):
    """A client of a running application without keys, asked from this machine."""
    monkeypatch.setattr(application, "load_context", lambda: context)
    app = create_app(Settings(rate_limit=0.0, log_level="error"), context)
    with TestClient(app, client=("127.0.0.1", 50_000), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def refused(service):
    """Ask what cannot be; returns the problem, once it is one."""

    def ask(status, path, body=None, **more):
        method = "GET" if body is None and "content" not in more else "POST"
        answer = service.request(method, path, json=body, **more)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["status"] == status
        assert problem["type"].startswith("urn:advisor:problem:")
        return problem

    return ask


@pytest.fixture
def serve(context):
    """A client of the service under settings; `raises` is for defects."""
    clients = []

    def start(**settings):
        app = create_app(Settings(**settings), context)
        app.include_router(things)
        client = TestClient(app, raise_server_exceptions=False)
        clients.append(client)
        return client.__enter__()

    yield start
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def key_of():
    """The header of a new key of a scope."""

    def make(scope, name=None, lifetime=None, now=None):
        with closing(ApiKeys()) as book:
            moment = time.time() if now is None else now
            key, _ = book.add(name or scope, scope, lifetime_seconds=lifetime, now=moment)
        return {"Authorization": f"Bearer {key}"}

    return make
