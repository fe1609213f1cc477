"""Azure's price list, and every way in which it can be wrong."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import Market
from advisor.errors import LiveError
from advisor.infra.live.azure import AzurePrices, _quote
from advisor.infra.live.session import NoQuote, Quote
from advisor.infra.live.web import WebList
from tests.infra.live.listed import AZURE, Listed, meter, spot_meter

TODAY = date(2026, 11, 21)
A100 = "Standard_NC24ads_A100_v4"
UNREADABLE = ("garbage", "cut", "list", "not-a-number", "nothing-in-it", "deep", "half-a-character")


def prices_of(listed: Listed) -> AzurePrices:
    return AzurePrices(WebList(service="Azure's price list", url=listed.url + AZURE))


def ask(listed: Listed, *names: str, market: Market = Market.ON_DEMAND) -> list[Quote | NoQuote]:
    return list(prices_of(listed).quotes(names or (A100,), "westeurope", market, TODAY))


def test_one_answer_has_both_markets_and_leaves_windows_and_low_priority_out(listed) -> None:
    windows = "Virtual Machines NCADS A100 v4 Series Windows"
    listed.meters = [
        meter(A100, 8.078, productName=windows),
        meter(A100, 4.775),
        spot_meter(A100, 1.2, productName=windows),
        spot_meter(A100, 0.88),
        meter(A100, 0.955, meterName="NC24ads A100 v4 Low Priority"),
        meter(A100, 1.11, type="DevTestConsumption"),
        meter(A100, 25_000.0, type="Reservation", reservationTerm="1 Year"),
        meter(A100, 5.1, productName="NCADS A100 v4 Series Dedicated Host"),
        meter(A100, 4.2, "westeurope", effectiveStartDate="2026-12-01T00:00:00Z"),
        meter(A100, 3.9, "westeurope", effectiveEndDate="2026-01-01T00:00:00Z"),
        meter("Standard_NC48ads_A100_v4", 9.55),
    ]
    prices = prices_of(listed)
    (now,) = prices.quotes((A100,), "westeurope", Market.ON_DEMAND, TODAY)
    (spot,) = prices.quotes((A100,), "westeurope", Market.SPOT, TODAY)
    where = {"instance_type": A100, "region": "westeurope", "market": Market.ON_DEMAND}
    assert now == Quote(usd_per_hour=4.775, as_of=TODAY, **where)
    assert isinstance(spot, Quote)
    assert spot.usd_per_hour == 0.88
    assert len(listed.asked) == 1


def test_pages_of_many_sizes_are_few_and_those_that_lead_in_a_circle_end(listed, monkeypatch) -> None:
    names = [f"Standard_D{number}s_v5" for number in range(40)]
    listed.meters = [meter(name, 0.1 + number) for number, name in enumerate(names)]
    listed.page = 7
    assert [entry.usd_per_hour for entry in ask(listed, *names)] == [0.1 + n for n in range(40)]
    assert len(listed.asked) == 3 + 3 + 2
    listed.meters, listed.page, listed.endless = [meter(A100, 4.775)], 1, True
    monkeypatch.setattr("advisor.infra.live.web.MOST_PAGES", 3)
    with pytest.raises(LiveError, match="more than 3 pages"):
        ask(listed)
    assert len(listed.asked) == 8 + 3


def test_the_meter_of_the_region_itself_counts_and_one_bad_item_takes_no_other_with_it(listed) -> None:
    listed.meters = [meter(A100, 5.0, isPrimaryMeterRegion=False), meter(A100, 4.775)]
    (answer,) = ask(listed)
    assert answer.usd_per_hour == 4.775
    listed.meters = [None, 7, [], {"armSkuName": 7}, meter("Standard_X", "?"), meter(A100, 4.775)]
    bad, good = ask(listed, "Standard_X", A100)
    assert isinstance(bad, NoQuote)
    assert isinstance(good, Quote)


@pytest.mark.parametrize(
    ("meters", "why"),
    [
        ([], "no on-demand price in westeurope"),
        ([meter(A100, 4.7, "eastus")], "no on-demand price in westeurope"),
        ([meter(A100, 4.7, serviceName="Cloud Services")], "no on-demand price"),
        ([meter(A100, 4.7, currencyCode="EUR")], "another currency"),
        ([meter(A100, 4.7, unitOfMeasure="1/Month")], "not tell its price by the hour"),
        ([meter(A100, 4.7, tierMinimumUnits=100.0)], "not tell its price by the hour"),
        ([meter(A100, 4.7), meter(A100, 4.9)], "several prices: $4.7, $4.9"),
        *(([meter(A100, usd)], "is no price") for usd in (0.0, -1, 1e9, "free", True, None, 10**400)),
        ([meter(A100, 4.7, productName=None)], "cannot be read"),
        ([meter(A100, 4.7, effectiveStartDate="soon")], "cannot be read"),
        ([{"armSkuName": A100}], "cannot be read"),
    ],
)
def test_a_lie_is_refused_with_its_reason(meters, why: str, listed) -> None:
    """0, negative, another currency, unit or region, two prices, garbage: never a price."""
    listed.meters = meters
    (answer,) = ask(listed)
    assert isinstance(answer, NoQuote)
    assert why in answer.why


@pytest.mark.parametrize("fault", ["throttle", "broken", "cut"])
def test_a_service_that_fails_once_is_asked_again(listed, fault: str) -> None:
    listed.meters = [meter(A100, 4.775)]
    listed.faults = [fault]
    (answer,) = ask(listed)
    assert isinstance(answer, Quote)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("throttle", "throttles"),
        ("broken", r"refuses the request \(503\)"),
        ("denied", r"refuses the request \(403\)"),
        ("redirect", "redirect"),
        *((fault, "cannot be read") for fault in UNREADABLE),
        ("hang", "did not answer in time"),
    ],
)
def test_a_service_that_fails_is_one_line(fault: str, expected: str, listed, impatient) -> None:
    listed.faults = [fault] * 9
    with pytest.raises(LiveError, match=expected) as failed:
        ask(listed)
    assert "\n" not in str(failed.value)
    assert len(listed.asked) <= 4


def test_nobody_there_is_told(monkeypatch) -> None:
    monkeypatch.setattr("advisor.infra.live.web.FIRST_PAUSE_SECONDS", 0.001)
    with pytest.raises(LiveError, match="cannot be reached"):
        ask(Listed(url="http://127.0.0.1:9"))


def test_an_answer_without_end_is_cut(listed, monkeypatch) -> None:
    monkeypatch.setattr("advisor.infra.live.web.MOST_MIB_A_PAGE", 0.004)
    listed.meters = [meter(A100, 4.775, location="x" * 6000)]
    with pytest.raises(LiveError, match=r"more than 0\.004 MiB"):
        ask(listed)
    assert len(listed.asked) == 1


def test_a_body_that_trickles_is_given_up_though_no_read_waits_long(listed, monkeypatch) -> None:
    """A byte now and then would hold a refresh for ever; it is not asked for again."""
    monkeypatch.setattr("advisor.infra.live.web.ANSWER_SECONDS", 0.3)
    listed.meters, listed.trickles = [meter(A100, 4.775)], True
    with pytest.raises(LiveError, match="did not answer in time"):
        ask(listed)
    assert len(listed.asked) == 1


words = st.sampled_from([A100, "Virtual Machines", "Consumption", "westeurope", "USD", "1 Hour"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
lies = st.dictionaries(st.sampled_from(sorted(meter(A100, 1))), anything)


@given(
    st.lists(lies.map(lambda told: meter(A100, 4.775) | told) | anything, max_size=4),
    st.sampled_from([Market.ON_DEMAND, Market.SPOT]),
)
def test_any_json_is_a_believable_price_or_a_reason(items, market: Market) -> None:
    answer = _quote(A100, items, "westeurope", market, TODAY)
    if isinstance(answer, Quote):
        assert 0 < answer.usd_per_hour <= 20_000
    else:
        assert answer.why
