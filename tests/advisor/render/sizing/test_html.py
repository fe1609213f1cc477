"""One valid HTML file that stands alone: every name harmless, every number the document's."""

import re
import xml.etree.ElementTree as ET
from urllib.parse import unquote

import html5lib
import pytest

from advisor.domain import HOURS_PER_MONTH
from advisor.render.blocks import lower_rate, plain
from advisor.render.borderline import modest
from advisor.render.formats import report_html
from advisor.render.i18n.catalogue import LANGUAGES
from advisor.units import ceil_ms, format_mib, format_rate, format_usd
from tests.advisor.render.sizing.reports import HOSTILE, golden_report, leaves, renamed

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
    assert len(images) > 10
    for image in images:
        assert ET.fromstring(unquote(image.get("src").partition(",")[2])).tag.endswith("svg")
        assert re.search(r"\d", image.get("alt"))


def test_pictures_tell_the_numbers_of_the_document(document):
    alts = " ".join(element.get("alt") for element in _tree(report_html(document, "en")).iter(f"{X}img"))
    for section in document["workloads"]:
        for row in section["price_throughput"]:
            if row["chosen"]:
                assert format_usd(row["total_usd_per_hour"]) in alts
                assert format_rate(row["median"]) in alts
        for stage in section["bottleneck"]["stages"] if section["bottleneck"] else ():
            assert format_rate(stage["samples_per_second"]) in alts


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
    known = {"not known", "still rises", "1 day", ""}
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
