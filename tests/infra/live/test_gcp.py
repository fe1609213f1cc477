"""Google's price list summed up to machine types, and every way in which it can be wrong."""

from collections import defaultdict
from datetime import UTC, date, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import load_catalog
from advisor.catalog.bundle import DATA_FOLDER
from advisor.domain import InstanceType, Market
from advisor.errors import LiveError
from advisor.infra.live.gcp import KEY_HEADER, GcpPrices, parts, rates
from advisor.infra.live.session import NoQuote, Quote
from advisor.infra.live.web import WebList
from tests.infra.live.listed import GCP, KEY, Listed, sku
from tests.infra.live.test_azure import anything
from tests.rows import table

CASES = table("infra_cases")

TODAY = date(2026, 11, 21)
NOW = datetime(2026, 11, 21, tzinfo=UTC)
BUNDLED = load_catalog(DATA_FOLDER)
MACHINES = {instance.name: instance for instance in BUNDLED.instances("gcp")}
N2 = "n2-standard-8"
# Of us-central1 on 2026-07-30, by the committed sources.
CORE, N2_RAM = "N2 Instance Core running in Americas", "N2 Instance Ram running in Americas"
N2_SKUS = [sku(CORE, 0.031611), sku(N2_RAM, 0.004237, unit="GiBy.h")]


def ask(
    listed: Listed, *names: str, market: Market = Market.ON_DEMAND, key: str = KEY
) -> list[Quote | NoQuote]:
    source = WebList(
        service="Google's price list",
        url=listed.url + GCP,
        headers={KEY_HEADER: key},
        credentials_hint="set ADVISOR_GCP_KEY",
    )
    return list(GcpPrices(source, MACHINES.get).quotes(names, "us-central1", market, TODAY))


def test_cores_memory_gpus_and_local_ssd_are_summed(listed) -> None:
    """a3-highgpu-8g: 208 vCPUs, 1,872 GiB, 8 H100, 6,000 GiB of local SSD told by the month."""
    listed.skus = [
        sku("A3 Instance Core running in Americas", 0.03),
        sku("A3 Instance Ram running in Americas", 0.0025, unit="GiBy.h"),
        sku("Nvidia H100 80GB GPU running in Americas", 9.8),
        sku("SSD backed Local Storage", 0.08, unit="GiBy.mo"),
    ]
    (answer,) = ask(listed, "a3-highgpu-8g")
    assert isinstance(answer, Quote)
    assert answer.usd_per_hour == pytest.approx(208 * 0.03 + 1872 * 0.0025 + 8 * 9.8 + 6000 * 0.08 / 730)


def test_spot_is_told_apart_and_the_list_is_fetched_once_over_pages(listed) -> None:
    listed.skus = [
        *N2_SKUS,
        sku("Spot Preemptible N2 Instance Core running in Americas", 0.01499, usage="Preemptible"),
        sku(f"Spot Preemptible {N2_RAM}", 0.00201, usage="Preemptible", unit="GiBy.h"),
        sku("N2 Custom Instance Core running in Americas", 0.5),
        sku("Commitment v1: N2 Cpu in Americas for 1 Year", 0.01, usage="Commit1Yr"),
        sku("N2 Instance Core running in EMEA", 0.04, "europe-west4"),
    ]
    listed.page = 2
    (now,) = ask(listed, N2)
    assert len(listed.asked) == 4
    (spot,) = ask(listed, N2, market=Market.SPOT)
    assert now.usd_per_hour == pytest.approx(8 * 0.031611 + 32 * 0.004237)
    assert spot.usd_per_hour == pytest.approx(8 * 0.01499 + 32 * 0.00201)


@pytest.mark.parametrize("market", [Market.ON_DEMAND, Market.SPOT])
def test_the_parts_of_every_type_add_up_to_its_bundled_price(market: Market) -> None:
    """Rates of the parts are what fits the bundle best; a part that is missing or of the wrong
    amount leaves a rest. Prices there have six digits."""
    series = defaultdict(list)
    for name, machine in MACHINES.items():
        price = BUNDLED.price(name, "us-central1", market, "gcp")
        if price and parts(machine):
            series[parts(machine)[0].names].append((machine, price.usd_per_hour))
    assert sum(map(len, series.values())) > 400
    wrong = {}
    for alike in series.values():
        names = sorted({part.names for machine, _ in alike for part in parts(machine)})
        amounts = np.array([_amounts(machine, names) for machine, _ in alike])
        usd = np.array([price for _, price in alike])
        fitted = amounts @ np.linalg.lstsq(amounts, usd, rcond=None)[0]
        for (machine, price), sum_of_parts in zip(alike, fitted, strict=True):
            if abs(sum_of_parts / price - 1) > 1e-4:
                wrong[machine.name] = sum_of_parts / price
    assert wrong == {}


def _amounts(machine: InstanceType, names: list[tuple[str, ...]]) -> list[float]:
    of = {part.names: part.amount for part in parts(machine)}
    return [of.get(name, 0.0) for name in names]


RAM = N2_SKUS[1]
NO_PRICING, NOWHERE = (
    {key: value for key, value in N2_SKUS[0].items() if key != field}
    for field in ("pricingInfo", "serviceRegions")
)
TIERS = [
    {"startUsageAmount": 0, "unitPrice": {"units": "0", "nanos": 0, "currencyCode": "USD"}},
    {"startUsageAmount": 9, "unitPrice": {"units": "0", "nanos": 31611000, "currencyCode": "USD"}},
]


NO_RATES = (
    [],
    [{"unitPrice": {"units": "x"}}],
    [{"unitPrice": {"units": "1", "currencyCode": "CNY"}}],
    [{"unitPrice": {"units": "9" * 5000, "nanos": 0, "currencyCode": "USD"}}],
)


@pytest.mark.parametrize(
    ("skus", "why"),
    [
        ([RAM], "no on-demand price of N2 Instance Core in us-central1"),
        ([sku(CORE, 0.03, "europe-west4"), RAM], "no on-demand price of N2 Instance Core"),
        ([sku(CORE, 0.03, usage="Preemptible"), RAM], "no on-demand price of N2 Instance Core"),
        ([sku(CORE, 0.03, usage="Commit1Yr"), RAM], "no on-demand price of N2 Instance Core"),
        ([sku(CORE, 0.03, unit="mo"), RAM], "is no price"),
        ([sku(CORE, 0.03, unit="GiBy.h"), RAM], "no on-demand price of N2 Instance Core"),
        *(([sku(CORE, usd), RAM], "is no price") for usd in (0.0, -0.03, 1e6)),
        ([sku(CORE, 0.03), sku(CORE, 0.04), RAM], "several prices of N2 Instance Core"),
        *(([sku(CORE, 0.03, tieredRates=rates), RAM], "is no price") for rates in NO_RATES),
        ([NO_PRICING, RAM], "is no price"),
        ([NOWHERE, RAM], "no on-demand price of N2 Instance Core"),
        ([NO_PRICING | {"pricingInfo": [{"effectiveTime": "2027-01-01T00:00:00Z"}]}, RAM], "is no price"),
    ],
)
def test_a_lie_is_refused_with_its_reason(skus, why: str, listed) -> None:
    listed.skus = skus
    (answer,) = ask(listed, N2)
    assert isinstance(answer, NoQuote)
    assert why in answer.why


def test_a_first_tier_that_is_free_is_no_price_and_types_of_unknown_parts_have_none(listed) -> None:
    listed.skus = [sku(CORE, 0.0, tieredRates=TIERS), RAM]
    (answer,) = ask(listed, N2)
    assert answer.usd_per_hour == pytest.approx(8 * 0.031611 + 32 * 0.004237)
    answers = ask(listed, "m2-ultramem-416", "f1-micro", "e2-micro", "no-such-type")
    assert all("which of Google's SKUs" in answer.why for answer in answers)


def test_the_key_travels_in_a_header_alone(listed) -> None:
    listed.skus = N2_SKUS
    ask(listed, N2)
    assert listed.keys == [KEY]
    assert not any(KEY in path for path in listed.asked)
    assert KEY not in repr(WebList(service="", url="", headers={KEY_HEADER: KEY}))
    with pytest.raises(LiveError, match="ADVISOR_GCP_KEY"):
        ask(listed, N2, key="another")


@given(
    st.lists(
        st.dictionaries(st.sampled_from(sorted(N2_SKUS[0])), anything).map(lambda lies: N2_SKUS[0] | lies)
        | st.dictionaries(st.sampled_from(["usageUnit", "tieredRates"]), anything).map(
            lambda lies: sku(CORE, 0.03, **lies)
        )
        | anything,
        max_size=4,
    )
)
def test_any_json_is_a_believable_rate_or_none(skus) -> None:
    for rate in rates(skus, NOW).values():
        assert all(usd is None or 0 < usd <= 20_000 for usd in rate)
