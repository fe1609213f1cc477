"""A quota of AWS is found by the family of a type, told in the user's words, and counted."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from advisor.catalog.support import most_startable, parse_quota, quota_code, quota_shortfall
from advisor.domain import Market
from advisor.errors import UsageError
from tests.builders import candidate, instance
from tests.rows import assert_each

OFFER = replace(candidate().spec.offer, instance=instance("g5.12xlarge", vcpus=48))


def test_each_family_has_its_quota() -> None:
    def check(name: str, market: Market, code: str | None) -> None:
        assert quota_code(name, market) == code

    assert_each(
        check,
        [
            ("g5.xlarge", Market.ON_DEMAND, "L-DB2E81BA"),
            ("g5.xlarge", Market.COMMITMENT_1Y, "L-DB2E81BA"),
            ("gr6.4xlarge", Market.SPOT, "L-3819A6DF"),
            ("vt1.3xlarge", Market.ON_DEMAND, "L-DB2E81BA"),
            ("p4d.24xlarge", Market.SPOT, "L-7212CCBC"),
            ("p5.48xlarge", Market.SPOT, None),
            ("p5.48xlarge", Market.ON_DEMAND, "L-417A185B"),
            ("c7i.large", Market.ON_DEMAND, "L-1216C47A"),
            ("x2idn.32xlarge", Market.SPOT, "L-E3A00192"),
            ("dl1.24xlarge", Market.ON_DEMAND, "L-6E869C2A"),
            ("trn1.2xlarge", Market.SPOT, "L-5480EFD2"),
            ("inf2.xlarge", Market.ON_DEMAND, "L-1945791B"),
            ("im4gn.large", Market.ON_DEMAND, "L-1216C47A"),
            ("mac2.metal", Market.ON_DEMAND, None),
            ("hpc6a.48xlarge", Market.ON_DEMAND, None),
            ("u-6tb1.56xlarge", Market.ON_DEMAND, None),
        ],
    )


@pytest.mark.parametrize(
    ("text", "market", "pairs"),
    [
        ("G=8,P=0", Market.ON_DEMAND, (("L-DB2E81BA", 8.0), ("L-417A185B", 0.0))),
        ("g and vt=8", Market.SPOT, (("L-3819A6DF", 8.0),)),
        ("vt = 8", Market.ON_DEMAND, (("L-DB2E81BA", 8.0),)),
        ("Standard=5", Market.ON_DEMAND, (("L-1216C47A", 5.0),)),
        ("l-db2e81ba=8", Market.SPOT, (("L-DB2E81BA", 8.0),)),
    ],
)
def test_quotas_are_told_by_family_or_code(text, market, pairs) -> None:
    assert parse_quota(text, market) == pairs


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("G", "as G=8,P=0"),
        ("G=8,", "as G=8,P=0"),
        ("G=-1", "0 or more"),
        ("G=nan", "0 or more"),
        ("G=inf", "0 or more"),
        ("G=", "0 or more"),
        ("G=8,VT=4", "twice"),
        ("L-DB2E81BB=8", "L-DB2E81BA"),
        ("Q=8", "unknown quota"),
    ],
)
def test_a_quota_that_is_none_is_refused_with_the_way_out(text, hint) -> None:
    with pytest.raises(UsageError, match=hint):
        parse_quota(text, Market.ON_DEMAND)


def test_only_what_the_quota_of_its_market_holds_may_be_started() -> None:
    told = "needs 48 vCPUs of quota L-DB2E81BA (Running On-Demand G and VT), which allows 8"
    assert quota_shortfall(OFFER, parse_quota("G=8", Market.ON_DEMAND)) == told
    assert quota_shortfall(OFFER, parse_quota("G=48", Market.ON_DEMAND)) is None
    assert most_startable(OFFER, parse_quota("G=95", Market.ON_DEMAND)) == 1
    assert most_startable(OFFER, parse_quota("G=96", Market.ON_DEMAND)) == 2
    assert most_startable(OFFER, parse_quota("P=0", Market.ON_DEMAND)) == math.inf
    assert quota_shortfall(OFFER, parse_quota("P=0,L-3819A6DF=0", Market.ON_DEMAND)) is None


def test_a_quota_of_aws_says_nothing_of_other_clouds() -> None:
    elsewhere = replace(OFFER, instance=replace(OFFER.instance, cloud="gcp"))
    assert quota_shortfall(elsewhere, parse_quota("G=0", Market.ON_DEMAND)) is None
