"""What a function that asks takes, out of the question's fields: names, types, defaults, help."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

from advisor.questions.fields import Choice, File, Files, Flag, Kind, Parsed, Texts
from advisor.questions.language import ModelName, TensorParallel
from advisor.questions.listings import Sources
from advisor.questions.numbers import Number
from advisor.questions.question import ByTask, Field, Kinds

# Options inside of a command stay as they are typed.
_OPTION = re.compile(r"`advisor [^`]*`|--([a-z][a-z-]*)")
_PATH = "str | PathLike[str]"
_TYPES: tuple[tuple[type[Kind], str], ...] = (
    (Flag, "bool"),
    (ModelName, "str | ModelConfig"),
    (TensorParallel, "int | Literal['auto']"),
    (Files, f"{_PATH} | Sequence[{_PATH}]"),
    (File, _PATH),
    (Texts, "str | Sequence[str]"),
    (Parsed, "str | float | Sequence[str]"),
)


def fields_of(kinds: Kinds[Any], sources: Sequence[str] = ()) -> dict[str, Field]:
    """What a function takes: the question's fields of the command line, those that must be given
    first, and which `sources` answer."""
    fields = {**kinds.fields, **{name: Sources.fields[name] for name in sources}}
    known = {name: field for name, field in fields.items() if field.where != "http"}
    return dict(sorted(known.items(), key=lambda one: not one[1].required))


def parameter_of(kinds: Kinds[Any], field: Field) -> inspect.Parameter:
    """A field as an argument that is given by its name."""
    declared = kinds.declarations(field.name) if isinstance(kinds, ByTask) else [field]
    default = inspect.Parameter.empty if field.required else shown_default(field)
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=type_of(declared or [field])
    )


def shown_default(field: Field) -> Any:
    """The default as somebody would write it: a number, a text, False or None."""
    value = field.default
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return None if value == () else field.kind.text_of(value)


def type_of(fields: Sequence[Field]) -> str:
    """What a field takes, as Python writes a type; of several declarations, any of theirs."""
    types = dict.fromkeys(part for field in fields for part in _type_of(field).split(" | "))
    optional = any(not one.required and one.default in (None, ()) for one in fields)
    return " | ".join([*types, *(["None"] if optional else [])])


def _type_of(field: Field) -> str:
    kind = field.kind
    if isinstance(kind, Choice):
        return f"Literal[{', '.join(map(repr, kind.names))}]"
    for known, text in _TYPES:
        if isinstance(kind, known):
            return text
    if isinstance(kind, Number):
        return "int" if kind.whole else "float"
    return "str | Module" if field.name == "model" else "str"


def arguments_help(fields: Iterable[Field]) -> str:
    """A line an argument, for help()."""
    lines = ["Arguments, all by name:"]
    lines += [f"    {field.name}: {about(field)}" for field in fields]
    return "\n".join(lines)


def about(field: Field) -> str:
    """What a field means in one line, with other fields called as arguments are."""
    usual = f" Default: {field.usual}." if field.usual else ""
    return _OPTION.sub(_argument, f"{field.help}{usual}")


def _argument(found: re.Match[str]) -> str:
    return found[1].replace("-", "_") if found[1] else found[0]
