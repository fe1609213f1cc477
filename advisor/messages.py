"""Messages: texts with parameters, before they are rendered to a language.

A message is an English text with named parameters, as gettext and Fluent have them:
`Message("needs {needed:mib} of RAM, has {available:mib}", needed=2048.0, available=1024.0)`.
`str(message)` is English; `message.render(translate)` looks its text up in another language at the
edge (`advisor.render.i18n`). Numbers stay numbers until they are printed: a format of `FORMATS`
names their unit. No code reads, splits or matches the text; what programs decide by is `code`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from string import Formatter
from typing import Any

from advisor import units

Translate = Callable[[str], str]
# How a reader knows a field: `--max-latency-ms` on a command line, `max_latency_ms` over HTTP.
Spell = Callable[[str], str]

# The units that a text may name after a parameter; any other format is Python's own.
FORMATS: Mapping[str, Callable[[Any], str]] = {
    "mib": units.format_mib,
    "usd": units.format_usd,
    "rate": units.format_rate,
    "target": units.format_target,
    "count": units.format_count,
    "hours": units.format_span,
    "duration": units.format_duration,
}


class FieldName(str):
    """The name of a field of a question, as `max_latency_ms`, among the parameters of a message."""

    __slots__ = ()


def option_name(field: str) -> str:
    """'max_latency_ms' -> '--max-latency-ms'."""
    return "--" + field.replace("_", "-")


class Message:
    """A text with its parameters and, where programs tell it from others, its code.

    A parameter may be a number, a name, a `Message` or a sequence of them, which is joined by commas.
    """

    __slots__ = ("code", "parameters", "text")

    def __init__(self, text: str, /, *, code: str = "", **parameters: object) -> None:
        self.text = text
        self.code = code
        self.parameters = parameters

    def __str__(self) -> str:
        return self.render(str)

    def __repr__(self) -> str:
        return f"Message({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and _parts(self) == _parts(other)

    def __hash__(self) -> int:
        return hash((self.text, self.code))

    def render(self, translate: Translate, spell: Spell = option_name) -> str:
        """The message in the language of `translate`; `spell` names its fields."""
        text = translate(self.text)
        if not self.parameters:
            return text
        written = []
        for literal, name, form in _parsed(text):
            written.append(literal)
            if name is not None:
                written.append(_written(self.parameters[name], form, translate, spell))
        return "".join(written)


# Between the items of a list.
COMMA = Message(", ")


def render(said: Message | str, translate: Translate, spell: Spell = option_name) -> str:
    """A message, or a text without parameters, in the language of `translate`."""
    return said.render(translate, spell) if isinstance(said, Message) else translate(said)


def _parts(message: Message) -> tuple[str, str, Mapping[str, object]]:
    return message.text, message.code, message.parameters


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[tuple[str, str | None, str], ...]:
    """Literal text, and the parameter that follows it with its format: an answer has dozens of
    messages, and Python's own formatter parses each anew."""
    return tuple((literal, name, form or "") for literal, name, form, _ in Formatter().parse(text))


def _written(value: Any, form: str, translate: Translate, spell: Spell) -> str:
    """A parameter: numbers by the unit that the format names, messages in their language."""
    if isinstance(value, Message):
        return value.render(translate, spell)
    if isinstance(value, str):  # a text is already written, whatever its form
        return spell(value) if isinstance(value, FieldName) else value
    if isinstance(value, (list, tuple)):
        return translate(COMMA.text).join(_written(item, form, translate, spell) for item in value)
    in_unit = FORMATS.get(form)
    return in_unit(value) if in_unit else format(value, form)
