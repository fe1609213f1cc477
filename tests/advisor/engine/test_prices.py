"""What is cheapest by a price that is not listed is held against the listed ones; `--strict` takes
none that is old."""

from datetime import date
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import ESTIMATED, LIST, OBSERVED, Market, Task
from advisor.domain.price_age import all_listed, counts, is_old
from advisor.engine import Preparations, recommend
from advisor.engine.prices import PriceDoubt, RankedAnswer, fresh_answer
from advisor.errors import StalePriceError
from tests.advisor.engine.plain_model import PlainModel
from tests.builders import PRICED, candidate, network_question, recommendation

TODAY = PRICED
REQUEST = recommendation().request


def priced(name, usd, kind=LIST, high=1.0, low=1.0):
    one = candidate(name, usd)
    price = replace(one.spec.offer.price, kind=kind, high=high, low=low)
    return replace(one, spec=replace(one.spec, offer=replace(one.spec.offer, price=price)))


def decide(candidates, request=REQUEST, today=TODAY):
    """The decision among candidates that all answer."""

    def answered(asked):
        found = [
            one
            for one in candidates
            if all(counts(price, asked.price_kinds, asked.listed_on) for price in one.spec.prices)
            and (asked.price_spread is None or asked.price_spread.holds(one.spec.offer.price))
        ]
        found.sort(key=hourly)
        shown = tuple(found[: asked.max_results])
        return RankedAnswer(recommendation(request=asked, ranked=shown, today=today))

    return PriceDoubt(request, answered, hourly, today).answer()


def hourly(one):
    return one.spec.total_usd_per_hour


def test_listed_prices_alone_decide_as_ever():
    answer = decide([priced("a", 1.0), priced("b", 2.0)])
    assert answer.chosen.spec.name == "a"
    assert answer.price_call is None


def test_an_estimate_that_costs_less_at_its_worst_is_chosen_beside_the_listed_one():
    answer = decide([priced("guess", 0.4, ESTIMATED, high=2.0), priced("a", 1.0)])
    assert answer.chosen.spec.name == "guess"
    assert answer.price_call.listed.spec.name == "a"
    assert answer.price_call.cheaper is None


def test_an_estimate_within_its_error_of_the_listed_one_may_be_cheaper_and_is_not_the_answer():
    answer = decide([priced("guess", 0.6, ESTIMATED, high=2.0), priced("a", 1.0)])
    assert [one.spec.name for one in answer.ranked] == ["a", "guess"]
    assert answer.price_call.listed == answer.chosen
    assert answer.price_call.cheaper.spec.name == "guess"
    assert answer.request == REQUEST


def test_what_was_seen_is_chosen_where_an_estimate_is_not_sure_enough():
    answer = decide(
        [priced("guess", 0.5, ESTIMATED, high=3.0), priced("seen", 0.6, OBSERVED, high=1.2), priced("a", 1.0)]
    )
    assert answer.chosen.spec.name == "seen"
    assert answer.price_call.listed.spec.name == "a"
    assert answer.price_call.cheaper.spec.name == "guess"


def test_a_surer_one_behind_the_first_is_chosen_however_few_are_shown():
    """Two that were seen, of which the cheaper may cost most of all; the listed one costs more."""
    some = [
        priced("wide", 0.5, OBSERVED, high=4.0),
        priced("narrow", 0.6, OBSERVED, high=1.2),
        priced("a", 1.0),
    ]
    for most in (1, 2, 10):
        answer = decide(some, replace(REQUEST, max_results=most))
        assert answer.chosen.spec.name == "narrow"
        assert answer.price_call.listed.spec.name == "a"
        assert answer.price_call.cheaper.spec.name == "wide"
        assert len(answer.ranked) <= most


def test_an_old_list_price_that_is_sure_enough_is_chosen_where_a_cheaper_one_that_was_seen_is_not():
    old = priced("old", 0.6, high=1.3)
    price = replace(old.spec.offer.price, max_age_days=0)
    old = replace(old, spec=replace(old.spec, offer=replace(old.spec.offer, price=price)))
    later = date.fromordinal(PRICED.toordinal() + 1)
    some = [priced("seen", 0.5, OBSERVED, high=4.0), old, priced("a", 1.0)]
    answer = decide(some, today=later)
    assert answer.chosen.spec.name == "old"
    assert answer.price_call.listed.spec.name == "a"
    assert answer.price_call.cheaper.spec.name == "seen"


def test_beside_an_old_list_price_stands_one_of_a_recent_list():
    """However many old ones are cheaper: the runner-up is what will be paid."""
    later = date.fromordinal(PRICED.toordinal() + 1)

    def old(name, usd, high):
        one = priced(name, usd, high=high)
        price = replace(one.spec.offer.price, max_age_days=0)
        return replace(one, spec=replace(one.spec, offer=replace(one.spec.offer, price=price)))

    seen = priced("seen", 0.4, OBSERVED, high=5.0)
    for some in ([], [seen]):
        answer = decide(
            [*some, old("wide", 0.5, 4.0), old("narrow", 0.6, 1.3), priced("a", 1.0)], today=later
        )
        assert answer.chosen.spec.name == "narrow"
        assert answer.price_call.listed.spec.name == "a"


def test_without_a_listed_answer_the_cheapest_estimate_is_the_answer_and_says_so():
    answer = decide([priced("guess", 0.5, ESTIMATED, high=3.0)])
    assert answer.chosen.spec.name == "guess"
    assert answer.price_call.listed is None


def test_an_old_list_price_is_no_listed_one():
    later = date.fromordinal(PRICED.toordinal() + 400)
    answer = decide([priced("a", 1.0)], today=later)
    assert answer.price_call.listed is None
    assert answer.chosen.spec.low_usd_per_hour < answer.chosen.spec.total_usd_per_hour


def test_the_kinds_that_are_asked_for_are_kept():
    some = [priced("guess", 0.1, ESTIMATED), priced("seen", 0.2, OBSERVED), priced("a", 1.0)]
    chosen = decide(some, replace(REQUEST, price_kinds=(LIST, OBSERVED))).chosen
    assert chosen.spec.name == "seen"


candidates = st.lists(
    st.builds(
        priced,
        name=st.uuids().map(str),
        usd=st.floats(0.1, 10),
        kind=st.sampled_from((LIST, OBSERVED, ESTIMATED)),
        high=st.floats(1, 5),
        low=st.floats(0.2, 1),
    ).map(
        lambda one: (
            one
            if one.spec.offer.price.kind != LIST
            else priced(one.spec.name, one.spec.offer.price.usd_per_hour)
        )
    ),
    min_size=1,
    max_size=6,
)


@given(candidates)
def test_what_is_chosen_costs_least_at_the_upper_end_of_its_price(some):
    chosen = decide(some).chosen
    assert chosen.spec.high_usd_per_hour <= min(one.spec.high_usd_per_hour for one in some) + 1e-9


@given(candidates)
def test_nobody_pays_more_than_at_the_cheapest_listed_price_whatever_the_true_prices_are(some):
    answer = decide(some)
    listed = [hourly(one) for one in some if all_listed(one.spec, TODAY)]
    if listed:
        assert answer.chosen.spec.high_usd_per_hour <= min(listed)
        told = answer.price_call.listed if answer.price_call else answer.chosen
        assert hourly(told) == min(listed)
    else:
        assert hourly(answer.chosen) == min(map(hourly, some))


LATER = date(2026, 11, 23)
answered = partial(recommend, preparations=Preparations(load_catalog(), PlainModel()), today=LATER)


def asked(**changes):
    same = {"network": "resnet50", "task": Task.TRAINING, "target_throughput": 100.0}
    return network_question(**{**same, "region": None, **changes})


def test_the_cheapest_whose_price_is_not_old_is_the_answer():
    request = asked(cloud="any")
    prices = [one.spec.offer.price for one in answered(request).ranked]
    assert any(is_old(price, LATER) for price in prices)
    fresh = fresh_answer(request, answered, LATER)
    assert fresh.chosen is not None
    assert not any(is_old(one.spec.offer.price, LATER) for one in fresh.ranked)
    assert fresh.chosen.spec.total_usd_per_hour >= answered(request).chosen.spec.low_usd_per_hour


@pytest.mark.parametrize(
    ("place", "way"),
    [
        ({"cloud": "lambda"}, "`advisor catalog import`"),
        ({"cloud": "aws", "market": Market.SPOT}, "`advisor catalog refresh --cloud aws --region"),
    ],
)
def test_where_old_prices_alone_answer_the_error_names_what_brings_newer_ones(place, way):
    with pytest.raises(StalePriceError, match=f"of {place['cloud']} is .* days old") as raised:
        fresh_answer(asked(**place), answered, LATER)
    assert str(raised.value.hint).startswith(("refresh it (", "`advisor catalog import`"))
    assert way in str(raised.value.hint)


def test_where_nothing_answers_at_any_price_that_is_no_matter_of_age():
    nothing = fresh_answer(asked(target_throughput=1e12), answered, LATER)
    assert nothing.chosen is None
