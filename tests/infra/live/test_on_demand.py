"""On-demand prices, and every way in which they can be wrong."""

from __future__ import annotations

from datetime import date

import pytest

from advisor.domain import Market
from advisor.errors import LiveError
from advisor.infra.live.ec2 import on_demand
from advisor.infra.live.quotes import NoQuote, Quote
from tests.infra.live.recorded import Recorded, product

TODAY = date(2026, 11, 21)


def ask(name: str = "g5.xlarge") -> Quote | NoQuote:
    (answer,) = on_demand([name], "us-east-1", TODAY)
    return answer


def test_a_price_comes_with_its_day_and_market(recorded: Recorded) -> None:
    recorded.products["g5.xlarge"] = [product("g5.xlarge", "1.0060000000")]
    assert ask() == Quote(
        instance_type="g5.xlarge",
        region="us-east-1",
        market=Market.ON_DEMAND,
        usd_per_hour=1.006,
        as_of=TODAY,
    )


def test_the_service_is_asked_for_plain_linux_on_shared_hosts(recorded: Recorded) -> None:
    """A type has hundreds of products: Windows, SQL Server, dedicated hosts, reservations."""
    ask()
    filters = {one["Field"]: one["Value"] for one in recorded.asked[0]["Filters"]}
    assert filters == {
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "locationType": "AWS Region",
        "instanceType": "g5.xlarge",
        "regionCode": "us-east-1",
    }


@pytest.mark.parametrize(
    ("products", "why"),
    [
        ([], "no on-demand price"),
        ([product("g5.xlarge", "0.0000000000")], "no on-demand price"),
        ([product("g5.xlarge", "-1")], "no on-demand price"),
        ([product("g5.xlarge", "nan")], "no on-demand price"),
        ([product("g5.xlarge", "inf")], "no on-demand price"),
        ([product("g5.xlarge", "free")], "no on-demand price"),
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
    answer = ask()
    assert isinstance(answer, NoQuote)
    assert why in answer.why


def test_one_bad_answer_does_not_take_the_others_with_it(recorded: Recorded) -> None:
    recorded.products = {"a.x": ["{"], "b.x": [product("b.x", "2")]}
    bad, good = on_demand(["a.x", "b.x"], "us-east-1", TODAY)
    assert isinstance(bad, NoQuote)
    assert isinstance(good, Quote)


def test_a_service_that_throttles_once_is_asked_again(recorded: Recorded) -> None:
    recorded.products["g5.xlarge"] = [product("g5.xlarge", "1.006")]
    recorded.faults = ["throttle"]
    assert isinstance(ask(), Quote)


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        (["throttle"] * 9, "throttles GetProducts"),
        (["denied"], "may not GetProducts"),
        (["broken"] * 9, "refused GetProducts"),
        (["garbage"] * 9, "AWS pricing"),
        (["cut"] * 9, "AWS pricing"),
        (["hang"] * 9, "did not answer in time"),
    ],
)
def test_a_service_that_fails_is_one_line(faults, told: str, recorded: Recorded, impatient) -> None:
    recorded.products["g5.xlarge"] = [product("g5.xlarge", "1.006")]
    recorded.faults = faults
    with pytest.raises(LiveError, match=told) as failed:
        ask()
    assert "\n" not in str(failed.value)


def test_without_credentials_the_way_out_is_named(recorded: Recorded, monkeypatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(LiveError, match="aws configure"):
        ask()


def test_nobody_there_is_told(monkeypatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", "http://127.0.0.1:9")
    with pytest.raises(LiveError, match="cannot be reached"):
        ask()
