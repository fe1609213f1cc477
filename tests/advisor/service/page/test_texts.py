"""What each page says, in both languages: the text of a golden file, which changes only when we mean it."""

from pathlib import Path

import pytest

from tests.alike import assert_golden_text
from tests.rows import table

GOLDEN = Path(__file__).parents[3] / "golden" / "pages"
PAGES = table("pages")


@pytest.mark.vector
@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_it_said(page, monkeypatch, name):
    monkeypatch.setenv("ADVISOR_TODAY", "2026-11-28")
    lines = (" ".join(text.split()) for text in page(PAGES[name]).texts)
    assert_golden_text(GOLDEN / f"{name}.txt", "\n".join(filter(None, lines)) + "\n")
