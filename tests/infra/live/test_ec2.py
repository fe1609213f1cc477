"""Spot prices and offerings against moto's EC2."""

from __future__ import annotations

from datetime import date

import pytest
from moto import mock_aws

from advisor.catalog import load_catalog
from advisor.domain import Market
from advisor.infra.live.ec2 import Facts, facts, newest_by_zone, offered, spot, vcpu_quota
from advisor.infra.live.quotes import NoQuote, Quote
from tests.infra.live.recorded import Recorded

TODAY = date(2026, 11, 21)


@pytest.fixture
def ec2():
    with mock_aws():
        yield


def test_a_spot_price_names_its_zone(ec2) -> None:
    (quote,) = spot(["g5.xlarge"], "us-east-1", TODAY)
    assert isinstance(quote, Quote)
    assert quote.market is Market.SPOT
    assert quote.zone.startswith("us-east-1")
    assert quote.usd_per_hour > 0


def test_a_type_without_a_spot_price_has_a_reason(ec2) -> None:
    (answer,) = spot(["p2.xlarge"], "us-east-1", TODAY)
    assert isinstance(answer, NoQuote)


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


def test_only_what_the_region_has_is_offered(ec2) -> None:
    assert offered(["g5.xlarge", "p2.xlarge"], "us-east-1") == {"g5.xlarge"}


def test_the_catalogue_has_the_facts_that_aws_describes(ec2) -> None:
    """vCPUs, RAM and GPUs (shares of one, too) of every accelerated type that moto offers."""
    catalog = load_catalog()
    names = [one.name for one in catalog.instances("aws") if one.gpu_count and one.current]
    told = facts(names, "us-east-1")
    ours = {name: catalog.instance(name, "aws") for name in told}
    assert len(told) > 60
    assert told == {name: Facts(one.vcpus, one.memory_mib, one.gpu_count) for name, one in ours.items()}


def test_a_quota_is_told_in_vcpus(recorded: Recorded) -> None:
    recorded.quotas["L-DB2E81BA"] = 8.0
    assert vcpu_quota("g5.xlarge", "us-east-1", Market.ON_DEMAND) == 8.0
    assert vcpu_quota("mac2.metal", "us-east-1", Market.ON_DEMAND) is None
