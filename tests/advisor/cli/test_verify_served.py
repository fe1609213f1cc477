"""`advisor verify --task generation`: one load of an endpoint settles a spec, or says why not."""

import json
import shlex

import jsonschema
import pytest

from advisor.answers.reporting.saved import first_fault
from tests.sweeps.measure.endpoint.openai_server import WELL, fake_endpoint
from tests.sweeps.measure.endpoint.test_anchors import SCHEMA

pytestmark = pytest.mark.usefixtures("own_folder")
ASKED = (
    *shlex.split("verify --task generation --model meta-llama/Llama-3.1-8B --input-tokens 60"),
    *shlex.split("--output-tokens 10 --allow-extrapolation --minutes 0.03"),
)


def verified(ask, endpoint, *more):
    return ask(*ASKED, "--endpoint", endpoint.url, *more)


def test_a_server_that_keeps_its_limit_passes(ask, tmp_path):
    with fake_endpoint(tpot_seconds=0.01) as endpoint:
        code, shown, text = verified(
            ask, endpoint, *shlex.split("--users 3 --max-tpot-ms 200 --instance g6.xlarge --out anchor.json")
        )
        assert endpoint.most_in_flight == 3
    assert code == 0, text
    assert shown.startswith("Keeps target and limits")
    assert "take g6.xlarge" in shown
    assert "nobody but you says that the endpoint runs on L4" in shown
    assert max(map(len, shown.splitlines())) <= 100
    anchor = json.loads((tmp_path / "anchor.json").read_text())
    jsonschema.validate(anchor, SCHEMA)
    assert (anchor["deployment"]["gpu"], anchor["engine"]["name"]) == ("L4", "vllm")


def test_a_server_that_breaks_its_limit_misses_with_exit_code_3(ask):
    with fake_endpoint(tpot_seconds=0.02) as endpoint:
        code, shown, _ = verified(
            ask,
            endpoint,
            *shlex.split("--users 2 --max-tpot-ms 5 --max-ttft-ms 5000 --instance g6.xlarge -o json"),
        )
    document = json.loads(shown)
    assert first_fault(document, "advisor.serving-verification/1") is None
    assert code == 3
    assert document["verdict"] == "missed"
    verdicts = {row["name"]: row["verdict"] for row in document["criteria"]}
    assert verdicts == {"ttft_seconds": "pass", "tpot_seconds": "missed", "failed_share": "pass"}


def test_a_server_that_fails_is_an_error_and_no_verdict(ask):
    """A fault is no missed target: exit code 1, and the fault."""
    with fake_endpoint(behaviours=[*[WELL] * 6, "500"]) as endpoint:
        code, shown, text = verified(ask, endpoint, "--users", "2", "--instance", "g6.xlarge")
    assert code == 1
    assert shown == ""
    assert "said 500" in text
