"""The engine's choice against every way, count and load tried one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.engine.decide import recommend
from advisor.engine.task import EQUAL
from advisor.engine.tasks.serving.options import ServingOption
from advisor.engine.tasks.serving.table import GRID
from advisor.engine.tasks.serving.task import ServingTask
from advisor.models.language.deployments import Traffic
from advisor.questions.language import ServingQuestion
from tests.advisor.engine.tasks.physical import TODAY, serving, shipped
from tests.builders import serving_question

MODELS = ("Meta-Llama-3.1-8B", "Qwen3-30B-A3B", "Qwen2.5-72B")


class Served(NamedTuple):
    """What one replica is sure to do: output tokens a second, its longest times; and the median rate."""

    output: float
    median: float
    ttft: float
    tpot: float


def cheapest_price(request: ServingQuestion, task: ServingTask) -> float:
    """The least USD an hour (without a target: a million output tokens) of all ways, counts and loads."""
    prices = [
        price
        for option in task.options(request).options
        for count in range(1, request.max_count + 1)
        for price in prices_of(request, task, option, count)
    ]
    return min(prices, default=math.inf)


def prices_of(
    request: ServingQuestion, task: ServingTask, option: ServingOption, count: int
) -> Iterator[float]:
    """Of one way on so many instances, at each load that keeps all limits."""
    replicas = count * option.placement.batches
    usd = count * (option.offer.price.usd_per_hour + option.disk.usd_per_hour)
    if usd > (request.max_usd_per_hour or math.inf):
        return
    held = min(option.memory.largest_concurrency, GRID[-1])
    closed = task.predictor.closed_loop
    loads = sorted(load for load in {*GRID, held} if load <= held)
    if request.users is not None:
        share = math.ceil(request.users / replicas)
        if share <= held and keeps(request, served(request, closed, option, share)):
            yield usd
        return
    every = [served(request, closed, option, load) for load in loads]
    if request.target_requests_per_second is not None:
        arrive = request.target_requests_per_second / replicas
        most = max(rates.output for rates in every) / request.output_tokens
        if arrive <= most and keeps(request, served(request, task.predictor.under_load, option, arrive)):
            yield usd
        return
    yield from _of_rates(request, usd, replicas, [rates for rates in every if keeps(request, rates)])


def _of_rates(request: ServingQuestion, usd: float, replicas: int, good: list[Served]) -> Iterator[float]:
    """The price where a target is met; without one that of a million tokens within 5 % of the best rate."""
    target = request.target_output_tokens_per_second
    best = max((rates.output for rates in good), default=0.0)
    if target is None and good:
        enough = next(rates for rates in good if rates.output >= 0.95 * best)
        yield usd / (replicas * enough.median * 3600) * 1e6
    elif target is not None and replicas * best >= target:
        yield usd


def keeps(request: ServingQuestion, rates: Served) -> bool:
    """Whether a load keeps every limit of times."""
    e2e = rates.ttft + (request.output_tokens - 1) * rates.tpot
    return (
        rates.tpot == rates.tpot  # not beyond capacity
        and 1000 * rates.ttft <= (request.max_ttft_ms or math.inf)
        and 1000 * rates.tpot <= (request.max_tpot_ms or math.inf)
        and e2e <= (request.max_e2e_seconds or math.inf)
    )


def served(request: ServingQuestion, predicted: Any, option: ServingOption, load: float) -> Served:
    """The bounds of a replica with so many requests in flight, or at which so many arrive a second."""
    traffic = Traffic(request.input_tokens, request.output_tokens, request.prefix_share)
    prediction = predicted([option.deployment], traffic, np.array([load]), 0.9)
    output, times = prediction.output_tokens_per_second, (prediction.ttft_seconds, prediction.tpot_seconds)
    bounds = output.lower, output.median, *(time.upper for time in times)
    return Served(*(float(bound[0]) for bound in bounds))


@st.composite
def requests(draw: st.DrawFn) -> ServingQuestion:
    """Requests of all targets and limits, in one region or another."""
    target = draw(st.sampled_from(("tokens", "requests", "users", "none")))
    targets: dict[str, Any] = {
        "tokens": {"target_output_tokens_per_second": draw(st.floats(10, 20_000))},
        "requests": {"target_requests_per_second": draw(st.floats(0.05, 60))},
        "users": {"users": draw(st.integers(1, 600))},
        "none": {},
    }[target]
    places = (("aws", "us-east-1"), ("gcp", "us-central1"), ("aws", "eu-west-1"))
    cloud, region = draw(st.sampled_from(places))
    maybe = lambda low, high: st.none() | st.floats(low, high)  # noqa: E731
    return serving_question(
        model=draw(st.sampled_from(MODELS)),
        input_tokens=draw(st.sampled_from((100.0, 1020.0, 4000.0))),
        output_tokens=draw(st.sampled_from((16.0, 240.0, 1000.0))),
        cloud=cloud,
        region=region,
        max_ttft_ms=draw(maybe(40, 3000)),
        max_tpot_ms=draw(maybe(3, 80)),
        max_e2e_seconds=draw(maybe(0.5, 60)),
        max_usd_per_hour=draw(maybe(0.5, 150)),
        max_count=draw(st.integers(1, 4)) if target != "none" else 1,
        **targets,
    )


@pytest.mark.parametrize("predictor", ["physical", pytest.param("shipped", marks=pytest.mark.night)])
@given(request=requests())
def test_choice_is_the_cheapest_of_all_that_keep_the_limits(predictor: str, request: ServingQuestion) -> None:
    task = serving(request.model) if predictor == "physical" else shipped(request.model)
    request = replace(request, allow_extrapolation=True)
    answer = recommend(task, replace(request, max_results=1000), today=TODAY)
    expected = cheapest_price(request, task)
    if answer.chosen is None:
        assert expected == math.inf
        return
    chosen = answer.chosen
    price = chosen.spec.total_usd_per_hour
    if not request.targets:
        costs = [each.usd_per_million_output_tokens for each in answer.ranked]
        cheapest = min(costs, key=lambda cost: cost.median)
        quartile = cheapest.median * (cheapest.upper / cheapest.median) ** (0.674 / 1.2816)
        most = min(quartile, EQUAL * cheapest.median)
        pairs = zip((each.spec.total_usd_per_hour for each in answer.ranked), costs, strict=True)
        assert price == pytest.approx(min((usd * c.median, usd) for usd, c in pairs if c.median <= most)[1])
        price = cheapest.median
    assert price == pytest.approx(expected, rel=1e-9)


@given(request=requests())
def test_every_type_is_ranked_and_keeps_the_limits_or_has_a_reason(request: ServingQuestion) -> None:
    task = serving(request.model)
    answer = recommend(task, replace(request, max_results=1000), today=TODAY)
    for candidate in answer.ranked:
        rates = candidate.rates
        for amount, most in (
            (1000 * rates.ttft_seconds.upper, request.max_ttft_ms),
            (1000 * rates.tpot_seconds.upper, request.max_tpot_ms),
            (rates.e2e_seconds.upper, request.max_e2e_seconds),
            (candidate.spec.total_usd_per_hour, request.max_usd_per_hour),
            (candidate.spec.count, request.max_count),
        ):
            assert amount <= (most or math.inf)
        replicas = candidate.spec.count * candidate.placement.replicas
        assert rates.concurrency <= replicas * candidate.memory.largest_concurrency * (1 + 1e-9) or (
            request.target_requests_per_second is not None
        )
        lower = rates.output_tokens_per_second.lower
        assert lower >= (request.target_output_tokens_per_second or 0) * (1 - 1e-9)
        if request.users is not None:
            assert rates.concurrency == pytest.approx(request.users)
    usd = [candidate.spec.total_usd_per_hour for candidate in answer.ranked]
    if request.targets:
        assert usd == sorted(usd)
    ranked = {candidate.spec.offer.instance.name for candidate in answer.ranked}
    rejected = {rejection.instance_type for rejection in answer.rejected}
    assert not ranked & rejected
    assert {option.offer.instance.name for option in task.options(request).options} <= ranked | rejected
