"""Whether it lives, whether it can answer, and what it counted."""

import threading

import pytest

from advisor.service.routes import service as routes


@pytest.mark.parametrize(("path", "status"), [("/healthz", "alive"), ("/readyz", "ready")])
def test_it_is_alive_and_ready(service, path, status):
    """Load balancers may ask for the head alone."""
    assert service.get(path).json()["status"] == status
    assert service.head(path).status_code == 200


def test_without_a_catalogue_it_is_alive_and_not_ready(service, refused):
    service.app.state.context = None
    assert service.get("/healthz").status_code == 200
    assert "catalogue" in refused(503, "/readyz")["detail"]
    words = {"task": "inference", "model": "googlenet"}
    assert refused(503, "/v1/recommend", words)["way_out"]


def test_a_store_that_does_not_answer_makes_it_not_ready(refused, monkeypatch):
    def away(_url):
        raise OSError("connection refused")

    monkeypatch.setattr(routes, "require_store", away)
    assert "store does not answer" in refused(503, "/readyz")["detail"]


def test_the_store_is_asked_once_a_second_however_many_ask(service, monkeypatch):
    """Who needs no key must not be able to keep the store or the answers' threads busy."""
    tried = []
    monkeypatch.setattr(routes, "require_store", tried.append)
    monkeypatch.setattr(routes, "_PROBED_EVERY_SECONDS", 3600.0)
    assert {service.get("/readyz").status_code for _ in range(50)} == {200}
    assert len(tried) == 1


def test_a_store_that_hangs_keeps_nobody_waiting(service, refused, monkeypatch):
    end = threading.Event()
    monkeypatch.setattr(routes, "require_store", lambda _url: end.wait(60))
    monkeypatch.setattr(routes, "_PROBE_SECONDS", 0.05)
    assert "store does not answer" in refused(503, "/readyz")["detail"]
    words = {"task": "inference", "model": "googlenet", "target_throughput": 500}
    assert service.post("/v1/recommend", json=words).status_code == 200
    end.set()


@pytest.fixture
def counted(service):
    """The value of a line of /metrics; 0 where there is none."""

    def ask(line):
        lines = service.get("/metrics").text.splitlines()
        return next((float(item.split()[-1]) for item in lines if item.startswith(line)), 0.0)

    return ask


def test_requests_are_counted_by_route_and_status_never_by_path(service, counted):
    known = 'advisor_http_requests_total{method="GET",route="/v1/catalog/{instance_type}",status='
    lost = 'advisor_http_requests_total{method="GET",route="(none)",status="404"}'
    before = counted(known + '"200"}'), counted(known + '"404"}'), counted(lost)
    service.get("/v1/catalog/g4dn.xlarge")
    service.get("/v1/catalog/g4dn.xlrge")
    for path in ("/v1/x", "/v1/y"):
        service.get(path)
    after = counted(known + '"200"}'), counted(known + '"404"}'), counted(lost)
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1, 2]


def test_recommendations_are_counted_by_outcome(service, counted):
    met, not_met = (f'advisor_recommendations_total{{outcome="{item}"}}' for item in ("met", "not-met"))
    before = counted(met), counted(not_met)
    ask = {"task": "inference", "model": "googlenet", "target_throughput": 500, "gpu": "T4"}
    service.post("/v1/recommend", json=ask)
    service.post("/v1/recommend", json=ask | {"max_price": 0.4})
    assert (counted(met) - before[0], counted(not_met) - before[1]) == (1, 1)


def test_seconds_and_the_build_are_told(counted):
    assert counted("advisor_build_info{") == 1
    assert counted('advisor_http_request_seconds_count{route="/metrics"}') > 0
