"""English and Chinese: which one is spoken, and the words of each.

A catalogue is a flat JSON file of keys and texts in `translations/`, one a language; `{name}` in
a text is filled in. Both have the same keys (a test says so), so that there is no fallback.
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
NAMES = {"en": "English", "zh-CN": "中文"}


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
def words_of(language: str) -> Words:
    """The catalogue of one of `LANGUAGES`."""
    path = TRANSLATIONS / f"{language}.json"
    return Words(language, json.loads(path.read_text(encoding="utf-8")))


def chosen_language(asked: str | None, remembered: str | None, accepted: str | None) -> str:
    """`?lang=`, else the cookie, else the best of Accept-Language, else English.

    What names no language that is spoken here is passed over.
    """
    for one in (asked, remembered):
        known = _known(one or "")
        if known:
            return known
    for tag in _by_preference(accepted or ""):
        known = _known(tag)
        if known:
            return known
    return LANGUAGES[0]


def _known(tag: str) -> str | None:
    """'zh', 'zh-Hans-CN' and 'ZH-cn' are one language here; so are 'en' and 'en-GB'."""
    primary = tag.strip().lower().partition("-")[0]
    return {"en": "en", "zh": "zh-CN"}.get(primary)


def _by_preference(header: str) -> list[str]:
    """The tags of an Accept-Language header, most wanted first; q=0 is not wanted at all."""
    weighed = []
    for part in header[:400].split(","):
        tag, _, parameter = part.partition(";")
        weight = _weight(parameter)
        if tag.strip() and weight > 0:
            weighed.append((-weight, tag))
    return [tag for _, tag in sorted(weighed, key=lambda one: one[0])]


def _weight(parameter: str) -> float:
    name, _, value = parameter.strip().partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
