"""The way around the framework: the same answers, the same refusals, the same checks."""

import pytest
from fastapi.testclient import TestClient

from advisor.service import app as application
from advisor.service.settings import Settings

ASK = b'{"task": "inference", "model": "googlenet", "instance": "g4dn.xlarge"}'
JSON = {"Content-Type": "application/json"}
KEPT = ("content-type", "www-authenticate", "allow", "x-content-type-options", "cache-control")


@pytest.fixture
def longer(service, monkeypatch):
    """The same service without the shortcut."""
    monkeypatch.setattr(application, "ASKED_MOST", ())
    app = application.create_app(Settings(rate_limit=0.0, log_level="error"))
    with TestClient(app, client=("127.0.0.1", 50_000)) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path", "more"),
    [
        ("POST", "/v1/predict", {"content": ASK, "headers": JSON}),
        ("POST", "/v1/predict", {"content": b"{", "headers": JSON}),
        ("POST", "/v1/predict", {"content": b"{}", "headers": JSON}),
        ("POST", "/v1/predict", {"content": ASK}),
        ("POST", "/v1/predict", {"content": ASK.replace(b"g4dn", b"g44"), "headers": JSON}),
        ("POST", "/v1/predict", {"content": b" " * 2_000_000, "headers": JSON}),
        ("POST", "/v1/predict", {"content": ASK, "headers": {**JSON, "Authorization": "Bearer x"}}),
        ("GET", "/v1/memory?model=resnet50", {}),
        ("GET", "/v1/memory?model=nope", {}),
        ("PUT", "/v1/memory", {}),
        ("GET", "/v1/memory/", {}),
    ],
)  # fmt: skip
def test_it_answers_as_the_framework_would(service, longer, method, path, more):
    ours, theirs = (one.request(method, path, **more) for one in (service, longer))
    assert (ours.status_code, ours.content) == (theirs.status_code, theirs.content)
    for name in KEPT:
        assert ours.headers.get(name) == theirs.headers.get(name)


def test_both_are_counted_under_the_same_route(service, longer):
    line = 'advisor_http_requests_total{method="POST",route="/v1/predict",status="422"}'

    def counted():
        lines = service.get("/metrics").text.splitlines()
        return next((float(one.split()[-1]) for one in lines if one.startswith(line)), 0.0)

    before = counted()
    for one in (service, longer):
        one.post("/v1/predict", json={})
    assert counted() == before + 2
