"""A report as Markdown: the golden bytes, and nothing in a name means anything."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from advisor.render.facts import totals
from advisor.render.formats import MOST_CHARACTERS, report_markdown
from advisor.render.markdown import md_block, md_table, md_text
from tests.advisor.render.sizing.reports import (
    GOLDEN,
    HOSTILE,
    golden_report,
    mixed_report,
    validator,
    with_name,
)
from tests.alike import assert_golden_text


@pytest.mark.parametrize("language", ["en", "zh-CN"])
def test_a_report_changes_only_when_we_mean_it(language):
    document = mixed_report()
    validator().validate(document)
    document["workloads"] = document["workloads"][1:]
    document["totals"] = totals(document["workloads"])
    for name, report in {"team": golden_report(), "language": document}.items():
        text = report_markdown(report, language)
        assert_golden_text(GOLDEN / f"{name}.{language}.md", text)
        assert not re.search(r"[\u4e00-\u9fff] ?[,:;(]|[,:;(] ?[\u4e00-\u9fff]", text)


@pytest.mark.parametrize(("times", "is_range"), [(1.002, False), (1.2, True)])
def test_a_price_that_hardly_varies_has_no_range(times, is_range):
    document = golden_report()
    spec = document["workloads"][0]["answer"]["spec"]
    spec["high_usd_per_hour"] = times * spec["usd_per_hour"]
    document["totals"] = totals(document["workloads"])
    assert (document["totals"]["price_range"] is not None) is is_range
    assert ("if prices have moved" in report_markdown(document, "en")) is is_range


def test_many_workloads_are_told_shortly_enough_to_be_pasted():
    document = golden_report()
    document["workloads"] *= 12
    text = report_markdown(document, "en")
    assert len(text) <= MOST_CHARACTERS
    assert "HTML, PDF and XLSX" in text
    assert text.count("**Rent g4dn.2xlarge + local disk") == 12


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_shown_and_does_nothing(name):
    text = report_markdown(with_name(golden_report(), name), "en")
    plain = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)  # code does nothing
    assert not re.search(r"(?<!\\)<script", plain)
    assert not re.search(r"(?<!\\)\]\(", plain)
    assert not re.search(r"(?<![\\\w])@\w", plain)
    assert plain.count("<details>") == plain.count("</details>")


@pytest.mark.parametrize("name", ["Thumbnails", *HOSTILE])
def test_a_page_shows_the_name_and_every_table(name):
    page = MarkdownIt("commonmark", {"html": True}).enable("table")
    made = page.render(report_markdown(with_name(golden_report(), name), "en"))
    heading = re.search("<h2>(.*?)</h2>", made).group(1).replace("<!-- -->", "")
    assert html.unescape(heading) == name
    plain = page.render(report_markdown(with_name(golden_report(), "plain"), "en"))
    assert re.findall("<(?!a|p|!)[^>]*>", made) == re.findall("<(?!a|p|!)[^>]*>", plain)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_a_text_stays_what_it_is_once_it_is_shown(text):
    shown = re.sub(r"\\([\\`*_\[\]<>|~$])", r"\1", md_text(text).replace("<!-- -->", ""))
    assert html.unescape(shown.replace("&amp;", "&amp;amp;")).replace("&amp;", "&") == " ".join(text.split())


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_a_command_ends_where_it_began(text):
    shown = md_block(text)
    fence = re.match(r"`*", shown).group()
    assert shown.startswith(f"{fence}\n")
    assert shown.endswith(f"\n{fence}")
    assert fence not in shown[len(fence) : -len(fence)]


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_a_row_has_a_cell_for_each_column(cells):
    table = md_table([f"c{column}" for column in range(len(cells))], [[md_text(cell) for cell in cells]])
    rows = table.split("\n")
    assert len(rows) == 3
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", rows[2])) == len(cells) + 1
