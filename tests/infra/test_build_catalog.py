"""The build of the snapshot: reproducible, whole, and plain to read back."""

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog.instances import plain_cpu_name
from advisor.infra.build.catalog import bundle as bundles
from advisor.infra.build.catalog.__main__ import main
from advisor.infra.build.catalog.sparecores import measured_servers, second_thread_yields
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


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz", "Intel Xeon Platinum 8259CL"),
        ("INTEL(R) XEON(R) PLATINUM 8559C", "Intel Xeon Platinum 8559C"),
        ("Intel(R) Xeon(R) CPU E5-2665 0 @ 2.40GHz", "Intel Xeon E5-2665"),
        ("AMD EPYC 7R13 48-Core Processor", "AMD EPYC 7R13"),
        ("AMD EPYC 7R13 Processor", "AMD EPYC 7R13"),
        ("Neoverse-N1", "Neoverse-N1"),
    ],
)
def test_one_processor_has_one_name(raw, clean):
    """Servers write the same model differently."""
    assert plain_cpu_name(raw) == clean


SIZES = (1, 2, 4, 8, 16)


def servers(second_thread, contention, maker="Intel"):
    scores, types = [], {}
    for cpu, threads, gain in (("whole", 1, 0.0), ("threaded", 2, second_thread)):
        for cores in SIZES:
            useful = cores * (1 + gain)
            mark = 2000 * 0.9 * useful / (1 + contention * (useful - 1))
            name = f"{cpu}.{cores}"
            types[name] = {"cores": str(cores)}
            scores.append(
                {
                    "server": name,
                    "cpu_model": f"{maker} {cpu}",
                    "vcpus": str(cores * threads),
                    "passmark_singlethread": "2000",
                    "passmark_cpu_mark": str(mark),
                }
            )
    return scores, types


@given(st.floats(0.0, 0.8), st.floats(0.0, 0.03))
def test_a_known_yield_is_found_again(second_thread, contention):
    result = second_thread_yields(measured_servers(*servers(second_thread, contention)))
    assert result == {"Intel threaded": pytest.approx(second_thread, abs=1e-6)}


def test_a_maker_without_single_threads_says_nothing():
    """Nothing to compare with: no figure rather than a wrong one."""
    scores, types = servers(0.3, 0.01)
    only = [row for row in scores if row["server"].startswith("threaded")]
    assert second_thread_yields(measured_servers(only, types)) == {}


def test_rows_without_marks_or_facts_are_left_out():
    scores, types = servers(0.3, 0.01)
    scores[0]["passmark_cpu_mark"] = "0"
    types.pop("whole.2")
    assert len(measured_servers(scores, types)) == len(scores) - 2
