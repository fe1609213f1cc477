"""The words of English and Chinese.

A catalogue is a flat JSON file of keys and texts, one a language; `{name}` in a text is filled
in. All languages have the same keys (tests say so), so that there is no fallback. Those named
`engine.` are the codes of answers (stages, reasons, markets, ..), shared by page and reports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from advisor.records import dataclass

TRANSLATIONS = Path(__file__).with_name("translations")
# As `<html lang>` has them, the default first.
LANGUAGES = ("en", "zh-CN")


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of one language."""

    language: str
    texts: Mapping[str, str]

    def __call__(self, key: str, **values: object) -> str:
        """The text of a key with its blanks filled in; `KeyError` for a key that nobody wrote."""
        text = self.texts[key]
        return text.format(**values) if values else text

    def known(self, key: str, otherwise: str) -> str:
        """The text of a key that is made of a value (as `reason.too_slow`), or the value itself."""
        return self.texts.get(key, otherwise)


@cache
def words_in(language: str, folder: Path, name: str = "") -> Words:
    """The codes of answers, and a room's own words from `folder`: `<name><language>.json`."""
    texts = [TRANSLATIONS / f"engine.{language}.json", folder / f"{name}{language}.json"]
    both = [json.loads(path.read_text(encoding="utf-8")) for path in texts]
    return Words(language, both[0] | both[1])


def report_words(language: str) -> Words:
    """What reports say in one of `LANGUAGES`."""
    return words_in(language, TRANSLATIONS, "report.")
