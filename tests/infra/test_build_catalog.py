"""The build of the snapshot: reproducible, whole, and plain to read back."""

import pytest
from click.testing import CliRunner

from advisor.infra.build.catalog import bundle as bundles
from advisor.infra.build.catalog.__main__ import main
from advisor.infra.build.catalog.tables import table


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
