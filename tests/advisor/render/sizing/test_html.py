"""One valid HTML file that stands alone, tells every limit, and agrees with PDF and workbook."""

import copy
import io
import re
import xml.etree.ElementTree as ET
from urllib.parse import unquote

import html5lib
import openpyxl
import pypdfium2
import pytest

from advisor.domain import HOURS_PER_MONTH
from advisor.messages import ceil_ms, format_mib, format_rate, format_usd, short_usd, sum_of_shown
from advisor.render.blocks import lower_rate, plain
from advisor.render.borderline import modest
from advisor.render.facts import month_usd
from advisor.render.formats import report_html, report_pdf
from advisor.render.i18n.catalogue import LANGUAGES, report_texts
from advisor.render.sentences import asked_sentence
from advisor.render.xlsx import report_workbook
from tests.advisor.render.sizing.reports import HOSTILE, golden_report, leaves, mixed_report, renamed
from tests.rows import table

X = "{http://www.w3.org/1999/xhtml}"


@pytest.fixture(scope="module")
def document():
    return golden_report()


@pytest.fixture(scope="module", params=LANGUAGES)
def page(request, document):
    return report_html(document, request.param)


def _tree(text):
    """By the strict parser: whatever a browser would have to mend is an error."""
    return html5lib.HTMLParser(strict=True).parse(text)


def _words(tree):
    return " ".join("".join(tree.find(f"{X}body").itertext()).split())


def test_it_is_valid_and_says_its_language(page):
    tree = _tree(page)
    assert tree.get("lang") in LANGUAGES
    assert tree.find(f"{X}head/{X}title").text
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    links = [element.get("href") for element in tree.iter(f"{X}a")]
    assert links
    assert all(link[1:] in ids for link in links)


def test_it_stands_alone_with_well_formed_pictures_that_are_told_in_words(page):
    tree = _tree(page)
    assert not list(tree.iter(f"{X}script"))
    assert not list(tree.iter(f"{X}link"))
    assert all(element.get("src").startswith("data:image/svg+xml,") for element in tree.iter(f"{X}img"))
    assert "url(" not in page
    assert "@import" not in page
    images = list(_tree(page).iter(f"{X}img"))
    assert len(images) > 5
    for image in images:
        assert ET.fromstring(unquote(image.get("src").partition(",")[2])).tag.endswith("svg")
        assert re.search(r"\d", image.get("alt"))


def _as_printed(number):
    """Every way in which the product prints a number."""
    whole = f"{number:,.10g}"
    texts = {write(number) for write in (format_usd, format_rate, format_mib, lower_rate, plain)}
    chance = f"{100 * modest(number):.0f}\u00a0%"
    # Milliseconds of what is told in seconds, and a bound in them.
    texts |= {format_rate(1000 * number), plain(ceil_ms(number / 1000))}
    texts.add(format_usd(HOURS_PER_MONTH * number))
    return texts | {whole, f"{whole} days", f"{number:.0f}\u00a0%", chance}


def test_every_cell_with_a_number_has_one_of_the_document(document):
    months = filter(None, map(month_usd, document["workloads"]))
    known = {
        "not known",
        "still rises",
        "1 day",
        "",
        "after the report's day",
        short_usd(sum_of_shown(months)),
    }
    for leaf in leaves(document):
        if isinstance(leaf, int | float):
            known |= _as_printed(leaf)
    cells = [
        "".join(element.itertext()).strip()
        for element in _tree(report_html(document, "en")).iter(f"{X}td")
        if element.get("class") == "number"
    ]
    assert len(cells) > 500
    assert [cell for cell in cells if cell not in known] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_name_harms_it(document, language):
    several, texts = len(document["workloads"]), (*HOSTILE, "训练 \u202e")
    for start in range(0, len(texts), several):
        names = texts[start : start + several]
        tree = _tree(report_html(renamed(document, names), language))
        assert not list(tree.iter(f"{X}script"))
        assert all(element.get("onerror") is None for element in tree.iter())
        assert set(names) <= {"".join(element.itertext()) for element in tree.iter(f"{X}h2")}


@pytest.mark.slow
def test_fifty_workloads_fit_into_a_mail(document):
    """1.5 MB, and above fifty the answers alone."""
    most = max(document["workloads"], key=lambda section: len(str(section["price_throughput"])))
    many = {**document, "workloads": [most] * 50}
    assert len(report_html(many, "zh-CN").encode()) < 1.5e6
    more = report_html({**document, "workloads": [most] * 200}, "en")
    assert len(more.encode()) < 1.5e6
    assert "XLSX" in _words(_tree(more))


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


# What a question says, and how that is told.
LIMITS = table("limits")["asked"]


@pytest.fixture
def section():
    return copy.deepcopy(golden_report()["workloads"][1])


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_limit_that_was_asked_is_told(section, language):
    limits = {name: value for name, (value, _) in LIMITS.items()}
    section["recommendation"]["request"] |= limits | {"accelerated_only": True}
    sentence = asked_sentence(section["recommendation"], report_texts(language))
    assert [words for _, words in LIMITS.values() if words not in sentence] == []
    assert report_texts(language)("limit.accelerated_only", value="") in sentence


def test_every_field_of_a_question_is_told_or_stands_elsewhere(section):
    elsewhere = {"task", "model", "target_throughput", "confidence", "dataset"}
    elsewhere |= {"cloud", "region", "market", "horizon_hours", "max_results", "pareto"}
    elsewhere |= {"sample_input", "model_asked", "namesake"}
    sentences = {*LIMITS, "accelerated_only", "allow_extrapolation", "max_first_epoch_hours"}
    assert set(section["recommendation"]["request"]) == sentences | elsewhere
