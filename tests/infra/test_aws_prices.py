"""Prices of the bundle: no source's lie becomes one, the newest list counts, and an estimate says so
and how wrong its like were."""

import pytest

from advisor.infra.build.catalog import wide
from advisor.infra.build.catalog.extract import aws_extracts
from advisor.infra.build.catalog.wide import Basis, Cell, PriceRow, price_files, price_row


def test_two_prices_for_one_offer_are_refused_whatever_row_they_stand_in():
    """A list price and an estimate for the same type, market and region."""
    entry = price_row("a.big", "on-demand", {"r": "1"}, "list")
    other = price_row("a.big", "on-demand", {"r": "2"}, "estimate")
    with pytest.raises(ValueError, match=r"two prices for a\.big in r \(on-demand\)"):
        price_files("x", [entry, other])


@pytest.mark.parametrize("price", ["0", "-1", "inf", "nan"])
def test_no_builder_can_write_what_is_no_price(price):
    """Whatever a source says and a builder overlooks."""
    with pytest.raises(ValueError, match=r"no price of a\.big"):
        price_files("x", [PriceRow("a.big", "spot", {"r": Cell(price, "b")})])


@pytest.mark.parametrize(
    "changes", [{"currency": ""}, {"currency": "XYZ"}, {"kind": "guessed"}, {"low": 1.1}, {"high": 0}]
)
def test_a_basis_that_cannot_be_is_refused(changes):
    """Every price says what it is in, how it is known, and between what it lies."""
    facts = {"id": "x", "kind": "list", "currency": "USD", "source": "s"}
    with pytest.raises(ValueError, match=r"no known currency|no way to know|no price lies"):
        Basis(**(facts | changes))


def test_an_extract_refuses_two_rows_for_one_price():
    """The public snapshots are cut down without choosing between contradictions."""
    twice = [{"instance_type": "a", "r": usd} for usd in "12"]
    with pytest.raises(ValueError, match="two rows of one type"):
        aws_extracts(lambda name: twice)


def test_wide_sources_are_checked_cell_by_cell():
    """The line that names the type and region is in the error."""
    with pytest.raises(ValueError, match="a in far"):
        wide.wide_prices([{"instance_type": "a", "far": "-3"}], ("instance_type",))
