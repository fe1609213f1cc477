"""What a team runs beside its jobs: the compose file, the dashboard, the step of GitHub Actions."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from advisor.sweeps.measure.endpoint.engines import free_ports
from benchmarks.served import Served

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "infra/deploy/compose.yaml").read_text())
DASHBOARD = json.loads((ROOT / "infra/deploy/dashboard.json").read_text())
MONITORING = (ROOT / "docs/how-to/monitoring.md").read_text()
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
ADVISOR = [sys.executable, "-m", "advisor.cli.main"]
ASKED = {"task": "inference", "model": "googlenet", "target_throughput": 500}
PYTHON = Path(sys.executable).parent
# What a scraper adds to each row.
SCRAPED = {"instance", "job"}


def test_docker_compose_takes_the_file():
    compose = pytest.importorskip("compose_spec").PyCompose
    merged = json.dumps(COMPOSE)  # the parser of the specification knows no `<<`
    assert compose.from_yaml(merged).service_names() == ["postgres", "service", "scheduler"]


def test_the_image_is_a_stage_of_the_dockerfile_with_what_the_services_need():
    dockerfile = (ROOT / "infra/Dockerfile").read_text()
    for name in ("service", "scheduler"):
        stage = COMPOSE["services"][name]["build"]["target"]
        (extras,) = re.findall(rf"AS {stage}\n[^F]*?\[([\w,]+)\]'", dockerfile)
        assert {"serve", "postgres"} <= set(extras.split(","))


@pytest.mark.slow
def test_the_commands_of_the_compose_file_work_together(postgresql, tmp_path):
    """A key, the service and the scheduler on one PostgreSQL, as processes of their own."""
    environment = {**os.environ, "ADVISOR_DATABASE_URL": postgresql.new_database()}
    key = key_of(environment, "admin")
    services, port = COMPOSE["services"], str(free_ports(1)[0])
    command = [word.replace("8765", port) for word in services["service"]["command"]]
    _, *healthy = services["service"]["healthcheck"]["test"]
    healthy = [sys.executable, *[word.replace("8765", port) for word in healthy[1:]]]
    with (
        running(command, environment),
        running(services["scheduler"]["command"], environment),
        httpx2.Client(headers={"Authorization": f"Bearer {key}"}, timeout=60) as client,
    ):
        until(lambda: subprocess.run(healthy, capture_output=True).returncode == 0)
        address = f"http://127.0.0.1:{port}"
        assert client.post(f"{address}/v1/recommend", json=ASKED).json()["recommendation"]
        until(lambda: client.get(f"{address}/v1/schedules").json()["leader"])


def test_every_expression_of_the_dashboard_is_promql():
    promql = pytest.importorskip("promql_parser")
    for expression in EXPRESSIONS:
        promql.parse(as_grafana_sends(expression))
    with pytest.raises(ValueError, match="parenthesis"):
        promql.parse("sum by (route (advisor_http_requests_total)")


@pytest.mark.slow
def test_every_metric_and_label_of_the_dashboard_is_served():
    with Served("--mcp", "--workers", "2") as service:
        use(service)
        text = httpx2.get(f"http://127.0.0.1:{service.port}/metrics").text
    labels = dict[str, set[str]]()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    for expression in EXPRESSIONS:
        names = re.findall(r"advisor_\w+", expression)
        assert set(names) <= set(labels)
        grouped = {word.strip() for by in re.findall(r"by \((.*?)\)", expression) for word in by.split(",")}
        request = grouped | set(re.findall(r"(\w+)=~?\"", expression))
        assert request - SCRAPED <= set.union(*(labels[name] for name in names))


@pytest.mark.slow
def test_a_prometheus_of_its_own_has_something_for_every_panel(tmp_path):
    """It scrapes as docs/how-to/monitoring.md tells, with a key, and is asked what Grafana asks."""
    if shutil.which("prometheus") is None:
        pytest.skip("Prometheus is not installed (make system-deps)")
    with Served("--mcp", "--workers", "2") as service, ExitStack() as block:
        key = key_of(service.environment, "read")
        (tmp_path / "key").write_text(key)
        (config,) = re.findall(r"```yaml\n(scrape_configs:.*?)```", MONITORING, re.DOTALL)
        config = yaml.safe_load(config)
        (job,) = config["scrape_configs"]
        job["authorization"]["credentials_file"] = str(tmp_path / "key")
        job["static_configs"] = [{"targets": [f"127.0.0.1:{service.port}"]}]
        config["global"] = {"scrape_interval": "1s"}
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
        address = f"127.0.0.1:{free_ports(1)[0]}"
        places = (f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/rows")
        program = ["prometheus", *places, f"--web.listen-address={address}"]
        process = subprocess.Popen(program, stderr=subprocess.DEVNULL)
        block.callback(process.wait)
        block.callback(process.terminate)
        ask = block.enter_context(httpx2.Client(base_url=f"http://{address}", timeout=60))

        def has_rows(expression):
            try:
                answer = ask.get("/api/v1/query", params={"query": as_grafana_sends(expression)})
            except httpx2.TransportError:  # it starts
                return False
            assert answer.status_code in (200, 503), answer.text
            return answer.status_code == 200 and bool(answer.json()["data"]["result"])

        def all_have_rows():
            use(service, key)  # rates are those of what comes between two looks
            return all(has_rows(expression) for expression in EXPRESSIONS)

        until(all_have_rows, seconds=120)


def use(service, key=None):
    asked = {"name": "networks", "arguments": {"search": "vgg"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
    headers = {"Accept": "application/json, text/event-stream"}
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    address = f"http://127.0.0.1:{service.port}"
    with httpx2.Client(base_url=address, headers=headers, timeout=60) as client:
        assert client.post("/v1/recommend", json=ASKED).status_code == 200
        assert client.post("/mcp", json=call).status_code == 200


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ("--task inference --model googlenet --target-throughput 500 --gpu 'T4,L4'", 0),
        ("--task inference --model googlenet --target-throughput 1000000000", 3),
        ("--task inference --model '$(touch owned)' --target-throughput 500", 2),
    ],
)
def test_the_step_of_github_actions_answers_and_ends_with_the_exit_code(tmp_path, question, code):
    """Its own shell, as a runner runs it."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "advisor"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m advisor.cli.main "$@"\n')
    program.chmod(0o755)
    output, summary = tmp_path / "output", tmp_path / "summary"
    environment = os.environ | {"PATH": f"{tmp_path}/bin:{PYTHON}:{os.environ['PATH']}"}
    environment |= {"PYTHONPATH": str(ROOT), "QUESTION": question, "ANSWER": "answer.json"}
    environment |= {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", ACTION["runs"]["steps"][1]["run"]]
    done = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == code, done.stderr
    expected = dict(line.split("=", 1) for line in output.read_text().splitlines())
    assert expected["exit-code"] == str(code)
    assert not (tmp_path / "owned").exists(), "nothing of a question is expanded"
    values = [str(entry["value"]) for entry in ACTION["outputs"].values()]
    if code == 0:
        assert set(expected) == {value.split(".")[-1].rstrip(" }") for value in values}
        chosen = json.loads((tmp_path / "answer.json").read_text())["recommendation"]
        assert expected["instance-type"] == chosen["instance_type"]
        assert chosen["instance_type"] in summary.read_text()


def key_of(environment, scope):
    words = [*ADVISOR, "keys", "add", "me", "--scope", scope]
    made = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    (key,) = re.findall(r"adv_\S+", made.stdout)
    return key


def as_grafana_sends(expression):
    return expression.replace("$__rate_interval", "1m").replace("$instance", ".*")


def until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.2)


@contextmanager
def running(words, environment):
    with subprocess.Popen([*ADVISOR, *words], env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()
