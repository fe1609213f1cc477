"""Answers about language models in CSV, Markdown, YAML and exports; tests/corpus has text and JSON."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.answers.reporting.saved import first_fault
from advisor.domain.language import ServingPlacement
from advisor.domain.words import KvPrecision, Link, LlmEngine, LlmPrecision
from advisor.errors import UsageError
from advisor.render.document import document_yaml, plain
from advisor.render.export.serving import FORMATS, export_serving, serve_words
from advisor.render.i18n.catalogue import report_texts
from advisor.render.language_document import finetuning_document, generation_document
from advisor.render.tables import recommendation_csv
from advisor.render.views.details import serving_parts
from advisor.render.views.whole import recommendation_markdown
from tests.advisor.render.language_answers import (
    SOURCES,
    finetuning_recommendation,
    generation_candidate,
    generation_recommendation,
    nothing_found,
)
from tests.alike import assert_golden_text

GOLDEN = Path(__file__).parents[2] / "golden" / "language"
ANSWER = generation_recommendation()
DOCUMENT = plain(generation_document(ANSWER, SOURCES))
TUNING = plain(finetuning_document(finetuning_recommendation(), SOURCES))
NOTHING = plain(generation_document(nothing_found(), SOURCES))
SHOWN = {"generation": DOCUMENT, "finetuning": TUNING, "nothing": NOTHING}
TEXTS = {f"{name}.md": recommendation_markdown(document) for name, document in SHOWN.items()}
TEXTS["generation.csv"] = recommendation_csv(DOCUMENT)


@pytest.mark.parametrize("name", TEXTS)
def test_a_format_changes_only_when_we_mean_it(name):
    assert_golden_text(GOLDEN / name, TEXTS[name])


@pytest.mark.parametrize("document", SHOWN.values())
def test_a_document_is_as_its_schema_says(document):
    assert first_fault(document, document["schema"]) is None
    assert yaml.safe_load(document_yaml(document)) == document


def test_the_chart_says_the_ends_of_the_front():
    front, *_ = serving_parts(DOCUMENT, report_texts("en"))
    chart, table = front.blocks
    assert chart.src.startswith("data:image/svg+xml")
    assert "from 14 ms at 278 to 130 ms at 6,130 tokens a second" in chart.alt
    assert len(table.records) == 6


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_changes_only_when_we_mean_it(format):
    text = export_serving(generation_candidate(), ANSWER.request, format)
    assert_golden_text(GOLDEN / f"export.{format}", text)


@given(
    width=st.sampled_from([1, 2, 4, 8]),
    replicas=st.integers(1, 8),
    precision=st.sampled_from(list(LlmPrecision)),
    kv=st.sampled_from(list(KvPrecision)),
)
def test_every_placement_uses_each_gpu_once(width, replicas, precision, kv):
    placement = ServingPlacement(tensor_parallel=width, replicas=replicas, link=Link.NVLINK)
    candidate = generation_candidate(placement=placement, precision=precision, kv_precision=kv)
    services = yaml.safe_load(export_serving(candidate, ANSWER.request, "compose"))["services"]
    devices = [service["deploy"]["resources"]["reservations"]["devices"][0] for service in services.values()]
    used = [gpu for device in devices for gpu in device["device_ids"]]
    assert sorted(map(int, used)) == list(range(width * replicas))
    assert ("--kv-cache-dtype" in serve_words(candidate, ANSWER.request)) == (kv is KvPrecision.FP8)
    assert longest(candidate, ANSWER.request) == "4743"


def longest(candidate, request):
    words = serve_words(candidate, request)
    return words[words.index("--max-model-len") + 1]


def test_where_only_means_are_known_longer_requests_are_taken():
    candidate, means = generation_candidate(), replace(ANSWER.request, context_tokens=None)
    tight = replace(candidate, memory=replace(candidate.memory, longest_context=2000))
    assert longest(candidate, means) == str(4 * means.longest_tokens)
    assert longest(tight, means) == "2000"


def test_what_no_export_starts_is_refused():
    with pytest.raises(UsageError, match="starts no server"):
        export_serving(generation_candidate(), ANSWER.request, "ray")
    with pytest.raises(UsageError, match="--export starts vLLM"):
        export_serving(generation_candidate(engine=LlmEngine.SGLANG), ANSWER.request, "compose")


def test_no_start_file_serves_other_weights_and_a_model_of_a_folder_starts_where_it_is():
    """Where no checkpoint of a format is known, vLLM makes fp8 on load, and starts nothing else."""
    for precision, model, last in (
        (LlmPrecision.FP8, "Qwen/Qwen2.5-32B-Instruct", ["--quantization", "fp8"]),
        (LlmPrecision.NVFP4, "PUT-nvfp4-CHECKPOINT-HERE/Qwen2.5-32B-Instruct", []),
        (LlmPrecision.INT4_AWQ, "Qwen/Qwen2.5-32B-Instruct-AWQ", []),
    ):
        candidate = generation_candidate(precision=precision, model="Qwen/Qwen2.5-32B-Instruct")
        request = replace(ANSWER.request, precision=precision)
        text = export_serving(candidate, request, "terraform")
        words = text.partition("--model ")[2].split()
        assert words[0] == model
        assert words[3:5] == last or (not last and "--quantization" not in words)
        grown = 2 if last else 1
        assert f"volume_size           = {40 * grown}" in text
    answered, config = (generation_candidate(), ANSWER.request), Path("/home/me/mine/config.json")
    text = export_serving(*answered, "compose", config=config)
    (service, *_) = yaml.safe_load(text)["services"].values()
    assert "/home/me/mine:/model:ro" in service["volumes"]
    assert service["command"][:2] == ["--model", "/model"]
    for format in set(FORMATS) - {"compose"}:
        with pytest.raises(UsageError, match="folder of this machine"):
            export_serving(*answered, format, config=config)
    assert "call other.json so" in export_serving(*answered, "compose", config=config.with_name("other.json"))
