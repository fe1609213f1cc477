"""A report as CSV, as pandas reads it: nothing is lost, and no cell is computed."""

import io
import math

import pandas as pd
import pytest

from advisor.csv_cells import harmless
from advisor.render.formats import report_csv, report_rows
from tests.advisor.render.sizing.hostile import HOSTILE, with_name
from tests.advisor.render.sizing.reports import GOLDEN, golden_report
from tests.alike import assert_golden_text


def reopened(document):
    """The file as pandas reads texts."""
    return pd.read_csv(io.StringIO(report_csv(document)), dtype=str, keep_default_na=False)


def leaves(value):
    """Every value of a document, whatever it is called; nothing at all is none."""
    if isinstance(value, dict):
        for one in value.values():
            yield from leaves(one)
    elif isinstance(value, list):
        for one in value:
            yield from leaves(one)
    elif value is not None:
        yield value


def test_a_report_changes_only_when_we_mean_it():
    content = report_csv(golden_report())
    assert_golden_text(GOLDEN / "team.csv", content)


def test_every_value_of_the_document_stands_in_a_cell():
    document = golden_report()
    wanted = sorted(leaves(document), key=repr)
    # A workload's name stands in every row of it: once is enough here.
    told = [value for row in report_rows(document) for value in row.values.values()]
    assert sorted((one for one in told if one is not None), key=repr) == wanted


def test_pandas_reads_every_number_to_its_last_bit():
    document = golden_report()
    frame = pd.read_csv(io.StringIO(report_csv(document)), low_memory=False)
    for name in ("lower", "median", "upper", "total_usd_per_hour"):
        drawn = frame[frame.part == "price_throughput"][name].tolist()
        wanted = [row[name] for one in document["workloads"] for row in one["price_throughput"]]
        assert drawn == wanted


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_comes_back_and_is_never_computed(name):
    frame = reopened(with_name(golden_report(), name))
    rows = frame[frame.workload != ""]
    assert set(rows.workload) == {harmless(name)}
    assert not rows.workload.iloc[0].startswith(("=", "+", "-", "@"))
    assert name.lstrip("'") in rows.workload.iloc[0].replace(";'", ";") or name != harmless(name)


def test_nulls_are_empty_and_no_number_is_a_text():
    frame = reopened(golden_report())
    assert not {"None", "nan", "null"} & set(frame.to_numpy().ravel())
    lower = frame[frame.part == "price_throughput"].lower.map(float)
    assert all(math.isfinite(one) for one in lower)
