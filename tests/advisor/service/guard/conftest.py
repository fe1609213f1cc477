"""The service with a few routes of its own, and keys."""

import time
from contextlib import closing

import pytest
from fastapi import APIRouter, Request
from starlette.testclient import TestClient

from advisor.runs.store.keys import ApiKeys
from advisor.service.access import Scope, audit_subject, may_spend, needs
from advisor.service.access_keys import add_key
from advisor.service.answers import json_answer
from advisor.service.app import create_app
from advisor.service.settings import Settings

things = APIRouter(prefix="/v1/things")


@things.get("", dependencies=[needs(Scope.READ)])
def read():
    return json_answer({"read": True})


@things.get("/tagged", dependencies=[needs(Scope.READ)])
def tagged():
    answer = json_answer({})
    answer.headers["ETag"] = '"1"'
    answer.headers["Access-Control-Allow-Origin"] = "*"
    return answer


@things.post("", dependencies=[needs(Scope.MEASURE)])
async def add(request: Request):
    audit_subject(request, "a\nthing")
    return json_answer({"bytes": len(await request.body())}, 201)


@things.delete("/{name}", dependencies=[needs(Scope.ADMIN)])
def remove(name: str):
    return json_answer({"removed": name})


@things.post("/spent", dependencies=[needs(Scope.MEASURE)])
def spend(request: Request):
    may_spend(request)
    return json_answer({})


@things.get("/defect", dependencies=[needs(Scope.READ)])
def defect():
    raise RuntimeError("the password is hunter2")


@pytest.fixture
def serve():
    """A client of the service under settings; `raises` is for defects."""
    clients = []

    def start(**settings):
        app = create_app(Settings(**settings))
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
            key, _ = add_key(book, name or scope, scope, lifetime_seconds=lifetime, now=moment)
        return {"Authorization": f"Bearer {key}"}

    return make
