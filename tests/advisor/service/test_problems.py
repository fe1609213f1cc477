"""What cannot be asked is a problem document that says what would be right."""

import json
import re

import pytest

from advisor.answers import networks
from advisor.extras import ROOT, install_hint
from advisor.service.problems import Problem
from tests.rows import table

QUESTION = {"task": "inference", "model": "googlenet"}
ASK = "/v1/recommend"
LLAMA = "meta-llama/Llama-3.1-8B"


@pytest.mark.parametrize(("words", "kind", "field", "said"), table("http")["wrong_words"])
def test_a_wrong_word_is_named_with_what_would_be_right(refused, words, kind, field, said):
    problem = refused(422, ASK, QUESTION | words)
    assert problem["type"] == f"urn:advisor:problem:{kind}"
    assert problem.get("field") == field
    assert said in f"{problem['detail']}; {problem.get('way_out')}"
    assert "--" not in json.dumps(problem), "an option of the command line is no word of a client"


@pytest.mark.parametrize(
    ("content", "status"),
    [
        *(
            (text, 400)
            for text in (b"{", b"", b"\xff\xfe", b"[" * 5000, b'{"max_price": ' + b"9" * 5000 + b"}")
        ),
        (b'{"task": "inference", "model": "googlenet", "max_price": NaN}', 400),
        (b'{"task": "inference", "model": "googlenet", "max_price": 1e999}', 400),
        (b'{"task": "inference", "model": "\\ud800"}', 400),
        *((text, 422) for text in (b'{"task": "inference", "model": "a\\u0000b"}', b"[]", b"null")),
        (b'{"task": "inference", "model": "googlenet", "max_price": 1e308}', 200),
    ],
)
def test_what_is_no_question_is_refused_cleanly(service, content, status):
    answer = service.post(ASK, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text


def test_a_body_of_another_kind_is_refused(refused):
    """A form of another site's page cannot be sent as JSON: the browser asks first."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        problem = refused(415, ASK, content=b"{}", headers={"Content-Type": kind})
        assert "application/json" in problem["way_out"]


@pytest.mark.parametrize("words", table("http")["files"])
def test_no_file_of_the_server_is_opened_for_a_client(refused, monkeypatch, words):
    def opened(*_, **__):
        raise AssertionError("opened")

    monkeypatch.setattr("advisor.questions.values.Path", opened)
    for path in ("/v1/recommend", "/v1/memory"):
        refused(422, path, QUESTION | words)


def test_an_unknown_path_type_or_method_says_where_to_look_and_a_link_says_each_word_once(refused, service):
    assert "/openapi.json" in refused(404, "/v1/nothing")["way_out"]
    assert "did you mean g4dn.xlarge" in refused(404, "/v1/catalog/g4dn.xlrge")["way_out"]
    answer = service.delete("/v1/recommend")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, POST"
    assert service.post("/v1/networks").headers["allow"] == "GET"
    link = "/v1/recommend?task=inference&model=googlenet"
    assert "2 times" in refused(422, f"{link}&task=training")["detail"]
    assert refused(400, "/v1/recommend?model=%ff")["way_out"]
    assert refused(422, f"{link}&pareto=maybe")["field"] == "pareto"


def test_a_defect_is_told_by_its_number_alone(service, monkeypatch, caplog):
    def broken(*_, **__):
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr(networks, "predict_instance", broken)
    answer = service.post("/v1/predict", json={**QUESTION, "instance": "g4dn.xlarge", "batch_size": 7})
    assert (answer.status_code, "secret" in answer.text, "Traceback" in answer.text) == (500, False, False)
    number = answer.json()["id"]
    (line,) = [record for record in caplog.records if record.message == "defect"]
    assert answer.headers["x-request-id"] == line.id == number
    assert "the secret of the house" in line.error
    assert line.exc_info is not None


def test_a_client_is_told_what_to_install_but_not_where_the_service_lies():
    hint = install_hint("report")
    assert str(ROOT) in str(hint)
    shown = Problem(422, "unanswerable", "pdf reports need weasyprint", hint=hint).document()
    assert shown["way_out"] == "install it: python -m pip install -e '.[report]'"


def test_request_ids_are_echoed_where_they_are_ids(service):
    assert service.get("/healthz", headers={"X-Request-Id": "mine-7"}).headers["x-request-id"] == "mine-7"
    own = service.get("/healthz", headers={"X-Request-Id": "no id\t!"}).headers["x-request-id"]
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]+", own)
