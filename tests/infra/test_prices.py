"""Prices of the bundle: what is estimated says so, and no source's lie becomes a price."""

from __future__ import annotations

import pytest

from infra.catalog_build import other_clouds, prices, regional, wide
from infra.catalog_build.extract import extracts
from infra.catalog_build.regional import RegionalRatios
from infra.catalog_build.wide import Basis, PriceRow, price_cell, price_table


def row(usd="1.5", **changes):
    return (
        {"region": "us-east-1", "instance_type": "a.big", "price_per_hour": usd}
        | {"currency": "USD"}
        | changes
    )


def listed(monkeypatch, *rows):
    """Build AWS prices from these rows alone."""
    monkeypatch.setattr(prices, "read_source", lambda name: list(rows))
    monkeypatch.setattr(regional, "read_source", lambda name: [])
    return prices.build_prices({"a.big": ("us-east-1",)})


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([row("-1")], "no price"),
        ([row("nan")], "no price"),
        ([row("inf")], "no price"),
        ([row("abc")], "could not convert"),
        ([row(currency="")], "a price in ''"),
        ([row(currency="CNY")], "a price in 'CNY'"),
        ([row(), row("2")], "two prices for a.big"),
    ],
)
def test_a_source_that_lies_ends_the_build(monkeypatch, rows, words):
    """A negative price, a senseless one, a missing currency, two prices for one offer."""
    with pytest.raises(ValueError, match=words):
        listed(monkeypatch, *rows)


def test_a_source_without_a_column_ends_the_build(monkeypatch):
    """A truncated header is no table with fewer facts."""
    with pytest.raises(KeyError, match="currency"):
        listed(monkeypatch, {"region": "us-east-1", "instance_type": "a.big"})


def test_zero_is_how_sources_say_missing():
    """Never free."""
    assert price_cell("0", "x") == price_cell("0.000", "x") == price_cell("", "x") == ""
    assert price_cell("0.0010", "x") == "0.001"


def test_two_prices_for_one_offer_are_refused_whatever_line_they_stand_in():
    """A list price and an estimate for the same type, market and region."""
    one = PriceRow("a.big", wide.AWS_LIST, {"r": "1"})
    other = PriceRow("a.big", wide.AWS_REGIONAL, {"r": "2"})
    with pytest.raises(ValueError, match="two prices"):
        price_table("x.csv", [one, other])


@pytest.mark.parametrize("changes", [{"currency": ""}, {"currency": "EUR"}, {"kind": "guessed"}])
def test_a_basis_without_a_known_currency_or_kind_is_refused(changes):
    """Every price says what it is in, and how it is known."""
    facts = {"id": "x", "market": "spot", "kind": "list", "currency": "USD", "source": "s"}
    with pytest.raises(ValueError, match=r"no known currency|no way to know"):
        Basis(**(facts | changes))


PRICES_2022 = {
    "a.small": {"us-east-1": "1", "far": "1.2"},
    "a.large": {"us-east-1": "2", "far": "2.8"},
    "b.small": {"us-east-1": "1", "far": "2"},
    "c.small": {"far": "9"},
}


@pytest.mark.parametrize(
    ("name", "region", "ratio"),
    [
        ("a.small", "far", 1.2),  # its own
        ("a.huge", "far", 1.3),  # the median of its family
        ("d.small", "far", 1.4),  # the median of the region
        ("a.small", "us-east-1", 1.0),
        ("a.small", "new", None),  # 2022 did not know the region
    ],
)
def test_ratios_come_from_the_nearest_kin(name, region, ratio):
    """Type, family, region; a region that 2022 did not know has none."""
    found = RegionalRatios(PRICES_2022).ratio(name, region)
    assert found == (pytest.approx(ratio) if ratio else None)


def test_estimates_are_marked_and_made_for_offered_regions_only(monkeypatch):
    """us-east-1 keeps its list price; what a region does not offer has no price there."""
    ratios = [{"instance_type": name} | cells for name, cells in PRICES_2022.items()]
    advice = [{"instance_type": "a.small", "us-east-1": "70~2", "far": "100~0"}]
    tables = {
        "catalog/aws_regional_prices_2022.csv": ratios,
        "catalog/aws_spot_advisor.csv": advice,
    }
    monkeypatch.setattr(regional, "read_source", tables.__getitem__)
    offered = {"a.small": ("far", "us-east-1"), "a.large": ("us-east-1",)}
    rows = regional.on_demand_estimates({"a.small": "10", "a.large": "20"}, offered)
    assert [dict(one.cells) for one in rows] == [{"far": "12"}, {}]
    assert {one.basis.kind for one in rows} == {"estimated"}
    (spot,) = regional.spot_estimates({"a.small": {"us-east-1": "10", "far": "12"}}, wide.AWS_SPOT)
    assert dict(spot.cells) == {"us-east-1": "3~2"}  # a saving of 100 % would be a price of 0
    assert spot.basis.kind == "estimated"


@pytest.mark.parametrize(
    ("size", "vcpus", "card"),
    [
        ("Standard_NC4as_T4_v3", "4", "T4"),
        ("Standard_NC24ads_A100_v4", "24", "A100-PCIE-80GB"),
        ("Standard_ND96isr_H100_v5", "96", "H100-SXM5-80GB"),
        ("Standard_NC128ds_xl_RTXPRO6000BSE_v6", "128", "RTXPRO6000BSE"),
        ("Standard_NG32adms_V620", "32", "V620"),
        ("Standard_NC24r_Promo", "24", "K80"),
    ],
)
def test_azures_size_names_tell_vcpus_and_card_and_nothing_else(size, vcpus, card):
    """RAM and the GPU count are not in the name, so they stay unknown."""
    facts = other_clouds._azure_type(size)
    assert (facts["vcpus"], facts["gpu_name"]) == (vcpus, card)
    assert not facts.get("memory_mib")
    assert not facts.get("gpu_count")


def test_an_extract_refuses_two_rows_for_one_price():
    """The public snapshots are cut down without choosing between contradictions."""
    twice = [{"region": "r", "instance_type": "a", "price_usd_per_hour": usd} for usd in "12"]
    with pytest.raises(ValueError, match="two rows of a in r"):
        extracts(lambda name: twice if "allregions" in name else [])


def test_wide_sources_are_checked_cell_by_cell():
    """The line that names the type and region is in the error."""
    with pytest.raises(ValueError, match="a in far"):
        wide.wide_prices([{"instance_type": "a", "far": "-3"}], ("instance_type",))
