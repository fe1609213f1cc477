"""HTML, PDF, XLSX and CSV say the same of every workload: what it costs, how fast it is, how sure."""

import io

import html5lib
import openpyxl
import pypdfium2
import pytest

from advisor.render.blocks import lower_rate
from advisor.render.formats import report_html, report_pdf
from advisor.render.xlsx import report_workbook
from advisor.units import format_usd
from tests.advisor.render.sizing.reports import mixed_report

X = "{http://www.w3.org/1999/xhtml}"
MONEY = ("USD/hour", "USD/month", "USD/run")
HEAD = 5
TOTAL = "Total of Thumbnails, Chat and Tuning"


@pytest.fixture(scope="module")
def report():
    return mixed_report()


@pytest.fixture(scope="module")
def book(report):
    """The lines of the workbook's first sheet by their first cell."""
    page = openpyxl.load_workbook(io.BytesIO(report_workbook(report)))["Totals"]
    heads, *lines = page.iter_rows(min_row=HEAD, values_only=True)
    return {line[0]: dict(zip(heads, line, strict=True)) for line in lines if line[0]}


@pytest.fixture(scope="module")
def shown(report):
    """The lines of the first table of the HTML by their first cell."""
    table = html5lib.parse(report_html(report, "en")).find(f".//{X}table")
    lines = [["".join(cell.itertext()) for cell in row] for row in table.iter(f"{X}tr")]
    heads, *lines = lines
    return {line[0]: dict(zip(heads, line, strict=True)) for line in lines}


def money(cells):
    return ["" if cells[name] is None else format_usd(cells[name]) for name in MONEY]


def test_the_page_and_the_workbook_have_the_same_sums(report, book, shown):
    assert set(shown) == {*(section["name"] for section in report["workloads"]), TOTAL}
    assert report["totals"]["run_usd"]
    assert report["totals"]["month_usd"]
    for name, cells in shown.items():
        assert [cells[head] for head in ("Per month", "Per run")] == money(book[name.split(" of ")[0]])[1:]
    rates = {name: cells["At least/s"] for name, cells in shown.items() if name != TOTAL}
    lower = {name: book[name]["Lower samples/s"] for name in rates}
    assert rates == {name: "" if rate is None else lower_rate(rate) for name, rate in lower.items()}


@pytest.mark.usefixtures("pango")
def test_the_first_page_of_the_pdf_has_every_sum_whole(report, book):
    page = pypdfium2.PdfDocument(report_pdf(report, "en"))[0]
    text, right = page.get_textpage(), page.get_width()
    words = text.get_text_range()
    names = [*(row["name"] for row in report["workloads"]), "Total"]
    sums = [usd for name in names for usd in money(book[name])[1:] if usd]
    assert len(sums) > 4
    assert [usd for usd in sums if usd not in words] == []
    assert max(text.get_charbox(number)[2] for number in range(text.count_chars())) < right
