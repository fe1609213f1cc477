"""Prices of the bundle: no source's lie becomes one, the newest list counts, and an estimate says so
and how wrong its like were."""

import pytest

from advisor.infra.build.catalog import wide
from advisor.infra.build.catalog.aws.estimates import Advice, Estimates, Seen, SpotRules, interval
from advisor.infra.build.catalog.aws.lists import PriceList, newest_prices
from advisor.infra.build.catalog.extract import aws_extracts
from advisor.infra.build.catalog.wide import Basis, Cell, PriceRow, price_cell, price_files, price_row

NEW = Basis("new", "list", "USD", "s")
OLD = Basis("old", "list", "USD", "s")


def newest(new, old):
    """Type -> region -> price and basis, of two lists."""
    result = newest_prices((PriceList(new, NEW), PriceList(old, OLD)))
    return {
        (name, region): (cell.price, cell.basis)
        for name, cells in result.cells.items()
        for region, cell in cells.items()
    }, result.changed


def test_an_older_list_fills_what_the_newer_one_leaves_open():
    """Each price keeps the basis of its own list."""
    cells, changed = newest(
        {"a1.big": {"here": "2", "there": ""}}, {"a1.big": {"here": "2.001", "there": "3"}}
    )
    assert cells == {("a1.big", "here"): ("2", "new"), ("a1.big", "there"): ("3", "old")}
    assert not changed


def test_a_family_that_changed_its_price_is_not_taken_from_the_older_list():
    """p5 was cut in June 2025: where only the list of April knows it, its price is unknown."""
    new = {"p5.48xlarge": {"here": "55.04"}}
    old = {"p5.48xlarge": {"here": "98.32", "there": "110"}, "g5.big": {"there": "1"}}
    cells, changed = newest(new, old)
    assert cells == {("p5.48xlarge", "here"): ("55.04", "new"), ("g5.big", "there"): ("1", "old")}
    assert changed == {"p5"}


def type_(vcpus="2", maker="AWS", gpu=""):
    return {"cpu_manufacturer": maker, "vcpus": vcpus, "gpu_name": gpu}


TYPES = {
    **dict.fromkeys(("c7g.large", "c7gd.large", "c8g.large", "c8gd.large"), type_()),
    **dict.fromkeys(("c8g.xlarge", "c8g.metal"), type_("4")),
    **dict.fromkeys(("c8i.large", "c6i.large", "c5.large"), type_(maker="Intel")),
    **dict.fromkeys(("g7.large", "g6.large"), type_(maker="Intel", gpu="X")),
}
HOME = {name: {"us-east-1": 1.0} for name in TYPES if name != "c8g.metal"}


@pytest.mark.parametrize(
    ("name", "listed", "usd", "way"),
    [
        ("c8g.xlarge", {"c8g.large": 1.3, "c7g.large": 1.5}, 1.3, "family"),
        ("c8g.large", {"c7g.large": 1.5, "c7gd.large": 1.9}, 1.5, "line"),
        ("c8g.large", {"c7gd.large": 1.9, "c8gd.large": 1.7}, 1.8, "class"),
        ("c8g.large", {"c8i.large": 1.2}, None, None),  # another maker
        ("c8i.large", {"c6i.large": 1.2, "c5.large": 1.6}, 1.2, "older"),
        ("g7.large", {"g6.large": 1.2}, None, None),  # another card
        ("c8g.metal", {"c8g.xlarge": 1.3}, 1.3, "metal"),
        ("c8g.metal", {"c8g.large": 1.3}, 1.3, "family"),
        ("c8g.large", {}, None, None),
    ],
)
def test_an_estimate_comes_from_the_nearest_kin(name, listed, usd, way):
    """Sizes of the family, families of the line, of class and maker, older ones; else none."""
    prices = {**HOME, **{kin: {"us-east-1": 1.0, "far": price} for kin, price in listed.items()}}
    result = Estimates(prices, TYPES).estimate(name, "far")
    assert (result and result.way) == way
    assert (result and result.usd) == (usd and pytest.approx(usd))


def test_how_wrong_estimates_are_is_measured_without_what_is_estimated():
    """c7g and c8g differ by a quarter: each misses the other by that, not by half of it."""
    prices = {"c7g.large": {"us-east-1": 1.0, "far": 1.0}, "c8g.large": {"us-east-1": 1.0, "far": 1.25}}
    wrong = sorted(Estimates(prices, TYPES).left_out())
    assert wrong == [("class", 0.8), ("class", 1.25), ("line", 0.8), ("line", 1.25)]


def test_bare_metal_that_costs_twice_its_twin_is_another_machine():
    """A tenth more is what a machine to oneself costs."""
    estimates = Estimates({"c8g.xlarge": {"us-east-1": 1.0}}, TYPES)
    assert estimates.unlike({"c8g.metal": 1.1}) == set()
    assert estimates.unlike({"c8g.metal": 2.1}) == {"c8g.metal"}


def test_an_interval_holds_nine_of_ten_and_the_price_itself():
    """Also where all miss to one side."""
    low, high = interval([1 + number / 100 for number in range(101)])
    assert (low, high) == (1.0, pytest.approx(1.95, abs=0.02))


def seen(name, observed, advised):
    return Seen(name, observed, Advice(advised, 0))


def test_a_spot_estimate_is_what_was_observed_at_such_advice():
    """Shares that grow with the square root of the advice, on three families."""
    rows = [
        seen(f"m{index}.large", 0.4 * share**0.5, share) for index in (5, 6, 7) for share in (0.1, 0.3, 0.9)
    ]
    rules = SpotRules(rows, {row.name: "usual" for row in rows})
    assert rules.share("usual", 0.25) == pytest.approx(0.2)
    assert rules.interval("usual") == (pytest.approx(1, abs=0.002), pytest.approx(1, abs=0.002))


def test_an_estimate_of_spot_never_exceeds_the_on_demand_price():
    """However little the advisor saves."""
    rows = [seen("p5.big", 0.9, 0.3), seen("p4d.big", 1.0, 0.31), seen("p3.big", 1.0, 0.5)]
    rules = SpotRules(rows, {row.name: "gpu" for row in rows})
    assert rules.share("gpu", 0.99) == 1


def test_zero_is_how_sources_say_missing():
    """Never free."""
    assert price_cell("0", "x") == price_cell("0.000", "x") == price_cell("", "x") == ""
    assert price_cell("0.0010", "x") == "0.001"


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
