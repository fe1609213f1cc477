"""Questions about serving, answered by what ships: catalogue, models, and predictor."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.answers import ask, language
from advisor.answers.context import omission_notes, region_notes
from advisor.answers.language import serving_recommended
from advisor.catalog import Catalog, OfferQuery, load_catalog
from advisor.domain.words import LanguageTask, LlmPrecision
from advisor.errors import UsageError
from advisor.models.language.serving import bundled_serving_predictor
from advisor.questions.language import PredictGeneration, RecommendGeneration
from advisor.questions.listings import Sources
from advisor.questions.spec import SpecQuestion
from advisor.questions.values import GpuFilter

EIGHT_B = "meta-llama/Llama-3.1-8B"
COMMON: dict[str, Any] = {"task": LanguageTask.GENERATION, "model": EIGHT_B}


@cache
def context() -> Catalog:
    """What ships, read once."""
    return load_catalog()


def recommend(**fields: Any) -> RecommendGeneration:
    """A question whose answer needs no calibrated interval."""
    return RecommendGeneration(**{**COMMON, "allow_extrapolation": True, **fields})


def chosen(**fields: Any) -> Any:
    """What is recommended, where something is."""
    candidate = serving_recommended(context(), recommend(**fields)).chosen
    assert candidate is not None
    return candidate


def predicted(**fields: Any) -> Any:
    """What an instance does."""
    return language.predicted(context(), PredictGeneration(**{**COMMON, **fields})).result


def test_pictures_count_as_tokens_of_the_prompt_and_take_time_in_their_tower() -> None:
    asked: dict[str, Any] = {"model": "Qwen/Qwen3-VL-8B-Instruct", "instance": "p5.4xlarge", "users": 8}
    asked |= {"input_tokens": 300, "output_tokens": 100}
    shown = PredictGeneration(**COMMON | asked, images_per_request=2, image_size="1280x720")
    answer = language.predicted(context(), shown)
    pictures, request = answer.result, answer.message_document()["request"]
    # 40 x 23 squares of 32 pixels, and the signs around them.
    tokens = 2 * (40 * 22 + 2)
    assert pictures.candidate.input_tokens == 300 + tokens
    assert (request["picture_tokens"], request["input_tokens"]) == (tokens, 300)
    assert any("1,764 tokens of a prompt are 2 pictures" in str(text) for text in pictures.assumptions)
    text, none = predicted(**asked | {"input_tokens": 300 + tokens}), predicted(**asked)
    first, as_text, alone = (one.candidate.rates.ttft_seconds.median for one in (pictures, text, none))
    assert alone < as_text < first
    assert pictures.candidate.memory.largest_concurrency == text.candidate.memory.largest_concurrency
    with pytest.raises(UsageError, match="reads no pictures"):
        predicted(**asked | {"model": EIGHT_B}, images_per_request=1)
    with pytest.raises(UsageError, match="how many come"):
        predicted(**asked, image_size="640x480")


def test_where_nothing_answers_a_smaller_format_may() -> None:
    question = {"model": "meta-llama/Llama-3.1-70B-Instruct", "users": 10, "max_usd_per_hour": 5.0}
    answer = language.recommended(context(), RecommendGeneration(**COMMON | question)).result
    assert answer.chosen is None
    formats = {
        relaxation.changes[0].after: relaxation.gives.spec.total_usd_per_hour
        for relaxation in answer.relaxations
        if relaxation.changes[0].option == "--precision"
    }
    assert "int4-awq" in formats
    assert all(usd <= 5 for usd in formats.values())


def test_a_tight_limit_is_told_with_the_spec_that_a_looser_one_allows() -> None:
    tight, usual = (
        language.recommended(context(), recommend(users=10, max_ttft_ms=most)).result.warnings
        for most in (30.0, 200.0)
    )
    (warning,) = [text for text in map(str, tight) if "rules cheaper ones out" in text]
    assert warning.startswith("--max-ttft-ms 30 rules cheaper ones out: at 45, ")
    assert re.search(r" for \$[\d.]+/h may do \(\d+ % sure\)$", warning)
    assert not any("rules cheaper ones out" in str(text) for text in usual)


def test_users_who_think_and_percentiles_that_are_limited_move_the_answer() -> None:
    usual, thinking = chosen(users=64), chosen(users=64, think_seconds=20.0)
    assert thinking.rates.concurrency < usual.rates.concurrency
    seconds = thinking.rates.e2e_seconds.lower
    assert thinking.rates.concurrency > 64 * seconds / (seconds + 20) / 2
    mean, tail = (
        chosen(users=64, max_ttft_ms=most, required_confidence=0.9) for most in (3000.0, "p99:3000")
    )
    assert 1000 * tail.rates.tails[0][-1].upper <= 3000
    assert tail.spec.total_usd_per_hour >= mean.spec.total_usd_per_hour


def test_a_smaller_format_is_said_where_a_cheaper_type_serves_it() -> None:
    """An 8B model for four users: in four bits it fits a T4. What is said is what that format is answered."""
    question = recommend(users=4)
    answer = serving_recommended(context(), question)
    assert answer.chosen is not None
    said = {step.option: step.instead for step in answer.steps if step.instead is not None}
    assert said["--precision int4-awq"].spec.offer.instance.gpu_name == "T4"
    for option, other in said.items():
        assert other.spec.total_usd_per_hour < 0.95 * answer.chosen.spec.total_usd_per_hour
        same = chosen(users=4, precision=LlmPrecision(option.split()[1]))
        assert (same.spec.offer.instance, same.spec.count) == (other.spec.offer.instance, other.spec.count)
        for time in ("ttft_seconds", "tpot_seconds", "e2e_seconds"):
            assert getattr(same.rates, time).median == pytest.approx(getattr(other.rates, time).median)
    document = ask.recommend(Sources(), question).document()
    named = [step["instead"]["instance_type"] for step in document["serving"]["steps"] if step["instead"]]
    assert named == [other.spec.offer.instance.name for other in said.values()]
    assert not any(step.instead for step in predicted(users=4, instance="g6.xlarge").steps)


def test_speculative_decoding_counts_as_it_is_stated() -> None:
    """It gains by what is accepted, never more, and costs where nothing is; a model that drafts takes time
    and memory; the bounds are wider, and the start file says the same."""
    usual = {"model": "meta-llama/Llama-3.3-70B", "instance": "p5.48xlarge", "users": 8, "tensor_parallel": 8}
    drafts = {"draft_model": "meta-llama/Llama-3.2-1B"}
    plain, gains = predicted(**usual).candidate, []
    for share in (0.0, 0.5, 0.8):
        drafted, with_model = (
            predicted(**usual, draft_acceptance=f"{share:g},4", **more).candidate for more in ({}, drafts)
        )
        gain = plain.rates.tpot_seconds.median / drafted.rates.tpot_seconds.median
        assert gain <= sum(share**place for place in range(5))
        assert with_model.rates.tpot_seconds.median > drafted.rates.tpot_seconds.median
        assert with_model.memory.weights_gib - plain.memory.weights_gib == pytest.approx(2.3 / 8, rel=0.1)
        assert drafted.memory == plain.memory
        assert drafted.rates.tpot_seconds.sure_share < plain.rates.tpot_seconds.sure_share
        assert any("speculative decoding" in str(text) for text in drafted.extrapolation)
        gains.append(gain)
    assert gains[0] < 1 < gains[1] < gains[2]
    stated = recommend(users=8, draft_acceptance="0.7,4", **drafts)
    text = ask.recommend(Sources(), stated).written("compose")
    (service, *_) = yaml.safe_load(text)["services"].values()
    config = json.loads(service["command"][service["command"].index("--speculative-config") + 1])
    assert config == {"model": "meta-llama/Llama-3.2-1B", "num_speculative_tokens": 4}
    with pytest.raises(UsageError, match="does not say with what success"):
        recommend(**drafts)
    with pytest.raises(UsageError) as refused:
        ask.recommend(Sources(), recommend(draft_acceptance="0.7,4", draft_model="nobody/Nothing"))
    assert refused.value.field == "draft_model"


def test_ranks_that_share_the_experts_are_a_split_like_others() -> None:
    """DeepSeek-R1 for many: tensor parallelism copies its cache on each GPU, ranks do not, so they hold more
    requests; no other split of the same instance costs less, and what starts it says so."""
    question = recommend(users=500, model="deepseek-ai/DeepSeek-R1")
    found = chosen(users=500, model=question.model)
    assert (found.placement.tensor_parallel, found.placement.ranks, found.placement.gpus_used) == (1, 8, 8)
    assert found.rates.concurrency == pytest.approx(500)
    split = {"instance": found.spec.offer.instance.name, "tensor_parallel": 8, "users": 8}
    together = predicted(model=question.model, **split).candidate
    assert found.memory.largest_concurrency > 2 * together.memory.largest_concurrency
    assert found.memory.weights_gib > 1.1 * together.memory.weights_gib
    doubts = [each.rates.tpot_seconds.sure_share for each in (found, together)]
    assert doubts[0] < doubts[1]
    for number in (1, 2, 4, 8):
        other = serving_recommended(context(), question.replace(tensor_parallel=number)).chosen
        if other is not None:
            assert other.spec.total_usd_per_hour >= found.spec.total_usd_per_hour * (1 - 1e-9)
    written = ask.recommend(Sources(), question)
    (deployment, _) = yaml.safe_load_all(written.written("kubernetes"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    words = " ".join(container["args"])
    assert "--tensor-parallel-size 1 --data-parallel-size 8 --enable-expert-parallel" in words
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 8
    assert written.document()["recommendation"]["serving"]["placement"]["data_parallel"] == 8


def test_two_instances_hold_a_model_that_none_holds_alone() -> None:
    """A 405B model in 16 bits on H100: two nodes, a pipeline between them, wide bounds; never where one
    instance holds it, and not where one alone may be had. Neither its memory nor its rate is more than the
    GPUs have."""
    asked = {"users": 4, "model": "meta-llama/Llama-3.1-405B", "gpu_filter": GpuFilter(names=("H100",))}
    question, found = recommend(**asked), chosen(**asked)
    assert (found.spec.count, found.placement.nodes, found.placement.tensor_parallel) == (2, 2, 8)
    use = found.memory
    assert 2 * 8 * use.weights_gib > 750 > 8 * use.weights_gib
    assert use.weights_gib + use.kv_gib + use.overhead_gib + use.free_gib < 81
    assert found.rates.tpot_seconds.median > 810e9 / (8 * 3.35e12)  # all weights are read by eight at a time
    assert found.rates.tpot_seconds.upper > 1.4 * found.rates.tpot_seconds.median
    assert any("several instances" in str(text) for text in found.extrapolation)
    assert chosen(**asked, precision=LlmPrecision.FP8).placement.nodes == 1
    assert serving_recommended(context(), question.replace(max_count=1)).chosen is None
    text = ask.recommend(Sources(), question).written("skypilot")
    job = yaml.safe_load(text)
    assert job["num_nodes"] == 2
    subprocess.run(["bash", "-n"], input=job["run"], text=True, check=True)
    assert "--tensor-parallel-size 8" in text
    assert "--pipeline-parallel-size 2 --distributed-executor-backend ray" in text
    with pytest.raises(UsageError, match="starts no model over several instances"):
        ask.recommend(Sources(), question).written("kubernetes")


def anchor(path: Path, tpot_seconds: float) -> Path:
    """A measured endpoint: eight requests in flight on one L4, with another time per token."""
    document = json.loads((Path(__file__).parents[2] / "data/endpoint_anchor.json").read_text())
    document["engine"]["version"] = bundled_serving_predictor().engine_version("vllm")
    (load,) = document["loads"]
    slower = tpot_seconds / 0.1
    for name, factor in (("tpot_seconds", slower), ("output_tokens_per_second", 1 / slower)):
        load[name] |= {figure: load[name][figure] * factor for figure in ("mean", "standard_error", "p99")}
    path.write_text(json.dumps(document))
    return path


def test_an_anchor_moves_the_prediction_towards_what_was_measured(tmp_path: Path) -> None:
    question = {"instance": "g6.xlarge", "users": 8}
    before = predicted(**question).candidate.rates.tpot_seconds
    slow = anchor(tmp_path / "anchor.json", 2 * before.median)
    anchored = predicted(**question, anchor=(slow,))
    after = anchored.candidate.rates.tpot_seconds
    for words in ("anchor.json", "with concurrency 8: p99 of TTFT 600 ms"):
        assert any(words in str(message) for message in anchored.assumptions)
    assert before.median < after.median <= 2.1 * before.median
    # Twice as slow as expected: no surer than before, but hardly less.
    assert after.upper / after.median < 1.05 * before.upper / before.median


def test_the_users_that_could_be_served_are_those_of_as_many_instances_as_may_be_had() -> None:
    """Four serve four times as many as one."""
    question = recommend(users=50_000).replace(gpu_filter=GpuFilter(names=("L4",)))

    def served(most: int) -> int:
        answer = language.recommended(context(), question.replace(max_count=most)).result
        changes = [way.changes[0] for way in answer.relaxations if len(way.changes) == 1]
        return int(next(change.after for change in changes if change.constraint == "users"))

    assert served(4) == pytest.approx(4 * served(1), rel=0.01)


# What an answer leaves out is told: clouds by the region's name, and types with old prices.
DAY = date(2026, 11, 23)


def test_a_region_of_one_cloud_leaves_out_the_others_and_strict_the_types_with_old_prices():
    catalog = context()
    request = SpecQuestion(cloud="any", region="eu-west-1")
    (note,) = region_notes(request, catalog)
    named = set(note.parameters["clouds"])
    assert named == {name for name in catalog.clouds if "eu-west-1" in catalog.regions(name)}
    assert "aws" in named
    assert not named & {"runpod", "oci"}
    assert str(note).endswith("no other cloud names a region eu-west-1 (--region)")
    request = SpecQuestion(cloud="verda", region=None)
    offers = catalog.offers(OfferQuery(cloud="verda"))
    (note,) = omission_notes(request, catalog, DAY, strict=True)
    types = {offer.instance.name for offer in offers if offer.market is request.market}
    assert note.parameters["count"] == len(types)
    oldest = min(offer.price.as_of for offer in offers)
    assert omission_notes(request, catalog, oldest, strict=True) == ()


def test_prices_in_a_currency_without_a_rate_are_left_out_by_name(monkeypatch):
    catalog = context()
    (note,) = omission_notes(SpecQuestion(cloud="any", region=None), catalog, DAY, strict=False)
    assert {"leafcloud", "ovh"} <= set(note.parameters["clouds"])
    assert "ADVISOR_EUR_PER_USD" in str(note)
    assert omission_notes(SpecQuestion(cloud="aws", region=None), catalog, DAY, strict=False) == ()
    monkeypatch.setenv("ADVISOR_EUR_PER_USD", "0.9")
    known = load_catalog()
    assert omission_notes(SpecQuestion(cloud="any", region=None), known, DAY, strict=False) == ()
