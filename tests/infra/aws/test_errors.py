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
from advisor.infra.aws.budget import BILLING_MINUTE, Meter, lasts, refuse_too_small, usd_per_hour
from advisor.infra.aws.errors import error_codes, kind_of, reaction_to
from advisor.infra.aws.launch_options import LEAST, LaunchOption
from advisor.infra.aws.regions import unfit
from tests.infra.aws.builders import a_sweep
from tests.infra.aws.clocks import START
from tests.rows import table

TABLES = table("aws_errors")


def test_all_24_codes_have_their_class() -> None:
    assert error_codes() == {code: tuple(pair) for code, pair in TABLES["reactions"].items()}
    assert len(error_codes()) == 24


@pytest.mark.parametrize(("code", "kind", "reaction"), TABLES["relatives"])
def test_relatives_are_known_and_what_nobody_knows_stops(code, kind, reaction) -> None:
    """Trying on after an error that nobody knows could cost money."""
    assert (kind_of(code), reaction_to(code)) == (kind, reaction)


PLAIN = {"ImageId": "ami-1", "Architecture": "x86_64", "PlatformDetails": "Linux/UNIX"}


def refusal(row: dict[str, object], name: str = "g4dn.xlarge", *, named: bool = False) -> str:
    result = unfit(PLAIN | row, (load_catalog().instance(name, "aws"),), named=named)
    return result.text if result else ""


def test_a_plain_image_serves() -> None:
    assert refusal({}) == ""
    assert unfit({"ImageId": "ami-1"}, (load_catalog().instance("g5.xlarge", "aws"),), named=True) is None


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("ubuntu/images/hvm-ssd/ubuntu-trusty-14.04-amd64-server-20170727", "older Python than 3.11"),
        ("ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20260101", "older Python than 3.11"),
        ("ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20260101", ""),
        ("Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.7 (Ubuntu 22.04) 20260101", ""),
        ("al2023-ami-2023.5.20260101.0-kernel-6.1-x86_64", ""),
    ],
)
def test_an_image_with_too_old_a_python_is_refused_before_anything_is_paid(title: str, text: str) -> None:
    assert text in refusal({"Name": title}, named=True)
    assert bool(refusal({"Name": title}, named=True)) is bool(text)


@pytest.mark.parametrize(
    "row",
    [
        {"PlatformDetails": "Windows"},
        {"PlatformDetails": "Red Hat Enterprise Linux"},
        {"ProductCodes": [{"ProductCodeId": "x", "ProductCodeType": "marketplace"}]},
    ],
)
def test_an_image_that_costs_by_itself_would_pass_the_budget(row: dict[str, object]) -> None:
    assert "which no budget counts" in refusal(row, named=True)


def test_an_image_for_another_cpu_is_told() -> None:
    assert "g5g.xlarge is arm64" in refusal({}, "g5g.xlarge")
    assert refusal({"Architecture": "arm64"}, "g5g.xlarge") == ""


@pytest.mark.parametrize("name", ["p3.2xlarge", "g3.4xlarge"])
def test_the_open_driver_knows_no_gpu_before_turing(name: str) -> None:
    """The instance would find no GPU, after minutes that are paid; one's own image may have it."""
    assert "does not know the" in refusal({}, name)
    assert refusal({}, name, named=True) == ""


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


def test_the_first_minute_is_billed_whole() -> None:
    meter = Meter(budget_usd=1, usd_per_hour=60, since=START)
    assert meter.spent(START) == meter.spent(START + timedelta(seconds=60)) == 1
    assert not Meter(budget_usd=0.99, usd_per_hour=60, since=START).pays_next_minute(START)


def test_a_budget_that_pays_too_little_says_how_much_would_do() -> None:
    with pytest.raises(UsageError, match=r"give --budget 0\.21USD or more"):
        refuse_too_small(0.1, 0.0, 1.2, "g4dn.4xlarge")
    refuse_too_small(0.21, 0.0, 1.2, "g4dn.4xlarge")
    assert lasts(0.21, 1.2, 6) >= LEAST


def test_no_budget_buys_more_than_the_hours_allowed() -> None:
    assert lasts(1e12, 0.5, 6) == timedelta(hours=6)


def test_a_burstable_type_costs_its_surplus_credits_too() -> None:
    """It is launched as unlimited: a t3.xlarge that computes all the time is $0.20/h dearer."""
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
