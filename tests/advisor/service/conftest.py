"""The service in this process, asked as Starlette's test client asks."""

import pytest
from fastapi.testclient import TestClient

from advisor.answers.ground import ground_in_use
from advisor.service import app as application
from advisor.service.app import create_app
from advisor.service.guard import origins
from advisor.service.settings import Settings


@pytest.fixture(autouse=True)
def _known_as_the_test_client_says(monkeypatch):
    monkeypatch.setattr(origins, "LOCAL_NAMES", origins.LOCAL_NAMES | {"testserver"})


@pytest.fixture(scope="session")
def ground():
    """What ships, loaded once for all tests."""
    return ground_in_use()


@pytest.fixture
def service(ground, monkeypatch):
    """A client of a running application without keys, asked from this machine."""
    monkeypatch.setattr(application, "ground_in_use", lambda: ground)
    app = create_app(Settings(rate_limit=0.0, log_level="error"))
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
