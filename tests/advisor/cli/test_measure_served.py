"""`advisor measure --endpoint`: the file is written, whatever the server does; no secret stays."""

import json
import os
import shlex
import signal
import subprocess
import sys

import jsonschema
import pytest

from tests.processes import as_in_a_terminal
from tests.sweeps.measure.endpoint.openai_server import WELL, fake_endpoint
from tests.sweeps.measure.endpoint.test_anchors import SCHEMA

pytestmark = pytest.mark.usefixtures("own_folder")
KEY = "sk-secret-0123456789"
SHORT = ("--minutes", "0.04", "--output-tokens", "10", "--input-tokens", "40")


def test_an_endpoint_is_measured_into_an_anchor(ask, tmp_path):
    with fake_endpoint() as endpoint:
        code, shown, output = ask(
            "measure",
            "--endpoint",
            endpoint.url,
            *shlex.split("--model org/Model-8B --gpu L4 --engine vllm --precision fp8 --concurrency 4,1"),
            *shlex.split("--rate 20"),
            *SHORT,
        )
    assert code == 0, output
    document = json.loads((tmp_path / "anchor-Model-8B.json").read_text())
    jsonschema.validate(document, SCHEMA)
    assert [load["concurrency"] for load in document["loads"]] == [1, 4, None]
    assert document["deployment"]["gpu"] == "L4"
    assert document["deployment"]["precision"] == "fp8"
    assert shown.startswith("org/Model-8B by vllm on 1x L4\n")
    for text in ("1 in flight", "4 in flight", "20/s (Poisson)", "without the first token"):
        assert text in shown
    assert max(map(len, shown.splitlines())) <= 100
    assert (tmp_path / "anchor-Model-8B.requests.jsonl").read_text().count("\n") > 10


@pytest.mark.slow
def test_a_server_that_fails_later_leaves_what_was_measured(ask, tmp_path):
    """Exit code 1 with the fault and its way out; the file has the loads until then."""
    with fake_endpoint(behaviours=[*[WELL] * 60, "429"]) as endpoint:
        code, _, text = ask(
            "measure", "--endpoint", endpoint.url, "--model", "m", "--concurrency", "2,3", *SHORT
        )
    document = json.loads((tmp_path / "anchor-m.json").read_text())
    jsonschema.validate(document, SCHEMA)
    assert code == 1
    assert document["loads"][-1]["status"] == "rate_limited"
    assert any("limits how often" in warning for warning in document["warnings"])
    assert "lift the limit" in text


def test_a_server_that_answers_nothing_leaves_no_anchor(ask, tmp_path):
    with fake_endpoint(behaviours=["page"]) as endpoint:
        code, _, text = ask("measure", "--endpoint", endpoint.url, "--model", "m", *SHORT)
    assert code == 1
    assert "text/html" in text
    assert "\x1b" not in text
    assert list(tmp_path.glob("anchor-m.*")) == []


def test_ctrl_c_keeps_what_was_measured(tmp_path):
    """The anchor is written with a warning, and the exit code is Ctrl-C's."""
    with fake_endpoint() as endpoint:
        command = [
            sys.executable,
            *shlex.split("-m advisor measure --endpoint"),
            endpoint.url,
            *shlex.split("--model m --concurrency 1,2 --minutes 1 --output-tokens 10"),
        ]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(
            command,
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            preexec_fn=as_in_a_terminal,
        ) as process:
            requests = tmp_path / "anchor-m.requests.jsonl"
            for line in process.stderr:
                if "completions" in line:
                    break
            while not requests.exists() or requests.read_text().count("\n") < 30:
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            text = process.stderr.read()
            assert process.wait(30) == 130, text
    document = json.loads((tmp_path / "anchor-m.json").read_text())
    assert document["loads"][0]["tpot_seconds"]["count"] > 0
    assert any("interrupted" in warning for warning in document["warnings"])
    assert "Traceback" not in text
