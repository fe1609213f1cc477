"""The build of the snapshot: reproducible, whole, and plain to read back."""

import pytest
from click.testing import CliRunner

from advisor.infra.build.catalog import bundle as bundles
from advisor.infra.build.catalog import wide
from advisor.infra.build.catalog.__main__ import main
from advisor.infra.build.catalog.extract import aws_extracts
from advisor.infra.build.catalog.tables import table
from advisor.infra.build.catalog.wide import Basis, Cell, PriceRow, price_files, price_row


@pytest.fixture(scope="module")
def built():
    return bundles.build()


def test_the_bundled_snapshot_is_what_the_sources_give():
    """`--check` rebuilds aside and finds no byte changed: no clock, no order of a set, no path of a
    machine is in it."""
    done = CliRunner().invoke(main, ["--check"])
    assert done.exit_code == 0, done.output
    assert "is what the sources give" in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_a_stale_snapshot_is_named(built, tmp_path):
    """The check says which file differs and what to run."""
    bundles.write(built, tmp_path)
    prices = tmp_path / "catalog" / "aws_prices_on-demand"
    prices.write_bytes(prices.read_bytes()[:-1])
    (tmp_path / "catalog" / "gpus.csv").unlink()
    done = CliRunner().invoke(main, ["--check", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "catalog/aws_prices_on-demand" in done.stderr
    assert "catalog/gpus.csv" in done.stderr
    assert "python -m advisor.infra.build.catalog" in done.stderr


@pytest.mark.slow
def test_writing_replaces_files_whole_and_leaves_nothing_else(built, tmp_path):
    """What was there is replaced, and no partial file stays."""
    done = CliRunner().invoke(main, ["--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    written = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert written == set(built.files)


def test_what_is_left_out_is_told(built):
    """A price for a type nobody knows is not silently lost."""
    assert any("cr1.8xlarge" in note for note in built.notes)


@pytest.mark.parametrize("cell", ["a,b", 'a"b', "a\nb"])
def test_cells_that_would_need_quotes_are_refused(cell):
    """The reader splits at commas, so the writer must not write one."""
    with pytest.raises(ValueError, match="needs quotes"):
        table("x.csv", ("one", "two"), [("1", cell)]).encoded()


# No source's lie becomes a price, and each price says what it is in and how it is known.


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
