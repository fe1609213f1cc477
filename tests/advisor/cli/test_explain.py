"""`--explain` on the command line."""

import json
import shlex
from importlib.resources import files

import jsonschema
import pytest

pytestmark = pytest.mark.vector

SCHEMA = json.loads((files("advisor.render") / "schemas/recommendation.schema.json").read_text())
QUESTION = ("recommend", "--task", "inference", "--model", "googlenet")


def test_recommend_explains_the_spec_that_it_chose(ask):
    question = (*QUESTION, "--target-throughput", "500", "--explain")
    document = json.loads(ask(*question, "-o", "json")[1])
    jsonschema.validate(document, SCHEMA)
    chosen, found = document["recommendation"], document["explanation"]
    assert found["instance_type"] == chosen["instance_type"]
    stage = found["bottleneck"]
    assert stage["samples_per_second"] == chosen["stage_rates"][stage["stage"]]
    assert f"Why {chosen['instance_type']}" in ask(*question)[1]


def test_predict_and_recommend_explain_alike(ask):
    chosen = json.loads(ask(*QUESTION, "--explain", "-o", "json")[1])
    pick = chosen["recommendation"]
    _, out, _ = ask(
        *shlex.split("predict --task inference --model googlenet --batch-size"),
        str(pick["batch_size"]),
        "--instance",
        pick["instance_type"],
        "--disk",
        pick["disk"]["order"],
        "--explain",
        "-o",
        "json",
    )
    one, other = json.loads(out)["explanation"], chosen["explanation"]
    assert one["measured_range"] == other["measured_range"]
    for gain, same in zip(one["gains"], other["gains"], strict=True):
        assert gain["step"] == same["step"]
        assert gain["samples_per_second"] == pytest.approx(same["samples_per_second"], abs=1e-6)


def test_where_nothing_answers_the_nearest_is_explained(ask):
    question = (*QUESTION, "--target-throughput", "1e7", "--explain", "-o", "json")
    code, out, _ = ask(*question)
    document = json.loads(out)
    assert code == 3
    assert document["explanation"]["instance_type"] == document["nearest"]["instance_type"]


def test_an_explanation_is_made_only_when_asked_and_never_dropped_silently(ask):
    assert json.loads(ask(*QUESTION, "-o", "json")[1])["explanation"] is None
    code, out, err = ask(*QUESTION, "--explain", "-o", "csv")
    assert (code, out) == (2, "")
    assert "-o table, json or yaml" in err
