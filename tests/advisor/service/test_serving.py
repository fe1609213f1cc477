"""`advisor serve` as a process: what it refuses, how it starts, lives, counts and ends."""

import json
import signal
import subprocess
import sys
import threading
import urllib.request

import pytest

from advisor.cli.serve import body_bytes, request_rate
from advisor.errors import DataError, UsageError
from advisor.service import gate
from advisor.service.server import check_may_listen
from advisor.service.settings import Settings
from benchmarks.served import Served

HEAVY = {"torch", "ray", "boto3", "botocore", "pandas", "sklearn", "scipy", "torchvision"}
ASKED = """
import json, sys
from fastapi.testclient import TestClient
from advisor.service.app import create_app
from advisor.service.settings import Settings
ASK = {"task": "inference", "model": "googlenet"}
with TestClient(create_app(Settings()), base_url="http://localhost",
                client=("127.0.0.1", 5)) as client:
    codes = [
        client.get("/readyz").status_code,
        client.post("/v1/recommend", json=ASK | {"target_throughput": 500}).status_code,
        client.post("/v1/recommend", json=ASK | {"target_throughput": 500, "gpu": "T4",
                                                 "max_price": 0.4}).status_code,
        client.post("/v1/predict", json=ASK | {"instance": "g5.xlarge"}).status_code,
        client.post("/v1/compare", json=ASK | {"gpu": "T4,L4"}).status_code,
        *[client.get(path).status_code for path in
          ("/v1/memory?model=resnet50", "/v1/catalog", "/v1/networks", "/v1/gpus", "/metrics")],
    ]
modules = {name.partition(".")[0] for name in sys.modules}
print(json.dumps({"codes": codes, "modules": sorted(modules)}))
"""


def test_it_starts_and_answers_without_anything_heavy():
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout.splitlines()[-1])
    assert set(seen["codes"]) == {200}
    assert not HEAVY & set(seen["modules"])


@pytest.mark.slow
@pytest.mark.parametrize(("number", "left_with"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_it_ends_by_a_signal_as_all_commands_do(number, left_with):
    with Served() as service:
        service._process.send_signal(number)
        assert service._process.wait(15) == left_with
    assert "Traceback" not in service.log


@pytest.mark.slow
def test_a_port_that_is_taken_is_one_line_and_exit_2():
    with Served() as service:
        command = [sys.executable, "-m", "advisor", "serve", "--port", str(service.port)]
        second = subprocess.run(command, env=service.environment, capture_output=True, text=True)
    assert second.returncode == 2
    (line,) = second.stderr.splitlines()
    assert f"cannot listen on 127.0.0.1:{service.port} (Address already in use)" in line


@pytest.mark.slow
def test_workers_count_together_and_leave_nothing(tmp_path):
    with Served("--workers", "2", variables={"TMPDIR": str(tmp_path)}) as service:
        for _ in range(12):
            _answer_of(service, "/healthz")
        text = _answer_of(service, "/metrics").decode()
        line = 'advisor_http_requests_total{method="GET",route="/healthz",status="200"} '
        assert float(text.partition(line)[2].split()[0]) == 12
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_its_log_is_json_lines():
    with Served() as service:
        _answer_of(service, "/healthz")
    lines = service.log.splitlines()
    assert lines[0].startswith("advisor: serving on http://127.0.0.1:")
    text = [json.loads(line) for line in lines if line.startswith("{")]
    assert {"request"} == {event["event"] for event in text}


def _answer_of(service, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{service.port}{path}", timeout=10) as answer:
        return answer.read()


def test_only_with_a_key_that_works_and_an_audit_log_it_may_listen_elsewhere(key_of, tmp_path):
    key_of("read", "old", lifetime=60.0, now=1.0)
    with pytest.raises(UsageError, match="keys add"):
        check_may_listen(Settings(host="0.0.0.0"))
    key_of("read")
    check_may_listen(Settings(host="0.0.0.0"))
    check_may_listen(Settings(public_hosts=("advisor.example",)))
    with pytest.raises(DataError, match="--audit-log"):
        check_may_listen(Settings(audit_log=str(tmp_path)))


def test_a_rate_is_so_many_a_second_and_a_body_has_a_size_with_its_unit():
    assert (request_rate(" 600/s "), request_rate("0"), body_bytes("1MiB")) == (600.0, 0.0, 1024**2)
    for read, texts in ((request_rate, ("-1", "5/min", "nan", "")), (body_bytes, ("5", "2GiB", "x"))):
        for text in texts:
            with pytest.raises(UsageError):
                read(text)


def test_half_of_tls_is_refused(stderr, tmp_path):
    (tmp_path / "certificate.pem").touch()
    assert "belong together" in stderr("serve", "--tls-certificate", tmp_path / "certificate.pem")


@pytest.mark.parametrize(("path", "status"), [("/healthz", "alive"), ("/readyz", "ready")])
def test_it_is_alive_and_ready(service, path, status):
    assert service.get(path).json()["status"] == status
    assert service.head(path).status_code == 200


def test_without_a_catalogue_it_is_alive_and_not_ready(service, refused):
    service.app.state.context = None
    assert service.get("/healthz").status_code == 200
    assert "catalogue" in refused(503, "/readyz")["detail"]
    words = {"task": "inference", "model": "googlenet"}
    assert refused(503, "/v1/recommend", words)["way_out"]


def test_a_store_that_does_not_answer_makes_it_not_ready(refused, monkeypatch):
    def away(_keys):
        raise DataError("connection refused")

    monkeypatch.setattr(gate.KeyCache, "_fetch", away)
    monkeypatch.setattr(gate, "FRESH_SECONDS", 0.0)
    assert "store does not answer" in refused(503, "/readyz")["detail"]


def test_a_store_that_hangs_keeps_nobody_waiting(service, refused, monkeypatch):
    end = threading.Event()
    service.get("/v1/gpus")
    monkeypatch.setattr(gate.KeyCache, "_fetch", lambda _keys: end.wait(60))
    monkeypatch.setattr(gate, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(gate, "_READING_SECONDS", 0.05)
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


def test_requests_are_counted_by_route_and_status_and_recommendations_by_outcome(service, counted):
    known = 'advisor_http_requests_total{method="GET",route="/v1/catalog/{instance_type}",status='
    lost = 'advisor_http_requests_total{method="GET",route="(none)",status="404"}'
    before = counted(known + '"200"}'), counted(known + '"404"}'), counted(lost)
    service.get("/v1/catalog/g4dn.xlarge")
    service.get("/v1/catalog/g4dn.xlrge")
    for path in ("/v1/x", "/v1/y"):
        service.get(path)
    after = counted(known + '"200"}'), counted(known + '"404"}'), counted(lost)
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1, 2]
    met, not_met = (f'advisor_recommendations_total{{outcome="{item}"}}' for item in ("met", "not-met"))
    before = counted(met), counted(not_met)
    ask = {"task": "inference", "model": "googlenet", "target_throughput": 500, "gpu": "T4"}
    service.post("/v1/recommend", json=ask)
    service.post("/v1/recommend", json=ask | {"max_price": 0.4})
    assert (counted(met) - before[0], counted(not_met) - before[1]) == (1, 1)
    assert counted("advisor_build_info{") == 1
    assert counted('advisor_http_request_seconds_count{route="/metrics"}') > 0
