"""Prices, offerings and quotas of AWS with an account, and every way in which they can be wrong."""

from datetime import date

import pytest
from moto import mock_aws

from advisor.domain import Market
from advisor.errors import LiveError
from advisor.infra.live.aws import newest_by_zone, offered, on_demand, spot, vcpu_quota
from advisor.infra.live.session import NoQuote, Quote
from tests.infra.live.recorded import Recorded, product

TODAY = date(2026, 11, 21)
NO_PRICES = ("0.0000000000", "-1", "nan", "inf", "free")


def asked_price(name: str = "g5.xlarge") -> Quote | NoQuote:
    (answer,) = on_demand([name], "us-east-1", TODAY)
    return answer


def test_the_service_is_asked_for_plain_linux_on_shared_hosts(recorded: Recorded) -> None:
    """A type has hundreds of products: Windows, SQL Server, dedicated hosts, reservations. Who is
    throttled once asks again."""
    recorded.products["g5.xlarge"] = [product("g5.xlarge", "1.0060000000")]
    recorded.faults = ["throttle"]
    where = {"instance_type": "g5.xlarge", "region": "us-east-1", "market": Market.ON_DEMAND}
    assert asked_price() == Quote(usd_per_hour=1.006, as_of=TODAY, **where)
    filters = {entry["Field"]: entry["Value"] for entry in recorded.asked[0]["Filters"]}
    plain = {
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }
    named = {"instanceType": "g5.xlarge", "regionCode": "us-east-1"}
    assert filters == {"locationType": "AWS Region", **plain, **named}


@pytest.mark.parametrize(
    ("products", "why"),
    [
        ([], "no on-demand price"),
        *(([product("g5.xlarge", usd)], "no on-demand price") for usd in NO_PRICES),
        ([product("g5.xlarge", "7.2", currency="CNY")], "no on-demand price"),
        ([product("g5.xlarge", "1.006", unit="Quantity")], "no on-demand price"),
        ([product("g5.2xlarge", "1.212")], "no on-demand price"),
        ([product("g5.xlarge", "1.19", operatingSystem="Windows")], "no on-demand price"),
        ([product("g5.xlarge", "1.123", regionCode="eu-west-1")], "no on-demand price"),
        ([product("g5.xlarge", "1.107", tenancy="Dedicated")], "no on-demand price"),
        ([product("g5.xlarge", "1.006"), product("g5.xlarge", "2.012")], "several prices"),
        ([product("g5.xlarge", "1.006", "0.9")], "several prices"),
        (["{"], "cannot be read"),
        (["[]"], "cannot be read"),
        (['{"product": {"attributes": {"instanceType": "g5.xlarge"}}}'], "cannot be read"),
        (['{"product": {"attributes": {"instanceType": null}}}'], "no on-demand price"),
        (['{"product": {"attributes": {}}}'], "cannot be read"),
    ],
)
def test_a_lie_is_refused_with_its_reason(products, why: str, recorded: Recorded) -> None:
    """0, negative, another currency, another unit, two prices, garbage: never a price."""
    recorded.products["g5.xlarge"] = products
    answer = asked_price()
    assert isinstance(answer, NoQuote)
    assert why in answer.why


def test_one_bad_answer_does_not_take_the_others_with_it(recorded: Recorded) -> None:
    recorded.products = {"a.x": ["{"], "b.x": [product("b.x", "2")]}
    bad, good = on_demand(["a.x", "b.x"], "us-east-1", TODAY)
    assert isinstance(bad, NoQuote)
    assert isinstance(good, Quote)


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        (["throttle"] * 9, "throttles GetProducts"),
        (["denied"], "may not GetProducts"),
        (["broken"] * 9, "refused GetProducts"),
        (["garbage"] * 9, "AWS pricing"),
        (["cut"] * 9, "AWS pricing"),
        (["hang"] * 9, "did not answer in time"),
    ],
)
def test_a_service_that_fails_is_one_line(faults, expected: str, recorded: Recorded, impatient) -> None:
    recorded.products["g5.xlarge"] = [product("g5.xlarge", "1.006")]
    recorded.faults = faults
    with pytest.raises(LiveError, match=expected) as failed:
        asked_price()
    assert "\n" not in str(failed.value)


def test_nobody_there_is_told(monkeypatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", "http://127.0.0.1:9")
    with pytest.raises(LiveError, match="cannot be reached"):
        asked_price()


@pytest.fixture
def ec2():
    with mock_aws():
        yield


def test_a_spot_price_names_its_zone_and_only_what_the_region_has_is_offered(ec2) -> None:
    (quote,) = spot(["g5.xlarge"], "us-east-1", TODAY)
    assert isinstance(quote, Quote)
    assert quote.market is Market.SPOT
    assert quote.zone.startswith("us-east-1")
    assert quote.usd_per_hour > 0
    assert offered(["g5.xlarge", "p2.xlarge"], "us-east-1") == {"g5.xlarge"}


def test_of_a_zones_prices_the_last_one_counts() -> None:
    """The service tells the price before the asked time, too."""
    rows = [
        {"InstanceType": "g", "AvailabilityZone": "a", "SpotPrice": "0.5", "Timestamp": "2"},
        {"InstanceType": "g", "AvailabilityZone": "a", "SpotPrice": "0.1", "Timestamp": "1"},
        {"InstanceType": "g", "AvailabilityZone": "b", "SpotPrice": "0", "Timestamp": "3"},
        {"InstanceType": "g", "AvailabilityZone": "b", "SpotPrice": "9", "Timestamp": "3"},
    ]
    newest = {"g": {"a": {0.5}, "b": {None, 9.0}}}
    assert newest_by_zone(rows) == newest
    assert newest_by_zone(rows[::-1]) == newest


@pytest.mark.parametrize(
    ("zones", "why"),
    [
        ([("us-east-1a", "0")], "no price"),
        ([("us-east-1a", "-1"), ("us-east-1b", "nan")], "no price"),
        ([("us-east-1a", "0.5"), ("us-east-1a", "0.6")], "several spot prices"),
        ([("us-east-1a", "0.5"), ("us-east-1a", "free")], "several spot prices"),
        ([], "no spot price in us-east-1"),
    ],
)
def test_a_lie_of_the_spot_market_is_refused(zones, why: str, recorded: Recorded) -> None:
    recorded.spot["g5.xlarge"] = zones
    (answer,) = spot(["g5.xlarge"], "us-east-1", TODAY)
    assert isinstance(answer, NoQuote)
    assert why in answer.why


def test_a_zone_without_a_price_does_not_hide_another(recorded: Recorded) -> None:
    recorded.spot["g5.xlarge"] = [("us-east-1a", "0"), ("us-east-1b", "0.5")]
    (answer,) = spot(["g5.xlarge"], "us-east-1", TODAY)
    assert isinstance(answer, Quote)
    assert (answer.usd_per_hour, answer.zone) == (0.5, "us-east-1b")


def test_a_quota_is_told_in_vcpus(recorded: Recorded) -> None:
    recorded.quotas["L-DB2E81BA"] = 8.0
    assert vcpu_quota("g5.xlarge", "us-east-1", Market.ON_DEMAND) == 8.0
    assert vcpu_quota("mac2.metal", "us-east-1", Market.ON_DEMAND) is None
