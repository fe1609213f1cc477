"""The texts of the product in the languages that people read.

English is the source. A sentence of the engine is a `Message`, whose English text is its msgid; the
fixed texts of pages and reports stand in flat JSON files of keys and English texts, whose key is
the message's context. `zh_CN.po` holds the Chinese of both; `python -m advisor.render.i18n.update`
extracts what is new, and compiles it to the `zh_CN.mo` that gettext reads.
"""

from __future__ import annotations

import gettext
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from string import Formatter

from msgspec import Struct

from advisor.messages import Message, Spell, option_name, render

FOLDER = Path(__file__).parent
REPORT_TEXTS = FOLDER / "texts" / "report.json"
LANGUAGE_TEXTS = FOLDER / "texts" / "language.json"
# As `<html lang>` has them, the default first.
LANGUAGES = ("en", "zh-CN")


class Texts(Struct, frozen=True):
    """The fixed texts of one language, by key, and its translations of messages."""

    language: str
    texts: Mapping[str, str]

    def __call__(self, key: str, **values: object) -> str:
        """The text of a key with its blanks filled in; `KeyError` for a key that nobody wrote."""
        text = self.texts[key]
        return text.format(**values) if values else text

    def known(self, key: str, otherwise: str) -> str:
        """The text of a key that is made of a value (as `reason.too_slow`), or the value itself."""
        return self.texts.get(key, otherwise)

    def joined(self, sentences: Iterable[str]) -> str:
        """Sentences of one paragraph; Chinese has no space between them."""
        return (" " if self.language == LANGUAGES[0] else "").join(sentences)

    def listed(self, parts: Iterable[str]) -> str:
        """Parts of one sentence that have commas of their own."""
        return ("; " if self.language == LANGUAGES[0] else "；").join(parts)  # noqa: RUF001

    def render(self, sentence: Message | str, spell: Spell = option_name) -> str:
        """A sentence in this language, else English; `spell` names its fields."""
        if isinstance(sentence, str) and self.language != LANGUAGES[0]:
            sentence = recognised(sentence, self.language)
        gettext_of = translator(self.language).gettext
        # gettext keeps the header of its file as the translation of nothing.
        return render(sentence, lambda text: gettext_of(text) if text else "", spell)

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


def recognised(sentence: str, language: str) -> Message | str:
    """The message that a sentence of a saved document once was, itself where no text that `language` has
    fits: JSON keeps the English alone. Its parameters are texts, or messages again."""
    return _read(sentence, language)[1]


# A text that says less by itself, as "{first} with {rest}", is read only where its parameters are
# single words and messages: else it would be found in any sentence.
_FEWEST_LETTERS, _FEW_LETTERS = 6, 3
# And in less than so many letters none is half a sentence.
_MOST_LOOSE = 12
_PROSE = re.compile(r"\b[a-z]{2,} [a-z]{2,}\b")
_LIST = "{parts}"
_OPEN = ".*?"  # how a parameter without a form is read


@lru_cache(maxsize=4096)
def _read(sentence: str, language: str) -> tuple[int, Message | str]:
    """How many letters of a sentence are known, and the message that knows most of them."""
    if sentence and translator(language).gettext(sentence) != sentence:
        return _letters(sentence), Message(sentence)
    best: tuple[int, Message | str] = (0, sentence)
    for said, longest, pattern, text in _patterns(language):
        for words in _fits(pattern, sentence, many=said < _FEWEST_LETTERS) if longest in sentence else ():
            read = {name: _read(word, language) for name, word in words.items()}
            known = said + sum(score for score, _ in read.values())
            strange = [word for name, word in words.items() if not read[name][0]]
            # Two names side by side, as "resnet50 training": no sentence within.
            if not longest.strip():
                strange += [
                    word for name, word in words.items() if getattr(read[name][1], "parameters", None)
                ]
            if known >= max(best[0], 1) and not _is_loose(said, strange):
                best = known, Message(text, **{name: value for name, (_, value) in read.items()})
        if best[0] == _letters(sentence) and ", " not in sentence:
            return best
    items = [(item, *_read(item, language)) for item in sentence.split(", ") if item != sentence]
    known = sum(score for _, score, _ in items)
    many = len(items) > 2 or not all(score for _, score, _ in items)
    if (
        items
        and known >= max(best[0], 1)
        and many
        and all(score or " " not in item for item, score, _ in items)
    ):
        return known, Message(_LIST, parts=[value for *_, value in items])
    return best


def _is_loose(said: int, strange: Sequence[str]) -> bool:
    """Whether a text of so few letters may have been read in a sentence by chance, by the parameters that
    are no messages."""
    if said >= _FEWEST_LETTERS:
        return said < _MOST_LOOSE and any(map(_PROSE.search, strange))
    if not strange:
        return False
    if said:
        return said < _FEW_LETTERS or any(" " in word for word in strange)
    return len(strange) > 1 or " " in strange[0] or not _letters(strange[0])


def _fits(pattern: re.Pattern[str], sentence: str, *, many: bool) -> Iterator[Mapping[str, str]]:
    """The parameters by which a sentence is of a pattern; with `many` for each length of the first one."""
    if found := pattern.fullmatch(sentence):
        yield found.groupdict()
    while many and found and _OPEN in pattern.pattern.partition(")")[0]:
        longer = _OPEN + f".{{{len(found.group(1)) + 1}}}"
        if found := re.compile(pattern.pattern.replace(_OPEN, longer, 1), re.DOTALL).fullmatch(sentence):
            yield found.groupdict()


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text))


@cache
def _patterns(language: str) -> Sequence[tuple[int, str, re.Pattern[str], str]]:
    """Texts with parameters: the letters that each has by itself, most first, the longest part that every
    such sentence has, and how one is read."""
    texts: Mapping[str, str] = vars(translator(language))["_catalog"]
    rows = []
    for text in texts:
        parts = [] if "\x04" in text else [*Formatter().parse(text)]
        literals = [literal for literal, *_ in parts]
        if not "".join(literals) or not all(not name or name.isidentifier() for _, name, *_ in parts):
            continue
        pattern, named = "", set[str]()
        for literal, name, form, _ in parts:
            said = r"\$[\d,.]*\d" if form == "usd" else r"[\d\u2212-].*?" if form else _OPEN
            blank = f"(?P={name})" if name in named else f"(?P<{name}>{said})"
            pattern += re.escape(literal) + (blank if name else "")
            named |= {name} if name else set()
        if named:
            row = _letters("".join(literals)), max(literals, key=len), re.compile(pattern, re.DOTALL), text
            rows.append(row)
    return sorted(rows, key=lambda row: -row[0])


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
