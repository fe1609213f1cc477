"""The service answers about language models as the command line does, and refuses what it does."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.cli.main import run
from advisor.questions.commands import RECOMMEND
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


def test_fine_tuning_is_answered_too(service):
    body = {"task": "finetuning", "model": SERVE["model"], "tokens": 1e8, "allow_extrapolation": True}
    answer = service.post("/v1/recommend", json=body).json()
    assert answer["recommendation"]["run"]["hours"]["median"] > 0
    assert answer["recommendation"]["tuning"]["method"] == "lora"


def test_a_field_of_other_tasks_is_a_422_with_its_name(service):
    answer = service.post("/v1/recommend", json={**SERVE, "batch_size": 8})
    assert answer.status_code == 422
    assert answer.json()["field"] == "batch_size"
    assert "goes with task" in answer.json()["detail"]


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


NAMES = sorted({name for kind in RECOMMEND.kinds for name in kind.fields})
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**18),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.lists(st.text(max_size=5), max_size=3),
    st.just({}),
    st.sampled_from(["auto", "fp8", "chat", "T4,L4", "spot", "vllm", "1e309", "\x00"]),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.dictionaries(st.sampled_from(NAMES), JUNK, max_size=4))
def test_no_body_brings_the_service_down(service, changes):
    """Whatever a field holds: an answer, or a problem that says what is wrong."""
    answer = service.post(
        "/v1/recommend",
        content=json.dumps({**SERVE, **changes}),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code in (200, 400, 422), answer.text
    if answer.status_code != 200:
        assert answer.json()["detail"]
