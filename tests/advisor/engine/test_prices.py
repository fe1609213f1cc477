"""What is cheapest by a price that is not listed is held against the listed ones."""

from datetime import date, timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import advisor
from advisor.catalog import load_catalog
from advisor.domain import ESTIMATED, LIST, OBSERVED, Market, Task
from advisor.domain.money import all_listed, is_old, is_wanted
from advisor.engine import Preparations, recommend
from advisor.engine.decide import PriceDoubt, RankedAnswer, fresh_answer, with_ages
from advisor.errors import StalePriceError
from tests.advisor.engine.plain_model import PlainModel
from tests.builders import PRICED, candidate, network_question, recommendation

TODAY = PRICED
REQUEST = recommendation().request


def priced(name, usd, kind=LIST, high=1.0, low=1.0):
    base = candidate(name, usd)
    price = replace(base.spec.offer.price, kind=kind, high=high, low=low)
    return replace(base, spec=replace(base.spec, offer=replace(base.spec.offer, price=price)))


def decide(candidates, request=REQUEST, today=TODAY, **draft):
    """The decision among candidates that all answer."""

    def answered(request):
        counted = [
            candidate
            for candidate in candidates
            if all(is_wanted(each, request.price_kinds, request.listed_on) for each in candidate.spec.prices)
            and (request.price_spread is None or request.price_spread.allows(candidate.spec.offer.price))
        ]
        counted.sort(key=hourly)
        shown = tuple(counted[: request.max_results])
        answer = recommendation(request=request, ranked=shown, today=today)
        return RankedAnswer(with_ages(answer, today), **draft)

    return PriceDoubt(request, answered, hourly, today).answer()


def hourly(candidate):
    return candidate.spec.total_usd_per_hour


guess, seen = partial(priced, "guess", kind=ESTIMATED), partial(priced, "seen", kind=OBSERVED)


def old(name, usd, high):
    """Listed a day before the list counts as old."""
    dear = priced(name, usd, high=high)
    price = replace(dear.spec.offer.price, max_age_days=0)
    return replace(dear, spec=replace(dear.spec, offer=replace(dear.spec.offer, price=price)))


A, TOMORROW = priced("a", 1.0), PRICED + timedelta(days=1)


@pytest.mark.parametrize(
    ("some", "chosen", "listed", "cheaper"),
    [
        ([guess(0.4, high=2.0), A], "guess", "a", None),
        # At most as dear as the listed one, but for rounding.
        ([guess(0.3, high=(1 + 1e-12) / 0.3), A], "guess", "a", None),
        ([guess(0.6, high=2.0), A], "a", "a", "guess"),
        ([guess(0.5, high=3.0), seen(0.6, high=1.2), A], "seen", "a", "guess"),
        ([priced("wide", 0.5, OBSERVED, 4.0), seen(0.6, high=1.2), A], "seen", "a", "wide"),
        ([seen(0.5, high=4.0), old("old", 0.6, 1.3), A], "old", "a", "seen"),
        # However many old lists are cheaper, a recent one stands beside them.
        ([old("wide", 0.5, 4.0), old("narrow", 0.6, 1.3), A], "narrow", "a", "wide"),
        ([seen(0.4, high=5.0), old("wide", 0.5, 4.0), old("narrow", 0.6, 1.3), A], "narrow", "a", "seen"),
        ([guess(0.5, high=3.0)], "guess", None, None),
    ],
)
def test_the_sure_one_is_chosen_beside_what_is_listed_and_what_may_be_cheaper(some, chosen, listed, cheaper):
    for most in (1, 2, 10):
        request = replace(REQUEST, max_results=most)
        answer = decide(some, request, TOMORROW)
        call = answer.price_call
        named = [each and each.spec.name for each in (answer.chosen, call.listed, call.cheaper)]
        assert named == [chosen, listed, cheaper]
        assert len(answer.ranked) <= most
        assert answer.request == request


def test_the_kinds_asked_for_are_kept_an_old_list_price_is_no_listed_one_and_age_matters_where_one_answers():
    answer = decide([A], today=PRICED + timedelta(days=400))
    assert answer.price_call.listed is None
    assert answer.chosen.spec.low_usd_per_hour < answer.chosen.spec.total_usd_per_hour
    some = [priced("guess", 0.1, ESTIMATED), priced("seen", 0.2, OBSERVED), A]
    chosen = decide(some, replace(REQUEST, price_kinds=(LIST, OBSERVED))).chosen
    assert chosen.spec.name == "seen"
    nothing = fresh_answer(question_with(target_throughput=1e12), answered, LATER)
    assert nothing.chosen is None


def exact_where_listed(candidate):
    price = candidate.spec.offer.price
    return priced(candidate.spec.name, price.usd_per_hour) if price.kind == LIST else candidate


candidates = st.lists(
    st.builds(
        priced,
        name=st.uuids().map(str),
        usd=st.floats(0.1, 10),
        kind=st.sampled_from((LIST, OBSERVED, ESTIMATED)),
        high=st.floats(1, 5),
        low=st.floats(0.2, 1),
    ).map(exact_where_listed),
    min_size=1,
    max_size=6,
)


@given(candidates)
def test_what_is_chosen_costs_least_at_the_upper_end_of_its_price(some):
    chosen = decide(some).chosen
    assert chosen.spec.high_usd_per_hour <= min(candidate.spec.high_usd_per_hour for candidate in some) + 1e-9


@given(candidates)
def test_nobody_pays_more_than_at_the_cheapest_listed_price_whatever_the_true_prices_are(some):
    answer = decide(some)
    listed = [hourly(candidate) for candidate in some if all_listed(candidate.spec, TODAY)]
    if listed:
        assert answer.chosen.spec.high_usd_per_hour <= min(listed)
        sure = answer.price_call.listed if answer.price_call else answer.chosen
        assert hourly(sure) == min(listed)
    else:
        cheaper = answer.price_call and answer.price_call.cheaper
        assert hourly(cheaper or answer.chosen) == min(map(hourly, some))


LATER = date(2026, 11, 23)
answered = partial(recommend, preparations=Preparations(load_catalog(), PlainModel()), today=LATER)


def question_with(**changes):
    same = {"network": "resnet50", "task": Task.TRAINING, "target_throughput": 100.0}
    return network_question(**{**same, "region": None, **changes})


def test_the_cheapest_whose_price_is_not_old_is_the_answer():
    request = question_with(cloud="any")
    prices = [candidate.spec.offer.price for candidate in answered(request).ranked]
    assert any(is_old(price, LATER) for price in prices)
    fresh = fresh_answer(request, answered, LATER)
    assert fresh.chosen is not None
    assert not any(is_old(candidate.spec.offer.price, LATER) for candidate in fresh.ranked)
    assert fresh.chosen.spec.total_usd_per_hour >= answered(request).chosen.spec.low_usd_per_hour


@pytest.mark.parametrize(
    ("where", "way"),
    [
        ({"cloud": "lambda"}, "`advisor catalog import`"),
        ({"cloud": "aws", "market": Market.SPOT}, "`advisor catalog refresh --cloud aws --region"),
    ],
)
def test_where_old_prices_alone_answer_the_error_names_what_brings_newer_ones(where, way):
    with pytest.raises(StalePriceError, match=f"of {where['cloud']} is .* days old") as raised:
        fresh_answer(question_with(**where), answered, LATER)
    assert str(raised.value.hint).startswith(("refresh it (", "`advisor catalog import`"))
    assert way in str(raised.value.hint)


@pytest.mark.parametrize("model", ["googlenet", "vit_b_16"])
def test_the_listed_price_beside_an_unsure_one_is_the_cheapest_where_it_is_listed(model):
    """On Azure the pick's disk has an estimated price; elsewhere the same machine is listed throughout."""
    question = {"task": "inference", "model": model, "target_throughput": 300, "cloud": "azure"}
    listed = advisor.recommend(**question).price_call["listed"]
    there = advisor.recommend(**question, region=listed["region"]).recommendation
    assert listed["instance_type"] == there["instance_type"]
    assert listed["total_usd_per_hour"] == there["price"]["total_usd_per_hour"]
