"""`advisor serve` as a process: how it starts, what it imports, and how it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

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
        second = subprocess.run(
            [sys.executable, "-m", "advisor", "serve", "--port", str(service.port)],
            env=service.environment,
            capture_output=True,
            text=True,
        )
    assert second.returncode == 2
    (line,) = second.stderr.splitlines()
    assert line.startswith(f"advisor: port {service.port} is taken")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_damaged_model_is_one_line_and_exit_1(tmp_path, workers):
    folder = tmp_path / "instance-sizing-advisor"
    folder.mkdir()
    (folder / "model.json").write_text('{"a":')
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    ended = subprocess.run(
        [sys.executable, "-m", "advisor", "serve", "--port", port, "--workers", str(workers)],
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert "fit it again" in last


@pytest.mark.slow
def test_workers_count_together_and_leave_nothing(tmp_path):
    with Served("--workers", "2", variables={"TMPDIR": str(tmp_path)}) as service:
        for _ in range(12):
            _asked(service, "/healthz")
        text = _asked(service, "/metrics").decode()
        line = 'advisor_http_requests_total{method="GET",route="/healthz",status="200"} '
        assert float(text.partition(line)[2].split()[0]) == 12
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_its_log_is_json_lines():
    with Served() as service:
        _asked(service, "/healthz")
    lines = service.log.splitlines()
    assert lines[0].startswith("advisor: serving on http://127.0.0.1:")
    text = [json.loads(line) for line in lines if line.startswith("{")]
    assert {"request"} == {event["event"] for event in text}


def _asked(service, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{service.port}{path}", timeout=10) as answer:
        return answer.read()
