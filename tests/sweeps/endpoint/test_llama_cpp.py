"""llama.cpp's own server on the loopback, with a small model of random weights."""

import json
import subprocess
import sys

import jsonschema
import pytest

from advisor.cli.main import run
from tests.sweeps.endpoint.anchor_schema import SCHEMA

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    for name in ("xllamacpp", "gguf"):
        pytest.importorskip(name, reason=f"no {name} here: pip install xllamacpp gguf")
    model = tmp_path_factory.mktemp("llama") / "tiny.gguf"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.sweeps.endpoint.tiny_gguf", str(model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process.stdout.readline().strip()
        process.stdin.close()
        process.terminate()


def test_its_server_is_measured_without_a_failed_request(endpoint, tmp_path, capfd):
    """Both kinds of load and the lengths asked for, though it ends each connection after an
    answer; what it calls itself stands in the anchor."""
    code = run(
        [
            "measure",
            "--endpoint",
            endpoint,
            "--model",
            "meta-llama/Llama-3.1-8B",
            "--input-tokens",
            "64",
            "--output-tokens",
            "16",
            "--concurrency",
            "1,4",
            "--rate",
            "4",
            "--minutes",
            "0.2",
            "--out",
            str(tmp_path / "anchor.json"),
        ]
    )
    assert code == 0, capfd.readouterr().err
    document = json.loads((tmp_path / "anchor.json").read_text())
    jsonschema.validate(document, SCHEMA)
    assert document["engine"]["name"] == "llama.cpp"
    assert document["endpoint"]["forces_length"]
    assert document["endpoint"]["counts_tokens"]
    for load in document["loads"]:
        assert load["requests"]["completed"] > 0
        assert load["requests"]["failed"] == 0
        assert load["input_tokens"]["mean"] == pytest.approx(64, rel=0.15)
        assert load["output_tokens"]["mean"] == load["asked_tokens"]["mean"]
        assert load["tpot_seconds"]["mean"] > 0
