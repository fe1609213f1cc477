"""Headings and notes of the workbook in the languages of reports.

What stands in the cells is the document's own: codes that other programs filter by, and names.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

_CHINESE = Path(__file__).with_name("workbook.zh-CN.json")

Words = Callable[[str], str]


def words_of(language: str) -> Words:
    """English -> that language; a text that nobody translated stays as it is."""
    texts = _chinese() if language == "zh-CN" else {}
    return lambda text: texts.get(text, text)


@cache
def _chinese() -> dict[str, str]:
    texts: dict[str, str] = json.loads(_CHINESE.read_text(encoding="utf-8"))
    return texts
