"""What AWS may say of a launch has one reaction: every code has a class, and an image that does not
serve is told before."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import Market
from advisor.errors import UsageError
from advisor.infra.aws.errors import error_codes, kind_of, reaction_to
from advisor.infra.aws.launch_options import LEAST, LaunchOption
from advisor.infra.aws.reap import BILLING_MINUTE, Meter, lasts, refuse_too_small, usd_per_hour
from advisor.infra.aws.regions import unfit
from tests.infra.aws.builders import a_sweep
from tests.infra.aws.lifecycles import START
from tests.rows import table

TABLES = table("aws_errors")


def test_all_24_codes_have_their_class() -> None:
    expected = {code: tuple(pair) for code, pair in TABLES["reactions"].items()}
    assert len(expected) == 24
    assert expected.items() <= error_codes().items()


@pytest.mark.parametrize(("code", "kind", "reaction"), TABLES["relatives"])
def test_relatives_are_known_and_what_nobody_knows_stops(code, kind, reaction) -> None:
    """Trying on after an error that nobody knows could cost money."""
    assert (kind_of(code), reaction_to(code)) == (kind, reaction)


@pytest.mark.parametrize(
    ("row", "name", "named", "text"),
    [
        ({}, "g4dn.xlarge", False, ""),
        ({"PlatformDetails": "Windows"}, "g4dn.xlarge", True, "which no budget counts"),
        ({"ProductCodes": [{"ProductCodeId": "x"}]}, "g4dn.xlarge", True, "which no budget counts"),
        # The open driver knows no GPU before Turing; one's own image may have another.
        ({}, "p3.2xlarge", False, "does not know the"),
        ({}, "p3.2xlarge", True, ""),
    ],
)
def test_an_image_that_does_not_serve_is_refused_before_anything_is_paid(row, name, named, text) -> None:
    wrong = unfit({"ImageId": "ami-1"} | row, load_catalog().instance(name, "aws"), named=named)
    assert text in wrong.text if wrong and text else (wrong is None) == (text == "")


# A budget is never passed by more than one billing minute.

dollars = st.floats(0.01, 1000)
prices = st.floats(0.05, 100)


@given(dollars, prices, st.floats(0, 0.99))
def test_who_asks_every_minute_never_spends_more_than_the_budget_and_a_minute(
    budget: float, hourly: float, gone: float
) -> None:
    meter = Meter(budget_usd=budget, usd_per_hour=hourly, since=START, spent_usd=gone * budget)
    now = START
    for _ in range(2_000):
        if not meter.pays_next_minute(now):
            break
        now += BILLING_MINUTE
    assert meter.spent(now) <= budget + hourly / 60 + 1e-9


@given(dollars, prices)
def test_it_is_used_up_when_it_says(budget: float, hourly: float) -> None:
    meter = Meter(budget_usd=budget, usd_per_hour=hourly, since=START)
    if timedelta(minutes=1) < meter.lasts < timedelta(days=300):
        assert meter.spent(meter.ends_at) == pytest.approx(budget, rel=1e-6)


def test_the_first_minute_is_billed_whole_and_a_burstable_types_surplus_credits_too() -> None:
    meter = Meter(budget_usd=1, usd_per_hour=60, since=START)
    assert meter.spent(START) == meter.spent(START + timedelta(seconds=60)) == 1
    assert not Meter(budget_usd=0.99, usd_per_hour=60, since=START).pays_next_minute(START)
    with pytest.raises(UsageError, match=r"give --budget 0\.21USD or more"):
        refuse_too_small(0.1, 1.2, "g4dn.4xlarge")
    refuse_too_small(0.21, 1.2, "g4dn.4xlarge")
    assert lasts(0.21, 1.2, 6) >= LEAST
    assert lasts(1e12, 0.5, 6) == timedelta(hours=6), "no budget buys more than the hours allowed"
    # It is launched as unlimited: a t3.xlarge that computes all the time is $0.20/h dearer.
    known = LaunchOption(
        instance_type="m5.xlarge",
        region="us-east-1",
        zone="us-east-1a",
        subnet="",
        market=Market.ON_DEMAND,
        usd_per_hour=0.1664,
    )
    burstable = replace(known, instance_type="t3.xlarge")
    more = usd_per_hour(burstable, a_sweep()) - usd_per_hour(known, a_sweep())
    assert more == pytest.approx(0.2)
