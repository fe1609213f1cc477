"""A real engine on the loopback: `transformers serve` with a small model of random weights."""

import json
import os

import jsonschema
import pytest

from tests.sweeps.endpoint.anchor_schema import SCHEMA
from tests.sweeps.endpoint.tiny_model import program, save_tiny_llama

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_real_engine_is_started_measured_and_ended(tmp_path, monkeypatch, capfd):
    """By the command that users type: both kinds of load, the lengths asked for, and its version.
    The engine refuses fields of vLLM's, tells no version, and counts tokens."""
    pytest.importorskip("transformers")
    pytest.importorskip("openai")
    from advisor.cli.main import run

    model = save_tiny_llama(tmp_path / "tiny")
    program(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code = run([
        "measure", "--engine", "transformers", "--model", str(model), "--precision", "bf16",
        "--input-tokens", "64", "--output-tokens", "16", "--concurrency", "1,4", "--rate", "2",
        "--minutes", "0.6", "--out", str(tmp_path / "anchor.json"),
    ])  # fmt: skip
    told = capfd.readouterr().err
    assert code == 0, told
    document = json.loads((tmp_path / "anchor.json").read_text())
    jsonschema.validate(document, SCHEMA)
    assert document["engine"]["name"] == "transformers"
    assert document["engine"]["version"]
    assert document["engine"]["ready_seconds"] > 0
    assert not document["endpoint"]["forces_length"]
    assert document["endpoint"]["counts_tokens"]
    for load in document["loads"]:
        assert load["requests"]["failed"] == 0
        assert load["input_tokens"]["mean"] == pytest.approx(64, rel=0.15)
        assert load["output_tokens"]["mean"] == load["asked_tokens"]["mean"]
        assert load["ttft_seconds"]["mean"] > 0
        assert load["tpot_seconds"]["mean"] > 0
