"""One word of a body or of a link: its JSON type, how it is read, and how it is described."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from advisor.errors import UsageError
from advisor.questions.words import (
    one_of,
    positive,
    probability,
    shown_text,
)

LONGEST_TEXT = 300
MOST_ITEMS = 64
Schema = Mapping[str, Any]


_MOST_WHOLE = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word called `name`; `read` turns its JSON value, `read_text` what a link says, into what
    `answer` is in the words of `advisor.answers`. Both raise `UsageError`.
    """

    name: str
    answer: str
    about: str
    read: Callable[[Any], Any]
    read_text: Callable[[list[str]], Any]
    schema: Schema
    default: Any = None
    required: bool = False

    def described(self) -> dict[str, Any]:
        """Its JSON Schema; null says what leaving it out says."""
        whole = dict(self.schema) | {"description": self.about}
        if not self.required:
            whole["type"] = [*_types(self.schema), "null"]
            if "enum" in whole:
                whole["enum"] = [*whole["enum"], None]
        if self.default is not None:
            whole["default"] = self.default
        return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What all kinds of words have in common."""

    name: str
    about: str
    answer: str = ""
    default: Any = None
    required: bool = False
    more: Schema = field(default_factory=dict)

    def word(
        self,
        read: Callable[[Any], Any],
        schema: Schema,
        read_text: Callable[[list[str]], Any] | None = None,
    ) -> Word:
        """The word, read from a link as from its one text, unless said otherwise."""
        return Word(
            name=self.name,
            answer=self.answer or self.name,
            about=self.about,
            read=read,
            read_text=read_text or (lambda texts: read(self.only(texts))),
            schema=dict(schema) | dict(self.more),
            default=self.default,
            required=self.required,
        )

    def only(self, texts: list[str]) -> str:
        """A word of a link that may be said once."""
        if len(texts) > 1:
            raise UsageError(f"{self.name} is given {len(texts)} times; give it once")
        return texts[0]


def number(one: About, *, whole: bool = False, most: float = math.inf) -> Word:
    """A number above 0; a whole one as far as a double counts, which JSON's readers have."""
    most = min(most, _MOST_WHOLE) if whole else most

    def checked(value: Any) -> float:
        return positive(value, one.name, whole=whole, most=most)

    def read(value: Any) -> float:
        if type(value) not in (int, float):
            raise UsageError(f"{one.name} must be a number, not {_named(value)}")
        return checked(value)

    schema: dict[str, Any] = {"type": "integer" if whole else "number", "exclusiveMinimum": 0}
    if math.isfinite(most):
        schema["maximum"] = most
    return one.word(read, schema, lambda texts: checked(one.only(texts)))


def likelihood(one: About) -> Word:
    """A probability from 0.5 up to, not including, 1."""

    def read(value: Any) -> float:
        if type(value) not in (int, float):
            raise UsageError(f"{one.name} must be a number, not {_named(value)}")
        return probability(value, one.name)

    schema = {"type": "number", "minimum": 0.5, "exclusiveMaximum": 1}
    return one.word(read, schema, lambda texts: probability(one.only(texts), one.name))


def text(one: About, convert: Callable[[str], Any] = str, *, or_number: bool = False) -> Word:
    """A text that can be shown, as `convert` reads it; `or_number` takes 8 for "8"."""

    def read(value: Any) -> Any:
        if or_number and type(value) in (int, float):
            value = f"{value:g}" if value != int(value) else str(int(value))
        return convert(some_shown(value, one.name))

    schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}
    if or_number:
        schema |= {"type": ["string", "number"], "exclusiveMinimum": 0}
    return one.word(read, schema)


def choice(one: About, kind: str, known: Sequence[str]) -> Word:
    """One of a closed list, whatever its case."""

    def read(value: Any) -> str:
        return one_of(some_shown(value, one.name), kind, tuple(map(str, known)))

    return one.word(read, {"type": "string", "enum": [str(name) for name in known]})


def flag(one: About) -> Word:
    """Yes or no."""

    def read(value: Any) -> bool:
        if not isinstance(value, bool):
            raise UsageError(f"{one.name} must be true or false, not {_named(value)}")
        return value

    def read_text(texts: list[str]) -> bool:
        said = one.only(texts).lower()
        if said not in ("true", "false"):
            raise UsageError(f"{one.name} must be true or false, not '{said}'")
        return said == "true"

    return one.word(read, {"type": "boolean"}, read_text)


def texts(one: About) -> Word:
    """Several texts; in a link the word is said again for each."""

    def read(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise UsageError(f"{one.name} must be a list of texts, not {_named(value)}")
        if not 1 <= len(value) <= MOST_ITEMS:
            raise UsageError(f"{one.name} takes 1 to {MOST_ITEMS} texts, not {len(value)}")
        return tuple(some_shown(item, one.name) for item in value)

    items = {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}
    schema = {"type": "array", "minItems": 1, "maxItems": MOST_ITEMS, "items": items}
    return one.word(read, schema, read)


def some_shown(value: Any, name: str) -> str:
    """A text of JSON: something in it, nothing that steers a terminal, and no book."""
    if not isinstance(value, str):
        raise UsageError(f"{name} must be a text, not {_named(value)}")
    if len(value) > LONGEST_TEXT:
        raise UsageError(f"{name} is longer than {LONGEST_TEXT} characters; say it shorter")
    return shown_text(value, name)


def _types(schema: Schema) -> list[str]:
    kind = schema["type"]
    return [kind] if isinstance(kind, str) else list(kind)


def _named(value: Any) -> str:
    """What JSON calls it: the value itself may be a book."""
    if value is None:
        return "null"
    kinds = {bool: "a boolean", str: "a text", list: "a list", dict: "an object"}
    return kinds.get(type(value), "a number")
