"""The texts of the product in the languages that people read.

English is the source. The engine's sentences are `Message`s, and their English text is the msgid. The fixed
texts of pages and reports are in flat JSON files; each key is the msgctxt of its English text. `zh_CN.po`
holds the Chinese of both. `python -m advisor.render.i18n.update` extracts new texts and compiles `zh_CN.mo`,
which gettext reads."""

from __future__ import annotations

import gettext
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

from advisor.messages import Message, Spell, option_name, render

FOLDER = Path(__file__).parent
REPORT_TEXTS = FOLDER / "texts" / "report.json"
LANGUAGE_TEXTS = FOLDER / "texts" / "language.json"
# Codes as in `<html lang>`, the default first.
LANGUAGES = ("en", "zh-CN")
# Chinese has no spaces between words or after full-width punctuation.
_SPANS = ((" days)", " 天)"), (" months)", " 个月)"))
_SPACED = re.compile("(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])|(?<=[，。；：）、]) ")  # noqa: RUF001


class Texts(Struct, frozen=True):
    """The fixed texts of one language, by key, and its translations of messages."""

    language: str
    texts: Mapping[str, str]

    def __call__(self, key: str, **values: object) -> str:
        """Return the text of a key with its blanks filled in; `KeyError` for an unknown key."""
        text = self.texts[key]
        return self.local(text.format(**values) if values else text)

    def known(self, key: str, otherwise: str) -> str:
        """Return the text of a key built from a value (`reason.too_slow`), or `otherwise` if it has none."""
        return self.texts.get(key, otherwise)

    def joined(self, sentences: Iterable[str]) -> str:
        """Join the sentences of one paragraph; Chinese has no space between them."""
        return (" " if self.language == LANGUAGES[0] else "").join(sentences)

    def listed(self, parts: Iterable[str]) -> str:
        """Join parts of one sentence by semicolons, because the parts contain commas."""
        return ("; " if self.language == LANGUAGES[0] else "；").join(parts)  # noqa: RUF001

    def aside(self, text: str) -> str:
        """Put a text in brackets after a word."""
        return f" ({text})" if self.language == LANGUAGES[0] else f"（{text}）"  # noqa: RUF001

    def render(self, sentence: Message | str, spell: Spell = option_name) -> str:
        """Return a sentence in this language, else in English; `spell` writes the names of fields."""
        gettext_of = translator(self.language).gettext
        # gettext returns the header of its file as the translation of ''.
        return self.local(render(sentence, lambda text: gettext_of(text) if text else "", spell))

    def local(self, text: str) -> str:
        """Return a text with this language's spaces, and its words in durations: '220 h (9 days)'."""
        if self.language == LANGUAGES[0]:
            return text
        for english, own in _SPANS:
            text = text.replace(english, own)
        return _SPACED.sub("", text)


@cache
def translator(language: str) -> gettext.NullTranslations:
    """Return gettext's translations into one of `LANGUAGES`; English stays as it is."""
    if language == LANGUAGES[0]:
        return gettext.NullTranslations()
    with (FOLDER / f"{language.replace('-', '_')}.mo").open("rb") as file:
        return gettext.GNUTranslations(file)


@cache
def texts_in(language: str, *files: Path) -> Texts:
    """Return the fixed texts of these files, with those for codes in answers (stages, reasons, ..)."""
    english: dict[str, str] = {}
    for file in (FOLDER / "texts" / "engine.json", *files):
        english |= json.loads(file.read_text(encoding="utf-8"))
    translate = translator(language).pgettext
    return Texts(language, {key: translate(key, text) for key, text in english.items()})


def report_texts(language: str) -> Texts:
    """Return the texts of reports in one of `LANGUAGES`."""
    return texts_in(language, REPORT_TEXTS, LANGUAGE_TEXTS)


def workbook_texts(language: str) -> Texts:
    """Return the headings and notes of the workbook, keyed by the English ones."""
    return texts_in(language, FOLDER / "texts" / "workbook.json")
