"""Answers about language models in every format; golden files hold the whole texts."""

import json
from datetime import date
from pathlib import Path

import hcl2
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import OBSERVED, CloseCall, CloseCallKind, Market
from advisor.domain.generation import KvPrecision, Link, LlmEngine, LlmPrecision
from advisor.domain.language import ServingPlacement
from advisor.engine.tasks.serving.prepared import ServingPreparations
from advisor.engine.tasks.serving.single import predict_serving
from advisor.errors import UsageError
from advisor.models.language.configs import bundled_language_models
from advisor.models.language.serving import bundled_serving_predictor
from advisor.render import schema_check
from advisor.render.content import Chart, Part
from advisor.render.document import document_yaml, plain_document
from advisor.render.exporting.serving import FORMATS, export_serving, serve_words
from advisor.render.i18n.catalogue import report_texts
from advisor.render.language.document import finetuning_document, generation_document
from advisor.render.phrases import risk_level, seconds_text, trial_command
from advisor.render.tables import recommendation_csv, recommendation_markdown
from advisor.render.text import WIDTH
from advisor.render.views.report import language_parts
from advisor.render.views.serving import generation_text
from advisor.render.views.tuning import finetuning_text
from tests.advisor.render.language_answers import (
    MODEL,
    SOURCES,
    finetuning_recommendation,
    generation_candidate,
    generation_recommendation,
    nothing_found,
    with_engine,
)
from tests.alike import assert_golden_text
from tests.builders import serving_question

GOLDEN = Path(__file__).parents[2] / "golden" / "language"
ANSWER = generation_recommendation()
DOCUMENT = plain_document(generation_document(ANSWER, SOURCES))
TUNING = plain_document(finetuning_document(finetuning_recommendation(), SOURCES))
TEXTS = {
    "generation.txt": generation_text(ANSWER, SOURCES) + "\n",
    "nothing.txt": generation_text(nothing_found(), SOURCES) + "\n",
    "finetuning.txt": finetuning_text(finetuning_recommendation(), SOURCES) + "\n",
    "generation.json": json.dumps(DOCUMENT, indent=2) + "\n",
    "generation.csv": recommendation_csv(DOCUMENT),
    "generation.md": recommendation_markdown(DOCUMENT),
    "finetuning.md": recommendation_markdown(TUNING),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_format_changes_only_when_we_mean_it(name):
    assert_golden_text(GOLDEN / name, TEXTS[name])


NOTHING = plain_document(generation_document(nothing_found(), SOURCES))


@pytest.mark.parametrize("document", [DOCUMENT, TUNING, NOTHING])
def test_a_document_is_as_its_schema_says(document):
    assert schema_check.first_fault(document, document["schema"]) is None
    assert yaml.safe_load(document_yaml(document)) == document


def test_markdown_says_how_many_are_paid_for_and_how():
    """Two instances on a commitment never pass for one at the list's price of a day."""
    chosen = ANSWER.ranked[0]
    price = replace(chosen.spec.offer.price, kind=OBSERVED)
    offer = replace(chosen.spec.offer, market=Market.COMMITMENT_3Y, price=price)
    two = replace(chosen, spec=replace(chosen.spec, offer=offer, count=2))
    answer = replace(ANSWER, ranked=(two,), request=replace(ANSWER.request, market=None))
    lines = recommendation_markdown(plain_document(generation_document(answer, SOURCES))).splitlines()
    header, _, row = (line.strip("| ").split(" | ") for line in lines[:3])
    told = dict(zip(header, row, strict=True))
    names = ("count", "market", "price_kind")
    assert [told[name] for name in names] == ["2", "commitment-3y", "observed"]


def test_text_keeps_within_a_screen():
    for name in ("generation.txt", "finetuning.txt", "nothing.txt"):
        lines = TEXTS[name].splitlines()
        assert max(map(len, lines)) <= WIDTH, name
        assert len(lines) <= 35, name


def test_an_answer_says_what_its_rates_stand_on():
    """Modelled, never measured; the engine's version and its graphs; what TPOT leaves out."""
    text = TEXTS["generation.txt"]
    for said in (
        "Modelled, not measured",
        "vLLM 0.19.0 with CUDA graphs",
        "after the first token",
        "p10 979, median",
        "output tokens/s",
    ):
        assert said in " ".join(text.split())
    assert "after the first" in DOCUMENT["serving"]["tpot"]
    assert DOCUMENT["recommendation"]["predicted"]["provenance"] == "modelled"
    assert DOCUMENT["recommendation"]["serving"]["engine_version"] == "0.19.0"


def test_a_close_call_comes_with_the_load_of_the_trial_that_settles_it():
    call = CloseCall(
        kind=CloseCallKind.CHEAPER_MAY_REACH,
        candidate=generation_candidate("g6e.4xlarge", 3.0),
        instead=generation_candidate(),
        probability=0.41,
        saves_usd_per_hour=7.0,
        trial_minutes=12.0,
        trial_usd=0.6,
        worth_usd=900.0,
    )
    answer = generation_recommendation(close_calls=(call,))
    text = generation_text(answer, SOURCES)
    assert "g6e.4xlarge at $3.017/h may keep this too (41 %)" in text
    (block,) = generation_document(answer, SOURCES)["close_calls"]
    # 40 requests in flight on two replicas.
    assert "--concurrency 20" in block["trial"]["command"]
    assert block["trial"]["command"] == trial_command(call.candidate)


def test_the_chart_shows_each_point_of_the_front_and_says_its_ends():
    (chart,) = [
        block
        for part in language_parts(DOCUMENT, report_texts("en"))
        if isinstance(part, Part)
        for block in part.blocks
        if isinstance(block, Chart)
    ]
    assert chart.src.startswith("data:image/svg+xml")
    assert "from 14 ms at 278 to 130 ms at 6,130 tokens a second" in chart.alt


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_changes_only_when_we_mean_it(format):
    text = export_serving(generation_candidate(), ANSWER.request, format)
    assert_golden_text(GOLDEN / f"export.{format}", text)


def test_docker_compose_gives_each_replica_its_own_gpus_and_port():
    content = export_serving(generation_candidate(), ANSWER.request, "compose")
    services = yaml.safe_load(content)["services"]
    devices = [
        one["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"] for one in services.values()
    ]
    assert devices == [["0", "1"], ["2", "3"]]
    assert [one["ports"] for one in services.values()] == [["8000:8000"], ["8001:8000"]]
    assert all(one["image"] == "vllm/vllm-openai:v0.19.0" for one in services.values())


def test_terraform_starts_a_container_for_each_replica():
    text = export_serving(generation_candidate(), ANSWER.request, "terraform")
    (resource,) = hcl2.loads(text)["resource"]
    instance = next(iter(next(iter(resource.values())).values()))
    assert str(instance["user_data"]).count("docker run") == 2
    assert "--tensor-parallel-size 2" in str(instance["user_data"])


def test_skypilot_and_dstack_run_the_same_servers():
    candidate = generation_candidate()
    sky = yaml.safe_load(export_serving(candidate, ANSWER.request, "skypilot"))
    dstack = yaml.safe_load(export_serving(candidate, ANSWER.request, "dstack"))
    assert sky["run"].splitlines() == dstack["commands"]
    assert sky["run"].count("vllm serve") == candidate.placement.replicas


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
    devices = [one["deploy"]["resources"]["reservations"]["devices"][0] for one in services.values()]
    used = [gpu for device in devices for gpu in device["device_ids"]]
    assert sorted(map(int, used)) == list(range(width * replicas))
    words = serve_words(candidate, ANSWER.request)
    assert ("--kv-cache-dtype" in words) == (kv is KvPrecision.FP8)
    assert words[words.index("--max-model-len") + 1] == "4743"


def test_what_no_export_starts_is_refused():
    with pytest.raises(UsageError, match="starts no server"):
        export_serving(generation_candidate(), ANSWER.request, "ray")
    other = with_engine(ANSWER, LlmEngine.SGLANG)
    with pytest.raises(UsageError, match="--export starts vLLM"):
        export_serving(other.ranked[0], other.request, "compose")


def test_where_only_means_are_known_longer_requests_are_taken():
    """As many tokens as fit, up to four times the mean; a stated longest one is kept."""
    candidate = generation_candidate()
    means = replace(ANSWER.request, context_tokens=None)
    tight = replace(candidate, memory=replace(candidate.memory, longest_context=2000))
    for one, request, longest in (
        (candidate, means, 4 * means.longest_tokens),
        (tight, means, 2000),
        (candidate, ANSWER.request, 4743),
    ):
        words = serve_words(one, request)
        assert words[words.index("--max-model-len") + 1] == str(longest)


def test_prefix_caching_is_on_only_where_its_share_was_stated():
    stated = replace(ANSWER.request, prefix_share=0.4)
    assert "--no-enable-prefix-caching" in serve_words(generation_candidate(), ANSWER.request)
    assert "--no-enable-prefix-caching" not in serve_words(generation_candidate(), stated)


def test_times_are_told_in_units_that_people_read():
    assert [seconds_text(s) for s in (0.0123, 0.999, 1.0, 75.4, 3600)] == [
        "12.3 ms",
        "999 ms",
        "1 s",
        "75.4 s",
        "3,600 s",
    ]


def test_arrivals_are_no_surer_than_as_many_users() -> None:
    """What arrives is the rate at any bound; how sure its times are makes the risk."""
    model = bundled_language_models().find(MODEL)
    prepared = ServingPreparations(load_catalog(), model, bundled_serving_predictor())

    def served(**load):
        asked = serving_question(model=MODEL, input_tokens=1155, output_tokens=211, **load)
        return predict_serving(asked, prepared, "p5.4xlarge", today=date(2026, 11, 23)).candidate

    for arrivals in (1.0, 8.0):
        open_loop = served(target_requests_per_second=arrivals)
        closed = served(users=round(open_loop.rates.concurrency))
        assert open_loop.sure_share <= closed.sure_share < 1
        assert risk_level(open_loop) >= risk_level(closed) > 0


def test_the_front_holds_what_is_recommended_and_says_what_others_miss():
    text = generation_text(ANSWER, SOURCES)
    assert "2 x TP2, this answer" in text
    assert "below the target" in text
    assert "over a limit" in text
    document = generation_document(ANSWER, SOURCES)
    mine = [point for point in document["serving"]["front"] if point["concurrency"] == 40]
    assert [point["misses"] for point in mine] == [None]


def test_a_model_of_a_folder_starts_where_the_folder_is():
    """A rented machine does not have it, and a container has it only where it is mounted."""
    asked, config = (generation_candidate(), ANSWER.request), Path("/home/me/mine/config.json")
    text = export_serving(*asked, "compose", config=config)
    (service, *_) = yaml.safe_load(text)["services"].values()
    assert "/home/me/mine:/model:ro" in service["volumes"]
    assert service["command"][:2] == ["--model", "/model"]
    for format in set(FORMATS) - {"compose"}:
        with pytest.raises(UsageError, match="folder of this machine"):
            export_serving(*asked, format, config=config)
    assert "call other.json so" in export_serving(*asked, "compose", config=config.with_name("other.json"))


def test_markdown_says_what_is_nearest_where_nothing_answers():
    text = recommendation_markdown(NOTHING)
    assert text.startswith("No offer meets this. Nearest: g6e")
    assert "One change would do" in text
