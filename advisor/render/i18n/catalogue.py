"""The texts of the product in the languages that people read.

English is the source. A sentence of the engine is a `Message`, whose English text is its msgid; the fixed
texts of pages and reports stand in flat JSON files of keys and English texts, whose key is the message's
context. `zh_CN.po` holds the Chinese of both; `python -m advisor.render.i18n.update` extracts what is new,
and compiles it to the `zh_CN.mo` that gettext reads."""

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
# As `<html lang>` has them, the default first.
LANGUAGES = ("en", "zh-CN")
# Chinese has no spaces between its words, nor behind a sign that is as wide as a letter.
_SPACED = re.compile("(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])|(?<=[，。；：）、]) ")  # noqa: RUF001


class Texts(Struct, frozen=True):
    """The fixed texts of one language, by key, and its translations of messages."""

    language: str
    texts: Mapping[str, str]

    def __call__(self, key: str, **values: object) -> str:
        """The text of a key with its blanks filled in; `KeyError` for a key that nobody wrote."""
        text = self.texts[key]
        text = text.format(**values) if values else text
        return text if self.language == LANGUAGES[0] else _SPACED.sub("", text)

    def known(self, key: str, otherwise: str) -> str:
        """The text of a key that is made of a value (as `reason.too_slow`), or the value itself."""
        return self.texts.get(key, otherwise)

    def joined(self, sentences: Iterable[str]) -> str:
        """Sentences of one paragraph; Chinese has no space between them."""
        return (" " if self.language == LANGUAGES[0] else "").join(sentences)

    def listed(self, parts: Iterable[str]) -> str:
        """Parts of one sentence that have commas of their own."""
        return ("; " if self.language == LANGUAGES[0] else "；").join(parts)  # noqa: RUF001

    def aside(self, text: str) -> str:
        """What stands in brackets behind a word."""
        return f" ({text})" if self.language == LANGUAGES[0] else f"（{text}）"  # noqa: RUF001

    def render(self, sentence: Message | str, spell: Spell = option_name) -> str:
        """A sentence in this language, else English; `spell` names its fields."""
        gettext_of = translator(self.language).gettext
        # gettext keeps the header of its file as the translation of nothing.
        text = render(sentence, lambda text: gettext_of(text) if text else "", spell)
        return text if self.language == LANGUAGES[0] else _SPACED.sub("", text)

    def speaks(self, sentence: Message | str) -> bool:
        """Whether the sentence is translated, so that it is in this language."""
        text = sentence.text if isinstance(sentence, Message) else sentence
        return self.language == LANGUAGES[0] or translator(self.language).gettext(text) != text


@cache
def translator(language: str) -> gettext.NullTranslations:
    """gettext's translations into one of `LANGUAGES`; of English into itself."""
    if language == LANGUAGES[0]:
        return gettext.NullTranslations()
    with (FOLDER / f"{language.replace('-', '_')}.mo").open("rb") as file:
        return gettext.GNUTranslations(file)


@cache
def texts_in(language: str, *files: Path) -> Texts:
    """The fixed texts of these files, with the codes of answers (stages, reasons, markets, ..)."""
    english: dict[str, str] = {}
    for file in (FOLDER / "texts" / "engine.json", *files):
        english |= json.loads(file.read_text(encoding="utf-8"))
    translate = translator(language).pgettext
    return Texts(language, {key: translate(key, text) for key, text in english.items()})


def report_texts(language: str) -> Texts:
    """The texts of reports in one of `LANGUAGES`."""
    return texts_in(language, REPORT_TEXTS, LANGUAGE_TEXTS)


def workbook_texts(language: str) -> Texts:
    """The headings and notes of the workbook, whose keys are the English ones."""
    return texts_in(language, FOLDER / "texts" / "workbook.json")
