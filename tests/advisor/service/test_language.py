"""The service answers about language models as the command line does, and refuses what it does."""

import json

import pytest

from advisor.cli.main import run
from tests.alike import alike

SERVE = {"task": "generation", "model": "meta-llama/Llama-3.1-8B", "users": 8, "allow_extrapolation": True}
WORDS = [
    "--task",
    "generation",
    "--model",
    "meta-llama/Llama-3.1-8B",
    "--users",
    "8",
    "--allow-extrapolation",
]


def test_a_recommendation_is_the_command_lines(service, capsys):
    answer = service.post("/v1/recommend", json=SERVE)
    assert answer.status_code == 200
    assert run(["recommend", *WORDS, "-o", "json"]) == 0
    assert alike(answer.json(), json.loads(capsys.readouterr().out))
    link = service.get("/v1/recommend", params={**SERVE, "allow_extrapolation": "true"})
    assert link.json() == answer.json()


@pytest.mark.parametrize(
    ("path", "body", "key"),
    [
        ("predict", {"instance": "g6e.xlarge"}, "serving"),
        ("compare", {"instance": ["g6e.xlarge", "g5.xlarge"]}, "rows"),
        ("memory", {}, "kv_bytes_per_token"),
    ],
)
def test_each_route_takes_the_task(service, path, body, key):
    question = {name: SERVE[name] for name in ("task", "model")} | body
    answer = service.post(f"/v1/{path}", json=question)
    assert answer.status_code == 200, answer.text
    assert key in answer.json()


def test_a_client_names_no_file(service):
    for field, value in (
        ("config", "/etc/passwd"),
        ("traffic", "/etc/passwd"),
        ("anchor", ["x.json"]),
        ("model", "/etc/passwd"),
    ):
        answer = service.post("/v1/recommend", json={**SERVE, field: value})
        assert answer.status_code == 422, field


@pytest.mark.parametrize("form", ["json", "csv", "md", "compose", "skypilot", "terraform", "html"])
def test_an_answer_is_a_file_in_each_format(service, form):
    answer = service.post(f"/v1/reports/{form}", json=SERVE)
    assert answer.status_code == 200, answer.text
    assert "Llama-3.1-8B" in answer.text or "g6" in answer.text
    assert 'filename="' in answer.headers["content-disposition"]
