"""Which instance tunes a language model, as the catalogue and the predictor that ship decide."""

from __future__ import annotations

from datetime import date
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.answers import language
from advisor.catalog import Catalog, load_catalog
from advisor.domain.language import FineTuningRecommendation
from advisor.domain.results import is_measured
from advisor.domain.words import LanguageTask, LlmMethod
from advisor.engine.decide import recommend
from advisor.engine.tasks.tuning import TuningTask
from advisor.errors import UsageError
from advisor.models.language.configs import bundled_language_models
from advisor.models.language.finetuning.predictor import bundled_finetuning_predictor
from advisor.questions.language import MemoryFinetuning, PredictFinetuning
from advisor.questions.values import GpuFilter
from advisor.render.borderline import Behind, behind
from tests.builders import tuning_question

TODAY = date(2026, 11, 23)
EIGHT_B = "meta-llama/Llama-3.1-8B"
COMMON: dict[str, Any] = {"task": LanguageTask.FINETUNING, "model": EIGHT_B}


@cache
def catalog() -> Catalog:
    """What ships, read once."""
    return load_catalog()


def answer(**fields: Any) -> FineTuningRecommendation:
    """LoRA of an 8B model on a hundred million tokens on AWS, with some fields changed."""
    usual = {"model": EIGHT_B, "tokens": 1e8, "sequence": 2048}
    request = tuning_question(**{**usual, **fields})
    model = bundled_language_models().find(request.model)
    return recommend(TuningTask(catalog(), model, bundled_finetuning_predictor()), request, today=TODAY)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"gpus": ("H100",), "target_tokens_per_second": 60_000}, ()),
        ({"gpus": ("V100",), "method": LlmMethod.QLORA, "max_gpus": 1}, ("qlora", "V100")),
        (
            {"gpus": ("H100",), "model": "Qwen/Qwen2.5-14B", "target_tokens_per_second": 20_000},
            ("Qwen2.5-14B",),
        ),
    ],
)
def test_an_answer_warns_of_what_was_not_measured(changed: dict[str, Any], said: tuple[str, ...]) -> None:
    recommendation = answer(**changed)
    outside = [str(message) for message in recommendation.chosen.extrapolation]
    assert len(outside) == len(said)
    assert all(word in message for word, message in zip(said, outside, strict=True))
    assert set(outside) <= set(map(str, recommendation.warnings))


@given(st.floats(0.05, 50), st.floats(1, 500), st.none() | st.floats(100, 200_000))
def test_limits_hold_by_the_surer_bound_and_the_cheapest_is_first(
    hours: float, usd: float, target: float | None
) -> None:
    recommendation = answer(max_hours=hours, max_run_usd=usd, target_tokens_per_second=target)
    for candidate in recommendation.ranked:
        assert candidate.hours.upper <= hours
        assert candidate.usd_per_run.upper <= usd
        assert candidate.tokens_per_second.lower >= (target or 0)
        assert candidate.hours.median == pytest.approx(1e8 / candidate.tokens_per_second.median / 3600)
    by_hour = [candidate.spec.total_usd_per_hour for candidate in recommendation.ranked]
    costs = by_hour if target else [candidate.usd_per_run.median for candidate in recommendation.ranked]
    assert costs[1:] == sorted(costs[1:])
    reasons = {rejection.reason for rejection in recommendation.rejected}
    assert recommendation.ranked or reasons & {"too_long", "over_max_cost", "too_slow"}


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from([EIGHT_B, "Qwen/Qwen3-8B", "meta-llama/Llama-3.1-70B"]),
    st.sampled_from([LlmMethod.LORA, LlmMethod.QLORA]),
    st.floats(1e7, 1e9),
    st.none() | st.floats(1, 50),
)
def test_what_is_cheaper_as_quick_and_as_sure_has_a_price_or_a_gpu_that_is_less_known(
    model: str, method: LlmMethod, tokens: float, hours: float | None
) -> None:
    free = {"required_confidence": None, "start_minutes": None, "max_results": 10}
    recommendation = answer(model=model, method=method, tokens=tokens, max_hours=hours, **free)
    chosen, *others = recommendation.ranked or (None,)
    for other in others:
        is_cheaper = other.usd_per_run.median < chosen.usd_per_run.median
        is_as_good = other.hours.median <= chosen.hours.median and (other.probability or 1) >= (
            chosen.probability or 1
        )
        why = behind(recommendation, other)
        assert (why is not Behind.COST) == is_cheaper
        assert why in (Behind.PRICE, Behind.UNMEASURED) or not (is_cheaper and is_as_good)
        assert why is not Behind.UNMEASURED or (is_measured(chosen) and not is_measured(other))


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from([EIGHT_B, "Qwen/Qwen3-8B", "meta-llama/Llama-3.1-70B"]),
    st.sampled_from(list(LlmMethod)),
    st.floats(1e7, 1e9),
    st.sampled_from(["max_hours", "max_run_usd", "max_usd_per_hour", "vcpu_quota"]),
    st.floats(1.0, 10),
)
def test_a_limit_that_the_choice_surely_keeps_leaves_it(
    model: str, method: LlmMethod, tokens: float, limit: str, times: float
) -> None:
    """What costs the same within its error goes by the same rule with a deadline, a budget or a quota."""
    free = {"model": model, "method": method, "tokens": tokens, "required_confidence": None}
    chosen = answer(**free).chosen
    spec = chosen.spec
    most = {
        "max_hours": times * chosen.hours.upper,
        "max_run_usd": times * chosen.usd_per_run.upper,
        "max_usd_per_hour": times * spec.total_usd_per_hour,
        "vcpu_quota": tuple(
            (code, times * spec.offer.instance.vcpus) for code in ("L-DB2E81BA", "L-417A185B")
        ),
    }
    limited = answer(**free, **{limit: most[limit]}).chosen
    assert limited.spec.offer == spec.offer


@pytest.mark.parametrize("method", list(LlmMethod))
def test_what_is_recommended_has_memory_left(method: LlmMethod) -> None:
    for candidate in answer(method=method, model="meta-llama/Llama-3.1-70B").ranked:
        memory, gpu = candidate.memory, candidate.spec.offer.instance.gpu_memory_mib
        names = ("weights", "gradients", "optimizer", "activations", "overhead")
        assert memory.free_gib > 0
        assert sum(getattr(memory, f"{name}_gib") for name in names) < gpu / 1024


def test_no_more_is_used_than_is_allowed_and_memory_is_told_before_anything_is_rented():
    recommendation = answer(target_tokens_per_second=1e6, max_usd_per_hour=2.0)
    assert recommendation.chosen is None
    assert recommendation.nearest.spec.total_usd_per_hour <= 2.0
    recommendation = answer(gpus=("L4", "A10G"), method=LlmMethod.QLORA, max_gpus=1, max_results=50)
    assert all(candidate.gpus_used == 1 for candidate in recommendation.ranked)
    assert recommendation.chosen.spec.offer.instance.gpu_count == 1
    question = {**COMMON, "sequence": 4096, "gpu": GpuFilter(names=("L4", "H100", "T4"))}
    lora, full = (
        {gpu.gpu: gpu for gpu in language.memory(catalog(), asked).result.gpus}
        for asked in (MemoryFinetuning(**question, method=each) for each in (LlmMethod.QLORA, LlmMethod.FULL))
    )
    assert (lora["L4"].gpus, lora["L4"].use is None, lora["H100-SXM5-80GB"].use is None) == (1, False, False)
    assert full["T4"].use is None
    assert "bf16" in str(full["T4"].why_not)
    assert full["H100-SXM5-80GB"].gpus > 1


def test_a_named_instance_is_predicted_and_one_that_cannot_says_why() -> None:
    """Eight H100 tune all weights of 8B; one L4 does not hold them."""
    common = {**COMMON, "tokens": 1e9, "sequence": 4096, "method": LlmMethod.FULL}
    question = PredictFinetuning(**common, instance="p5.48xlarge")
    prediction = language.predicted(catalog(), question).result
    assert prediction.candidate.gpus_used == 8
    assert prediction.price is not None
    with pytest.raises(UsageError) as refused:
        language.predicted(catalog(), PredictFinetuning(**common, instance="g6.xlarge"))
    assert "GiB" in str(refused.value)
