"""What a recommendation about serving says beside its choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import CloseCallKind, DiskChoice
from advisor.domain.language import GenerationRecommendation, ServingPrediction
from advisor.domain.words import LlmEngine, LlmPrecision, ServingBind, StepKind
from advisor.engine.decide import recommend
from advisor.engine.tasks.serving.options import gib_to_read
from advisor.errors import NoIntervalError, UsageError
from advisor.questions.language import ServingQuestion
from tests.advisor.engine.tasks.physical import EIGHT_B, TODAY, Physical, serving, shipped
from tests.builders import serving_question


def predicted(name: str, **fields: Any) -> ServingPrediction:
    """What an instance does."""
    question = request(**fields)
    return serving(question.model).prediction_on(question, name, today=TODAY)


def request(**fields: Any) -> ServingQuestion:
    """Chat with a model on AWS, with some fields changed."""
    usual = {"model": EIGHT_B, "input_tokens": 1020, "output_tokens": 240}
    return serving_question(**{**usual, **fields})


def answer(**fields: Any) -> GenerationRecommendation:
    """The recommendation for it."""
    question = request(**fields)
    return recommend(serving(question.model), question, today=TODAY)


@pytest.mark.parametrize(
    "load",
    [
        {"users": 50, "max_tpot_ms": 20},
        {"users": 20, "max_tpot_ms": 50, "max_ttft_ms": 1500},
        {"users": 20, "max_ttft_ms": "p99:2000", "gpus": ("H100",)},
        {"users": 100},
        {"target_output_tokens_per_second": 1000.0},
        {"target_output_tokens_per_second": 4000.0},
    ],
)
@pytest.mark.parametrize("model", ["meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen3-30B-A3B", EIGHT_B])
def test_no_other_split_of_an_instance_makes_cheaper_tokens(model: str, load: dict[str, Any]) -> None:
    """Of those that cost as much an hour and keep the limits about as surely."""
    question, task = request(model=model, required_confidence=None, **load), shipped(model)
    options = task.options(question)
    table = task.predict(question, options)
    assert table is not None
    answering = np.flatnonzero(task.answering(question, table))
    for row in task.ranked_rows(question, options, table).tolist():
        same = (table.kind == table.kind[row]) & (table.count == table.count[row])
        others = answering[same[answering]].tolist()
        shown = task.candidates(question, table, [row, *others])
        ranks = [task.candidate_rank(question, each) for each in shown]
        chosen, *rest = (
            each.usd_per_million_output_tokens.median
            for each, rank in zip(shown, ranks, strict=True)
            if each.spec.total_usd_per_hour <= shown[0].spec.total_usd_per_hour and rank <= 1.01 * ranks[0]
        )
        assert min(rest) >= chosen * 0.999


def test_what_cannot_surely_be_answered_is_not_told_as_the_sure_rate() -> None:
    chosen = predicted("g6e.xlarge", target_requests_per_second=4.3).candidate
    sure, most = (each.requests_per_second.lower for each in (chosen.rates, chosen.most))
    assert sure <= most * 1.001


def test_llama_cpp_has_a_slot_for_each_user_of_a_replica() -> None:
    """The server is told how many, each as long as the longest request; nothing was measured of more than
    one, so that bounds grow apart with them."""
    engine = {"engine": LlmEngine.LLAMA_CPP, "precision": LlmPrecision.INT4_AWQ, "gpus": ("A10G",)}
    found = recommend(shipped("Qwen3-8B"), request(model="Qwen3-8B", **engine, users=5), today=TODAY)
    few, slots = found.chosen, 5 * 1260
    assert few is not None
    assert few.spec.count == 1
    assert any(f"--parallel 5 --ctx-size {slots}" in str(text) for text in found.assumptions)
    assert not any("runai" in str(text) for text in found.assumptions)
    one = recommend(shipped("Qwen3-8B"), request(model="Qwen3-8B", **engine, users=1), today=TODAY).chosen
    assert few.rates.output_tokens_per_second.sure_share < one.rates.output_tokens_per_second.sure_share
    many = answer(**engine, users=200, max_count=20).chosen
    assert many is None or many.rates.concurrency / (many.spec.count * many.placement.replicas) <= 32


@pytest.mark.parametrize("tokens", [100.0, 6000.0])
def test_the_cheapest_of_all_clouds_is_the_cheapest_of_each(tokens: float) -> None:
    over_all = answer(cloud="any", region=None, target_output_tokens_per_second=tokens).chosen
    catalog = load_catalog()
    clouds = tuple(filter(catalog.is_in_dollars, catalog.clouds))
    answers = (answer(cloud=name, region=None, target_output_tokens_per_second=tokens) for name in clouds)
    usd = [each.chosen.spec.total_usd_per_hour for each in answers if each.chosen]
    assert over_all.spec.offer.instance.cloud in clouds
    assert over_all.spec.total_usd_per_hour == pytest.approx(min(usd))


def test_a_limit_on_the_time_between_tokens_turns_down_nothing_whose_answers_have_one() -> None:
    load: dict[str, Any] = {"users": 4, "input_tokens": 150.0, "output_tokens": 1.0}
    free, limited = answer(**load), answer(**load, max_tpot_ms=5)
    assert limited.chosen.spec == free.chosen.spec
    assert not [rejection for rejection in limited.rejected if rejection.reason == "tpot"]


@pytest.mark.parametrize(
    ("changed", "kv_precision"),
    [
        ({}, "fp16"),
        ({"precision": LlmPrecision.INT4_AWQ}, "fp16"),
        ({"gpus": ("L4",)}, "bf16"),
        ({"gpus": ("L4",), "engine": LlmEngine.LLAMA_CPP}, "fp16"),
    ],
)
def test_a_kv_cache_has_the_16_bits_that_the_engine_computes_in(
    changed: dict[str, Any], kv_precision: str
) -> None:
    """T4 has no bf16 for keys and values either, and llama.cpp keeps them in fp16."""
    recommendation = answer(**{"model": "Qwen2.5-3B", "gpus": ("T4",), **changed})
    assert recommendation.chosen.kv_precision == kv_precision
    assert f"a KV cache in {kv_precision}" in map(str, recommendation.assumptions)


def test_less_time_until_it_serves_takes_a_faster_disk_and_none_faster_than_that() -> None:
    wanted: dict[str, Any] = {"gpus": ("L40S",), "target_output_tokens_per_second": 100}
    slow, fast = answer(**wanted).chosen, answer(**wanted, max_ready_seconds=180).chosen
    assert fast.ready.upper_seconds <= 180 < slow.ready.upper_seconds
    assert fast.spec.disk.usd_per_hour > slow.spec.disk.usd_per_hour
    rate = fast.spec.disk.choice.mib_per_second
    load = fast.ready.load_seconds * rate / (rate - 1)
    assert fast.ready.upper_seconds + 1.15 * (load - fast.ready.load_seconds) > 180
    late = answer(disk=DiskChoice(type="gp3", size_gib=100), max_ready_seconds=30)
    assert late.chosen is None
    assert late.rejected_by_reason["ready"] > 0


def test_close_calls_name_a_cheaper_spec_that_may_do() -> None:
    """Its chance lies between 0 and 1, and the trial is worth its money."""
    recommendation = answer(target_output_tokens_per_second=3000, max_tpot_ms=40, cloud="any", region=None)
    cheaper = [call for call in recommendation.close_calls if call.kind is CloseCallKind.CHEAPER_MAY_REACH]
    assert cheaper
    for call in cheaper:
        assert 0.05 <= call.probability < 0.9
        assert call.worth_usd > call.trial_usd
        assert call.candidate.spec.total_usd_per_hour < call.instead.spec.total_usd_per_hour


def test_steps_say_what_each_brings_or_why_not() -> None:
    recommendation = answer(gpus=("L40S",), target_output_tokens_per_second=300)
    chosen, steps = recommendation.chosen, {step.kind: step for step in recommendation.steps}
    fp8, more = (steps[kind].gives for kind in (StepKind.FP8, StepKind.REPLICA))
    assert fp8.memory.weights_gib < chosen.memory.weights_gib
    assert fp8.memory.largest_concurrency > chosen.memory.largest_concurrency
    rates = [each.most.output_tokens_per_second.lower for each in (more, chosen)]
    assert rates[0] == pytest.approx(2 * rates[1])
    disk = steps[StepKind.DISK]
    assert disk.gives is not None or "fastest disk" in str(disk.why_not)


def test_unknown_gpus_need_extrapolation_to_be_allowed() -> None:
    question = request(gpus=("L4",), target_output_tokens_per_second=20)
    task = serving(EIGHT_B, Physical(("L4",)))
    with pytest.raises(NoIntervalError):
        recommend(task, question, today=TODAY)
    anyhow = replace(question, allow_extrapolation=True)
    chosen = recommend(task, anyhow, today=TODAY).chosen
    assert not chosen.calibrated


def test_replicas_whose_weights_overflow_ram_read_them_again() -> None:
    assert gib_to_read(100, 200 * 1024, replicas=4) == 100
    assert gib_to_read(100, 64 * 1024, replicas=4) == 400


def test_the_own_disk_is_taken_only_where_it_is_named() -> None:
    chosen = answer(gpus=("A10G",)).chosen
    own = answer(gpus=("A10G",), disk_types=("instance_store",)).chosen
    assert chosen.spec.disk.rate.type != "instance_store"
    assert own.spec.disk.rate.type == "instance_store"


def test_a_named_instance_is_used_as_is_cheapest_or_says_why_it_cannot() -> None:
    prediction = predicted("p5.48xlarge")
    assert prediction.candidate.placement.gpus_used == 8
    assert prediction.candidate.placement.replicas > 1
    sooner = {step.kind: step for step in prediction.steps}[StepKind.DISK].gives
    assert sooner.ready.load_seconds < 0.6 * prediction.candidate.ready.load_seconds
    with pytest.raises(UsageError, match="weights"):
        predicted("g5.xlarge", model="Qwen2.5-72B")


def test_memory_binds_a_small_card_and_a_load_near_capacity_any() -> None:
    assert answer(gpus=("A10G",), max_gpus=1).chosen.binds is ServingBind.MEMORY
    rate = 0.9 * predicted("g6e.xlarge").candidate.most.requests_per_second.median
    busy = predicted("g6e.xlarge", target_requests_per_second=rate)
    assert busy.candidate.binds is ServingBind.LOAD
