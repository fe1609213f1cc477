"""Prices that are not listed are told, and the cloud of every spec where there are several."""

import pytest
from msgspec.structs import replace

from advisor.domain import OBSERVED, Market, PriceCall, Task
from advisor.domain.language import FineTuningRecommendation
from advisor.messages import format_usd, short_usd
from advisor.render.document import plain
from advisor.render.i18n.catalogue import report_texts
from advisor.render.price_doubt import price_doubt_block
from advisor.render.sentences import price_call_leaves
from tests.advisor.render.language_answers import finetuning_recommendation, generation_recommendation
from tests.builders import PRICED, network_question, recommendation


def at_market_price(candidate):
    """The same, at an observed price that is half as much or twice."""
    price = replace(candidate.spec.offer.price, kind=OBSERVED, low=0.5, high=2.0)
    return replace(candidate, spec=replace(candidate.spec, offer=replace(candidate.spec.offer, price=price)))


def sentences(answer):
    return [str(message) for message in price_doubt_block(answer)["sentences"]]


def no_target(answer):
    names = ("target_output_tokens_per_second", "target_requests_per_second", "users")
    return replace(answer, request=replace(answer.request, **dict.fromkeys(names)))


RANKED_BY = pytest.mark.parametrize(
    "whole",
    [
        recommendation(request=network_question(network="googlenet", task=Task.INFERENCE)),
        no_target(generation_recommendation()),
        finetuning_recommendation(),
    ],
)


@RANKED_BY
def test_a_doubted_price_is_told_by_the_hour_or_of_the_run(whole):
    listed = whole.ranked[0]
    market = at_market_price(listed)
    spec, whole = market.spec, replace(whole, today=PRICED)
    low, high = format_usd(spec.low_usd_per_hour), f"{format_usd(spec.high_usd_per_hour)}/h"
    firmer = f"{format_usd(listed.spec.total_usd_per_hour)}/h"
    if isinstance(whole, FineTuningRecommendation):
        run = market.usd_per_run.median / spec.total_usd_per_hour
        low, high = (short_usd(run * each) for each in (spec.low_usd_per_hour, spec.high_usd_per_hour))
        high, firmer = f"{high} for the run", f"{short_usd(listed.usd_per_run.median)} for the run"
    call = PriceCall(listed=listed, cheaper=market)
    (doubt,) = sentences(replace(whole, ranked=(listed,), price_call=call))
    assert f"{low} to {high}: too unsure to choose (seen " in doubt
    first, _ = sentences(replace(whole, ranked=(market,), price_call=call))
    assert first.startswith("seen ")
    assert f"today's may be {low} to {high}; firmer: " in first
    assert first.endswith(firmer)


@RANKED_BY
@pytest.mark.parametrize("cloud", ["aws", "any"])
def test_a_saved_answer_tells_its_prices_in_every_language(whole, cloud):
    chosen = at_market_price(whole.ranked[0])
    spot = replace(chosen.spec.offer, market=Market.SPOT)
    cheaper = replace(chosen, spec=replace(chosen.spec, offer=spot))
    call = PriceCall(listed=whole.ranked[0], cheaper=cheaper)
    request = replace(whole.request, cloud=cloud)
    whole = replace(whole, request=request, today=PRICED, ranked=(chosen,), price_call=call)
    saved = plain({"request": {"cloud": cloud}, "price_call": price_doubt_block(whole)})
    english, chinese = (
        [leaf.text for leaf in list(price_call_leaves(saved, report_texts(language)))[:2]]
        for language in ("en", "zh-CN")
    )
    assert english == sentences(whole)
    assert ("观测价格" in chinese[0], "竞价" in chinese[1]) == (True, True)
    assert not any(word in " ".join(chinese) for word in ("spot", " per ", "price"))
