"""README and docs: every link leads somewhere, and every command stands in the documents."""

import pathlib
import re

import click
import pytest

from docs.site.commands import commands

ROOT = pathlib.Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS]
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def _anchors(page):
    """The anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.*)", FENCE.sub("", page.read_text()), re.MULTILINE)
    plain = (re.sub(r"\]\([^)]*\)", "", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_a_heading(page):
    for link in LINK.findall(CODE.sub("", FENCE.sub("", page.read_text()))):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


def test_every_command_stands_in_the_documents():
    text = " ".join(" ".join(page.read_text() for page in (*DOCS, ROOT / "README.md")).split())
    names = [" ".join(words) for words, one in commands() if not isinstance(one, click.Group)]
    missing = [name for name in names if name not in text]
    assert missing == []


def test_the_readme_fits_on_three_screens():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
