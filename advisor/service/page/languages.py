"""English and Chinese: which one is spoken, and the page's texts in each."""

from __future__ import annotations

from pathlib import Path

from advisor.render.i18n.catalogue import LANGUAGES, Texts, texts_in

TEXTS = Path(__file__).with_name("texts") / "page.json"
NAMES = {"en": "English", "zh-CN": "中文"}


def words_of(language: str) -> Texts:
    """The page's words in one of `LANGUAGES`."""
    return texts_in(language, TEXTS)


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
