"""Sentences that the engine writes in English, told in another language.

Reasons, stages and the like have codes and are in the catalogue. Details, assumptions, warnings
and errors are sentences with numbers in them. `translations/<language>.sentences.json` pairs the
English form of each with its translation: `"needs {a} of RAM, has {b}": ".. {a} .. {b} .."`. What a
blank holds is looked up in `phrases`, else translated as one of the `parts` (forms too general for
a whole sentence) or as a sentence, else taken as it is. A sentence that nothing matches stays
English, and pages and reports mark it so.
"""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from typing import Any

from advisor.records import dataclass
from advisor.render.i18n.words import TRANSLATIONS

_BLANK = re.compile(r"\{([a-z_]+)\}")
# Sentences within sentences: no deeper, whatever somebody's file holds.
_DEEPEST = 3
# Longer texts are not sentences of the engine.
_LONGEST = 600


@dataclass(frozen=True, slots=True)
class _Pattern:
    """An English form, and what it becomes."""

    form: re.Pattern[str]
    start: str  # what every match begins with: most forms are ruled out by it
    target: str


@dataclass(frozen=True, slots=True)
class Translator:
    """English sentences -> one language."""

    phrases: dict[str, str]
    parts: tuple[_Pattern, ...]
    patterns: tuple[_Pattern, ...]

    def tell(self, text: str, depth: int = 0) -> str | None:
        """The translation; None where no form matches."""
        if text in self.phrases:
            return self.phrases[text]
        if depth > _DEEPEST or len(text) > _LONGEST:
            return None
        for one in (*self.parts, *self.patterns) if depth else self.patterns:
            found = one.form.fullmatch(text) if text.startswith(one.start) else None
            if found:
                return one.target.format(**self._filled(found.groupdict(), depth))
        return None

    def _filled(self, blanks: dict[str, Any], depth: int) -> dict[str, str]:
        return {name: self.tell(text, depth + 1) or text for name, text in blanks.items()}


@cache
def translator(language: str) -> Translator | None:
    """The translator into a language; None for English, which the engine speaks."""
    path = TRANSLATIONS / f"{language}.sentences.json"
    if not path.exists():
        return None
    table = json.loads(path.read_text(encoding="utf-8"))
    return Translator(table["phrases"], _patterns(table["parts"]), _patterns(table["sentences"]))


@lru_cache(maxsize=4096)
def told(text: str, language: str) -> str | None:
    """The engine's sentence in a language; None where it has no translation."""
    speaker = translator(language)
    return text if speaker is None else speaker.tell(text)


def _patterns(table: dict[str, str]) -> tuple[_Pattern, ...]:
    """The forms with the most fixed text are tried first, so that a general one hides none."""
    forms = sorted(table.items(), key=lambda one: -len(_BLANK.sub("", one[0])))
    return tuple(_pattern(*one) for one in forms)


def _pattern(form: str, target: str) -> _Pattern:
    """A blank that comes twice holds the same both times."""
    parts = _BLANK.split(form)
    names = parts[1::2]
    pieces = [re.escape(parts[0])]
    for name, text in zip(names, parts[2::2], strict=True):
        again = f"(?P<{name}>" in "".join(pieces)
        pieces.append(f"(?P={name})" if again else f"(?P<{name}>.+?)")
        pieces.append(re.escape(text))
    return _Pattern(re.compile("".join(pieces), re.DOTALL), parts[0], target)
