"""Spot prices and offerings against moto's EC2."""

from __future__ import annotations

from datetime import date

import pytest
from moto import mock_aws

from advisor.domain import Market
from infra.live.offered import offered
from infra.live.quotas import vcpu_quota
from infra.live.spot import _newest_by_zone, spot
from infra.live.words import Quote, Refused
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
    assert isinstance(answer, Refused)


def test_of_a_zones_prices_the_last_one_counts() -> None:
    """The service tells the price before the asked time, too."""
    rows = [
        {"InstanceType": "g", "AvailabilityZone": "a", "SpotPrice": "0.5", "Timestamp": "2"},
        {"InstanceType": "g", "AvailabilityZone": "a", "SpotPrice": "0.1", "Timestamp": "1"},
        {"InstanceType": "g", "AvailabilityZone": "b", "SpotPrice": "0", "Timestamp": "3"},
    ]
    assert _newest_by_zone(rows) == {("g", "a"): 0.5}


def test_only_what_the_region_has_is_offered(ec2) -> None:
    assert offered(["g5.xlarge", "p2.xlarge"], "us-east-1") == {"g5.xlarge"}


def test_a_quota_is_told_in_vcpus(recorded: Recorded) -> None:
    recorded.quotas["L-DB2E81BA"] = 8.0
    assert vcpu_quota("g5.xlarge", "us-east-1", Market.ON_DEMAND) == 8.0
    assert vcpu_quota("mac2.metal", "us-east-1", Market.ON_DEMAND) is None
