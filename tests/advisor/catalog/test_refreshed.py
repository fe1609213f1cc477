"""What was refreshed is read back as it was told, and stands in the place of the old, alone."""

import tempfile
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.overlay import Overlay, forget_overlay, keep_overlay, plain_cell, read_overlay
from advisor.domain import Market, Price

BUNDLED = load_catalog()
DAY = date(2026, 11, 21)
NAMES = ["g4dn.xlarge", "g5.xlarge", "p4d.24xlarge", "p2.xlarge", "c7i.large"]
REGIONS = ["us-east-1", "eu-west-1", "ca-west-1", "us-west-2"]
MARKETS = [Market.ON_DEMAND, Market.SPOT]
keys = st.tuples(st.sampled_from(NAMES), st.sampled_from(REGIONS), st.sampled_from(MARKETS))
texts = st.sampled_from(["", "zone a", "zone b; 5 to 10 %", "one, two", "a\nb \x1b[2J"])


def price(market: Market, usd: float, days: int, terms: str) -> Price:
    kind = "observed" if market is Market.SPOT else "list"
    day = DAY + timedelta(days=days)
    return Price(usd_per_hour=usd, kind=kind, as_of=day, source="AWS", terms=terms)


def plain(item: Price | None) -> Price | None:
    """As tables hold it."""
    return item and replace(item, terms=plain_cell(item.terms))


prices = st.builds(
    lambda prices, offers: Overlay(
        {key: price(key[2], *rest) for key, rest in prices.items()},
        {key: (there, DAY) for key, there in offers.items()},
    ),
    st.dictionaries(keys, st.tuples(st.floats(1e-6, 1e6), st.integers(0, 9), texts), max_size=12),
    st.dictionaries(st.tuples(st.sampled_from(NAMES), st.sampled_from(REGIONS)), st.booleans(), max_size=6),
)


@given(prices)
def test_each_price_is_the_newest_that_is_known(refreshed: Overlay) -> None:
    catalog = load_catalog(live={"aws": refreshed})
    gone = {key for key, (there, _) in refreshed.offerings.items() if not there}
    for name in NAMES:
        for region in REGIONS:
            there, _ = refreshed.offerings.get((name, region), (None, None))
            was = BUNDLED.is_offered(name, region, "aws")
            assert catalog.is_offered(name, region, "aws") == (was if there is None else there)
            for market in MARKETS:
                expected = refreshed.prices.get(
                    (name, region, market), BUNDLED.price(name, region, market, "aws")
                )
                expected = None if (name, region) in gone else expected
                assert catalog.price(name, region, market, "aws") == plain(expected)


@settings(max_examples=10)
@given(prices)
def test_no_offer_is_told_twice_or_lost(refreshed: Overlay) -> None:
    query = OfferQuery(cloud="aws", instances=tuple(NAMES))
    result = load_catalog(live={"aws": refreshed}).offers(query)
    places = {(offer.instance.name, offer.region, offer.market): offer.price for offer in result}
    assert len(places) == len(result)
    gone = {key for key, (there, _) in refreshed.offerings.items() if not there}
    before = {(o.instance.name, o.region, o.market): o.price for o in BUNDLED.offers(query)}
    merged = before | refreshed.prices
    assert places == {key: plain(offer) for key, offer in merged.items() if key[:2] not in gone}


@given(prices, prices)
def test_what_is_kept_is_read_back_and_newer_answers_count(first: Overlay, second: Overlay) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keep_overlay(folder, "aws", first)
        keep_overlay(folder, "aws", second)
        both = first.under(second)
        kept = read_overlay(folder, "aws")
        assert kept.offerings == both.offerings
        assert kept.prices.keys() == both.prices.keys()
        for key, item in kept.prices.items():
            assert item == plain(both.prices[key])
        assert forget_overlay(folder, "aws")
        assert not forget_overlay(folder, "aws")
        assert not read_overlay(folder, "aws")


def test_other_clouds_and_disks_stay_as_they_are() -> None:
    overlay = Overlay({("g5.xlarge", "us-east-1", Market.ON_DEMAND): price(MARKETS[0], 1, 0, "")})
    catalog = load_catalog(live={"aws": overlay})
    query = OfferQuery(cloud="gcp", gpus=("T4", "L4"))
    assert catalog.offers(query) == BUNDLED.offers(query)
    assert catalog.disks.types == BUNDLED.disks.types
    assert catalog.as_of == BUNDLED.as_of


@pytest.mark.parametrize("usd", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_price_cannot_be_laid_over_anything(usd: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        price(Market.SPOT, usd, 0, "")
