"""A report as CSV, as pandas reads it: nothing is lost, and no cell is computed; and the table of all
formats, each of which takes the document alone."""

import copy
import io
import json
import math

import pandas as pd
import pytest

from advisor.errors import UsageError
from advisor.files import harmless
from advisor.render.formats import REPORT_FORMATS, format_of_file, report_csv, report_format, report_rows
from tests.advisor.render.sizing.reports import GOLDEN, HOSTILE, golden_report, leaves, renamed, with_name
from tests.alike import assert_golden_text


def reopened(document):
    """The file as pandas reads texts."""
    return pd.read_csv(io.StringIO(report_csv(document)), dtype=str, keep_default_na=False)


def test_a_report_changes_only_when_we_mean_it():
    content = report_csv(golden_report())
    assert_golden_text(GOLDEN / "team.csv", content)


def test_every_value_of_the_document_stands_in_a_cell():
    document = golden_report()
    wanted = sorted(leaves(document), key=repr)
    # A workload's name stands in every row of it: once is enough here.
    cells = [value for row in report_rows(document) for value in row.values.values()]
    assert sorted((cell for cell in cells if cell is not None), key=repr) == wanted


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_comes_back_and_is_never_computed(name):
    frame = reopened(with_name(golden_report(), name))
    rows = frame[frame.workload != ""]
    assert set(rows.workload) == {harmless(name)}
    assert not rows.workload.iloc[0].startswith(("=", "+", "-", "@"))
    assert name.lstrip("'") in rows.workload.iloc[0].replace(";'", ";") or name != harmless(name)


TEXTS = ("md", "csv", "json")


def test_the_json_is_the_document():
    document = golden_report()
    assert json.loads(REPORT_FORMATS["json"].content(document)) == document


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("language", ["en", "zh-CN"])
def test_the_same_document_gives_the_same_bytes_and_stays_as_it_was(name, language):
    document = renamed(golden_report(), HOSTILE)
    before = copy.deepcopy(document)
    first = REPORT_FORMATS[name].content(document, language)
    assert REPORT_FORMATS[name].content(json.loads(json.dumps(before)), language) == first
    assert document == before


@pytest.mark.parametrize(("file", "name"), [("a.md", "md"), ("Team.CSV", "csv"), ("x.y.json", "json")])
def test_a_files_end_names_its_format(file, name):
    assert format_of_file(file) == name


@pytest.mark.parametrize("file", ["report", "report.docx", ".md", "report."])
def test_an_end_that_names_none_says_which_there_are(file):
    with pytest.raises(UsageError, match=r"--format.*\.md"):
        format_of_file(file)


def test_a_mistyped_format_gets_the_nearest():
    with pytest.raises(UsageError, match="did you mean json"):
        report_format("jsn")


def test_pandas_reads_every_number_to_its_last_bit():
    document = golden_report()
    frame = pd.read_csv(io.StringIO(report_csv(document)), low_memory=False)
    for name in ("lower", "median", "upper", "total_usd_per_hour"):
        drawn = frame[frame.part == "price_throughput"][name].tolist()
        wanted = [row[name] for section in document["workloads"] for row in section["price_throughput"]]
        assert drawn == wanted


def test_nulls_are_empty_and_no_number_is_a_text():
    frame = reopened(golden_report())
    assert not {"None", "nan", "null"} & set(frame.to_numpy().ravel())
    lower = frame[frame.part == "price_throughput"].lower.map(float)
    assert all(math.isfinite(rate) for rate in lower)
