"""Prices of the bundle: what is estimated says so, and no source's lie becomes a price."""

from __future__ import annotations

import pytest

from infra.catalog_build import wide
from infra.catalog_build.aws import estimates, prices
from infra.catalog_build.aws.estimates import RegionalRatios
from infra.catalog_build.aws.sources import LIST_BASIS, REGIONAL_BASIS, SPOT_BASES
from infra.catalog_build.extract import extracts
from infra.catalog_build.wide import Basis, Cell, PriceRow, price_cell, price_files, price_row


def row(usd="1.5", **changes):
    return (
        {"region": "us-east-1", "instance_type": "a.big", "price_per_hour": usd}
        | {"currency": "USD"}
        | changes
    )


def listed(monkeypatch, *rows):
    """Build AWS prices from these rows alone."""
    monkeypatch.setattr(prices, "read_source", lambda name: list(rows))
    monkeypatch.setattr(estimates, "read_source", lambda name: [])
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


def test_two_prices_for_one_offer_are_refused_whatever_row_they_stand_in():
    """A list price and an estimate for the same type, market and region."""
    one = price_row("a.big", "on-demand", {"r": "1"}, LIST_BASIS.id)
    other = price_row("a.big", "on-demand", {"r": "2"}, REGIONAL_BASIS.id)
    with pytest.raises(ValueError, match=r"two prices for a\.big in r \(on-demand\)"):
        price_files("x", [one, other])


def test_one_row_holds_prices_on_several_bases():
    """A list price here and an estimate there; the market tells rows apart."""
    cells = {"here": Cell("1", LIST_BASIS.id), "there": Cell("2", REGIONAL_BASIS.id)}
    spot = price_row("a.big", "spot", {"here": "0.5"}, SPOT_BASES[0].id)
    first, second = price_files("x", [PriceRow("a.big", "on-demand", cells), spot])
    assert (first.path, first.offers) == ("catalog/x_prices_on-demand", 2)
    assert (second.path, second.offers) == ("catalog/x_prices_spot", 1)


@pytest.mark.parametrize("price", ["0", "-1", "inf", "nan"])
def test_no_builder_can_write_what_is_no_price(price):
    """Whatever a source says and a builder overlooks."""
    with pytest.raises(ValueError, match=r"no price of a\.big"):
        price_files("x", [PriceRow("a.big", "spot", {"r": Cell(price, "b")})])


@pytest.mark.parametrize(
    "changes",
    [{"currency": ""}, {"currency": "XYZ"}, {"kind": "guessed"}, {"low": 1.1}, {"high": 0}],
)
def test_a_basis_that_cannot_be_is_refused(changes):
    """Every price says what it is in, how it is known, and between what it lies."""
    facts = {"id": "x", "kind": "list", "currency": "USD", "source": "s"}
    with pytest.raises(ValueError, match=r"no known currency|no way to know|no price lies"):
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
    monkeypatch.setattr(estimates, "read_source", tables.__getitem__)
    offered = {"a.small": ("far", "us-east-1"), "a.large": ("us-east-1",)}
    rows = estimates.on_demand_estimates({"a.small": "10", "a.large": "20"}, offered)
    assert [dict(one.cells) for one in rows] == [{"far": Cell("12", REGIONAL_BASIS.id)}, {}]
    assert REGIONAL_BASIS.kind == "estimated"
    (spot,) = estimates.spot_estimates({"a.small": {"us-east-1": "10", "far": "12"}}, SPOT_BASES)
    # A saving of 100 % would be a price of 0.
    assert dict(spot.cells) == {"us-east-1": Cell("3", SPOT_BASES[2].id)}
    assert {one.kind for one in SPOT_BASES} == {"estimated"}


def test_an_extract_refuses_two_rows_for_one_price():
    """The public snapshots are cut down without choosing between contradictions."""
    twice = [{"region": "r", "instance_type": "a", "price_usd_per_hour": usd} for usd in "12"]
    with pytest.raises(ValueError, match="two rows of a in r"):
        extracts(lambda name: twice if "allregions" in name else [])


def test_wide_sources_are_checked_cell_by_cell():
    """The line that names the type and region is in the error."""
    with pytest.raises(ValueError, match="a in far"):
        wide.wide_prices([{"instance_type": "a", "far": "-3"}], ("instance_type",))
