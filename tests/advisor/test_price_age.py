"""An old price lies in an interval that its kind and its age tell."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import ESTIMATED, FREE, LIST, OBSERVED, Price
from advisor.domain.money import aged, is_listed, is_old, is_wanted

DAY = date(2026, 1, 1)


def price(kind=LIST, max_age_days=90, low=1.0, high=1.0):
    return Price(
        usd_per_hour=0.0 if kind == FREE else 2.0,
        kind=kind,
        as_of=DAY,
        source="a list",
        low=low,
        high=high,
        max_age_days=max_age_days,
    )


prices = st.builds(
    price,
    kind=st.sampled_from((LIST, OBSERVED, ESTIMATED, FREE)),
    max_age_days=st.sampled_from((30, 90, 365)),
    low=st.floats(0.1, 1),
    high=st.floats(1, 10),
)
days = st.integers(0, 3000).map(lambda number: DAY + timedelta(days=number))


@given(prices, days, days)
def test_the_older_a_price_is_the_wider_it_lies_and_never_before_its_source_is_old(one, first, then):
    first, then = sorted((first, then))
    before, after = aged(one, first), aged(one, then)
    assert after.low <= before.low <= one.low
    assert after.high >= before.high >= one.high
    assert after.usd_per_hour == one.usd_per_hour
    if not is_old(one, then):
        assert after == one


def test_a_price_ages_by_its_kind_as_those_of_neo_clouds_and_rented_gpus_did():
    after = aged(price(max_age_days=30), DAY + timedelta(days=90))
    assert (after.low, after.high) == (0.96, 1.45)
    # H100, H200 and A100 rose from August to October 2026, with the age and not with its square root.
    three, six = (aged(price(max_age_days=30), DAY + timedelta(days=n)) for n in (90, 180))
    assert six.high == pytest.approx(three.high**2)
    assert six.low == pytest.approx(three.low ** (2**0.5))
    assert six.high - 1 > 10 * (1 - six.low)
    later = DAY + timedelta(days=400)
    listed, seen, guessed = (aged(price(kind), later) for kind in (LIST, OBSERVED, ESTIMATED))
    assert listed.high < seen.high == guessed.high


@given(prices, days)
def test_listed_is_what_the_seller_lists_and_is_not_old(one, today):
    assert is_listed(one, today) == (one.kind == FREE or (one.kind == LIST and not is_old(one, today)))
    assert is_wanted(one, (), None)
    assert is_wanted(one, (), today) == is_listed(one, today)
    assert is_wanted(one, (LIST,), None) == (one.kind in (LIST, FREE))
