"""Messages: texts with parameters that are translated only when they are printed.

A message is an English text with named parameters, as in gettext and Fluent:
`Message("needs {needed:mib} of RAM, has {available:mib}", needed=2048.0, available=1024.0)`.
`str(message)` is English; `message.render(translate)` gives another language, by the catalogues of
`advisor.render.i18n`. Numbers stay numbers until they are printed; a format from `FORMATS` names
their unit. Code must not read, split or match the text; it decides by `code`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from string import Formatter
from typing import Any

from advisor import units

Translate = Callable[[str], str]
# Maps a field to the name that users know: `--max-latency-ms` on a command line, `max_latency_ms` over HTTP.
Spell = Callable[[str], str]

# The formats that a text may give after a parameter, as in {needed:mib}, besides those of Python.
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
    """A parameter of a message that names a field of a question, such as `max_latency_ms`."""

    __slots__ = ()


def option_name(field: str) -> str:
    """The command-line option of a field: 'max_latency_ms' -> '--max-latency-ms'."""
    return "--" + field.replace("_", "-")


class Message:
    """A text with its parameters and, if programs need to recognise it, a code.

    A parameter may be a number, a name, a `Message`, or a sequence of these, which is joined by commas."""

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
        mine = self.text, self.code, self.parameters
        return isinstance(other, Message) and mine == (other.text, other.code, other.parameters)

    def __hash__(self) -> int:
        return hash((self.text, self.code))

    def render(self, translate: Translate, spell: Spell = option_name) -> str:
        """The message in the language of `translate`; `spell` gives the names of fields."""
        text = translate(self.text)
        if not self.parameters:
            return text
        written = []
        for literal, name, form in _parsed(text):
            written.append(literal)
            if name is not None:
                written.append(_written(self.parameters[name], form, translate, spell))
        return "".join(written)


# The separator between the items of a list.
COMMA = Message(", ")


def render(said: Message | str, translate: Translate, spell: Spell = option_name) -> str:
    """A message, or a plain text, in the language of `translate`; `spell` gives the names of fields."""
    return said.render(translate, spell) if isinstance(said, Message) else translate(said)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[tuple[str, str | None, str], ...]:
    """The parts of a text: literal text, the name of the parameter after it (or None), and its format.
    They are cached because an answer has dozens of messages, and `str.format` parses a text every time."""
    return tuple((literal, name, form or "") for literal, name, form, _ in Formatter().parse(text))


def _written(value: Any, form: str, translate: Translate, spell: Spell) -> str:
    """A parameter as text: numbers in the given format, messages translated, sequences joined."""
    if isinstance(value, Message):
        return value.render(translate, spell)
    if isinstance(value, str):  # a text ignores the format
        return spell(value) if isinstance(value, FieldName) else value
    if isinstance(value, (list, tuple)):
        return translate(COMMA.text).join(_written(item, form, translate, spell) for item in value)
    in_unit = FORMATS.get(form)
    return in_unit(value) if in_unit else format(value, form)
