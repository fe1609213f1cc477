"""Workbook, CSV and the table of formats: the values of the document, and harmless texts."""

import copy
import io
import json
import zipfile
from itertools import takewhile

import openpyxl
import pandas as pd
import pytest

from advisor.errors import UsageError
from advisor.render.formats import REPORT_FORMATS, report_csv, report_format
from advisor.render.xlsx import report_workbook
from tests.advisor.render.sizing.reports import GOLDEN, HOSTILE, golden_report, mixed_report
from tests.alike import assert_golden_text

MORE_HOSTILE = (
    *("+1+1", "-2+3", "@SUM(A1)", "\t=1+1", "{=1}", "1e5", "\uff1d1+1", "x" * 40_000),
    *("\x00\x07_x0041_\ufffe\ud800", "https://evil.example", "mailto:a@b.c", "' OR 1=1"),
)
DRAWN = {"USD/hour": "total_usd_per_hour"}
DRAWN |= {f"{bound.capitalize()} samples/s": bound for bound in ("lower", "median", "upper")}
HEAD = 5  # the line of the headings


@pytest.fixture(scope="module")
def report():
    return golden_report()


@pytest.fixture(scope="module")
def content(report):
    return report_workbook(report)


def opened(content):
    return openpyxl.load_workbook(io.BytesIO(content))


def rows(page):
    """The table of a sheet as records."""
    lines = page.iter_rows(min_row=HEAD, values_only=True)
    names = [name for name in next(lines) if name is not None]
    table = takewhile(lambda line: line[0] not in (None, "Total"), lines)
    return [dict(zip(names, line, strict=False)) for line in table]


def test_the_same_document_gives_the_same_bytes_and_every_number_of_the_charts(report, content):
    assert report_workbook(copy.deepcopy(report)) == content
    with zipfile.ZipFile(io.BytesIO(content)) as parts:
        assert {part.date_time for part in parts.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    book = opened(content)
    assert book.properties.created.date().isoformat() == report["as_of"]
    drawn = [row for section in report["workloads"] for row in section["price_throughput"]]
    sheet = rows(book["Price and rate"])
    assert len(sheet) == len(drawn)
    for cells, row in zip(sheet, drawn, strict=True):
        assert (cells["Instance type"], cells["On the front"]) == (row["instance_type"], row["on_front"])
        for heading, name in DRAWN.items():
            assert cells[heading] == pytest.approx(row[name], rel=1e-14)
    curves = [section["curves"] for section in report["workloads"] if section["curves"]]
    for name, title in (("vcpus", "Over vCPUs"), ("memory", "Over memory"), ("disk", "Over disks")):
        medians = [point["median"] for curve in curves for point in curve[name]["points"]]
        shown = [row["Median samples/s"] for row in rows(book[title])]
        assert shown == pytest.approx(medians, rel=1e-14)
    measured = [row["samples_per_second"] for section in report["workloads"] for row in section["measured"]]
    shown = [row["Measured samples/s"] for row in rows(book["Measured"])]
    assert shown == pytest.approx(measured, rel=1e-14)
    rejected = [row for section in report["workloads"] for row in section["recommendation"]["rejected"]]
    assert len(rows(book["Rejected"])) == len(rejected)


def _column(page, heading):
    return next(cell.column_letter for cell in page[HEAD] if cell.value == heading)


def test_numbers_are_numbers_and_days_are_days(report, content):
    assert opened(report_workbook(report, "zh-CN")).sheetnames[0] == "合计"
    book = opened(content)
    line = rows(book["Totals"])[0]
    assert isinstance(line["USD/hour"], float)
    assert line["Price of"].isoformat()[:10] == "2026-07-20"
    page = book["Totals"]
    assert page[f"{_column(page, 'USD/hour')}6"].number_format == "#,##0.0000"
    assert page[f"{_column(page, 'Price of')}6"].number_format == "yyyy-mm-dd"
    assert all(page.freeze_panes for page in book)
    assert all(page.auto_filter.ref for page in book)


@pytest.mark.parametrize("text", [*HOSTILE, *MORE_HOSTILE])
def test_a_hostile_name_stays_text(report, text):
    changed = copy.deepcopy(report) | {"title": text}
    del changed["workloads"][1:]
    (section,) = changed["workloads"]
    section["name"] = text
    section["price_throughput"][0]["instance_type"] = text
    section["recommendation"]["rejected"][0]["detail"] = text
    book = opened(report_workbook(changed))
    assert all(cell.data_type != "f" for page in book for line in page.iter_rows() for cell in line)
    assert book["Totals"]["A6"].data_type == "s"
    assert all(page._hyperlinks == [] for page in book)
    if text.isprintable() and len(text) < 32767:
        assert book["Totals"]["A1"].value == book["Totals"]["A6"].value == text


def test_a_pick_otherwise_paid_costs_its_planned_runs_and_a_cpu_has_no_gpu_that_binds():
    report = golden_report()
    section = report["workloads"][0]
    pick, spec = section["recommendation"]["recommendation"], section["answer"]["spec"]
    pick["run"] = {"usd": {"median": 10.0, "upper": 12.0}, "hours": {"median": 4.0}}
    section["runs_per_month"] = 3
    slow = next(row for row in section["price_throughput"] if row["answers"])
    slow |= {"gpu": None, "gpu_count": 0, "bottleneck": "accelerator", "lower": 0.0}
    book = opened(report_workbook(report))
    costs = [row for row in rows(book["Costs"]) if row["Workload"] == section["name"]]
    assert {row["Market"] for row in costs} <= {"on-demand", "spot"}
    for row in costs:
        assert row["USD/month"] == 3 * row["USD/run"]
        assert row["USD/run"] == pytest.approx(10 * row["USD/hour"] / spec["usd_per_hour"])
    # Nobody pays the sum of one run each where some run more often.
    first = rows(book["Totals"])[0]
    assert (first["Hours/month"], first["USD/month"]) == (12.0, 30.0)
    (drawn,) = (row for row in rows(book["Price and rate"]) if row["Lower samples/s"] == 0)
    assert (drawn["Bottleneck"], drawn["Meets the target"]) == ("CPU compute", False)


def test_language_models_stand_among_the_picks_and_on_sheets_of_their_own():
    book = opened(report_workbook(mixed_report()))
    picks = rows(book["Totals"])
    units = ["images/s", "output tokens/s", "tokens/s", None]
    assert [pick["Unit"] for pick in picks] == units
    answered = [pick for pick in picks if pick["Unit"]]
    assert all(row["Lowest USD/hour"] <= row["USD/hour"] <= row["Highest USD/hour"] for row in answered[1:])
    # A run that ends costs no month.
    assert [pick["USD/month"] is None for pick in picks] == [False, False, True, True]
    assert [pick["USD/run"] is None for pick in picks] == [True, True, False, True]
    serving, latency, tuning = (rows(book[name]) for name in ("Serving", "Latency", "Tuning"))
    assert [row["Instance type"] for row in serving] == ["g6e.12xlarge", "p4d.24xlarge"]
    assert {"TTFT seconds lower", "Output tokens per second median"} <= set(latency[0])
    assert {row["Workload"] for row in latency} == {"Chat"}
    assert [row["Run hours median"] for row in tuning] == [28.3, 28.3]


def test_the_csv_has_a_row_a_workload_and_the_json_the_document():
    document = golden_report()
    content = report_csv(document)
    assert_golden_text(GOLDEN / "team.csv", content)
    frame = pd.read_csv(io.StringIO(content))
    assert list(frame.workload) == [section["name"] for section in document["workloads"]]
    assert len(frame.columns) <= 60
    picks = [section["answer"]["spec"] or {} for section in document["workloads"]]
    for name in ("lower", "median", "upper", "usd_per_hour"):
        known = [pick[name] for pick, row in zip(picks, frame[name], strict=True) if row == row]
        assert [row for row in frame[name] if row == row] == known
    assert json.loads(REPORT_FORMATS["json"].content(document)) == document
    with pytest.raises(UsageError, match="did you mean json"):
        report_format("jsn")
