"""Real engines on the loopback, each with a small model of random weights: `transformers serve`,
llama.cpp's own server, and vLLM where it is installed (a CPU will do)."""

import json
import os
import shutil
import subprocess
import sys

import jsonschema
import pytest

from advisor.cli.main import run
from advisor.domain.language import ServingPlacement
from advisor.render.export.serving import serve_words
from advisor.sweeps.measure.endpoint.engines import StartedEngine
from tests.advisor.render.language_answers import generation_candidate, generation_recommendation
from tests.sweeps.measure.endpoint.test_anchors import SCHEMA
from tests.sweeps.measure.endpoint.tiny_model import program, save_tiny_llama

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def words_of_vllm():
    """Those that an export starts it with on one GPU; compiling would take a minute."""
    alone = generation_candidate(placement=ServingPlacement(tensor_parallel=1, replicas=1))
    _, *words = serve_words(alone, generation_recommendation().request)
    return [*words, "--enforce-eager"]


def measured(folder, capfd, *words, last=()):
    """The document of `advisor measure`: both kinds of load, no failed request, the lengths asked for."""
    lengths = "--input-tokens 64 --output-tokens 16 --concurrency 1,4 --out"
    code = run(["measure", *words, *lengths.split(), str(folder / "anchor.json"), *last])
    assert code == 0, capfd.readouterr().err
    document = json.loads((folder / "anchor.json").read_text())
    jsonschema.validate(document, SCHEMA)
    assert document["endpoint"]["counts_tokens"]
    for load in document["loads"]:
        assert load["requests"]["failed"] == 0
        assert load["input_tokens"]["mean"] == pytest.approx(64, rel=0.15)
        assert load["output_tokens"]["mean"] == load["asked_tokens"]["mean"]
        assert load["tpot_seconds"]["mean"] > 0
    return document


@pytest.mark.parametrize("engine", [StartedEngine.TRANSFORMERS, StartedEngine.VLLM])
def test_a_real_engine_is_started_measured_and_ended(engine, tmp_path, monkeypatch, capfd):
    """By the command that users type: both kinds of load, the lengths asked for, and its version.
    transformers refuses fields of vLLM's; vLLM takes the words of our exports."""
    is_vllm = engine is StartedEngine.VLLM
    if is_vllm and shutil.which("vllm") is None:
        pytest.skip("no vllm on the path: pip install 'vllm[runai]' in an environment of its own")
    for package in ("transformers", "openai"):
        pytest.importorskip(package)
    model = save_tiny_llama(tmp_path / "tiny")
    program(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB; left out, half of the memory
    words = f"--engine {engine} --model {model} --precision bf16 --rate 2 --minutes 0.6".split()
    document = measured(tmp_path, capfd, *words, last=("--", *(words_of_vllm() if is_vllm else ())))
    assert document["engine"]["name"] == engine
    assert document["engine"]["version"]
    assert document["engine"]["ready_seconds"] > 0
    assert document["endpoint"]["forces_length"] == is_vllm
    assert all(load["ttft_seconds"]["mean"] > 0 for load in document["loads"])


@pytest.fixture(scope="module")
def llama_cpp(tmp_path_factory):
    for name in ("xllamacpp", "gguf"):
        pytest.importorskip(name, reason=f"no {name} here: pip install xllamacpp gguf")
    model = tmp_path_factory.mktemp("llama") / "tiny.gguf"
    command = [sys.executable, "-m", "tests.sweeps.measure.endpoint.tiny_gguf", str(model)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.stdin.close()
        process.terminate()


def test_the_server_of_llama_cpp_is_measured_without_a_failed_request(llama_cpp, tmp_path, capfd):
    """Though it ends each connection after an answer; what it calls itself stands in the anchor."""
    words = f"--endpoint {llama_cpp} --model meta-llama/Llama-3.1-8B --rate 4 --minutes 0.2".split()
    document = measured(tmp_path, capfd, *words)
    assert document["engine"]["name"] == "llama.cpp"
    assert document["endpoint"]["forces_length"]
    assert all(load["requests"]["completed"] > 0 for load in document["loads"])
