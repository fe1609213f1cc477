"""Builds the functions of the Python API from the fields of questions: names, types, defaults, help.

Each argument is turned into the text that the command line would take for it and is then parsed the same
way, so that names, units, defaults and errors are the same."""

from __future__ import annotations

import functools
import inspect
import numbers
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from advisor.api.modules import named_model, with_way_out
from advisor.errors import AdvisorError
from advisor.questions.fields import Choice, File, Files, Flag, Kind, Latency, Number, Parsed, Texts, error_in
from advisor.questions.listings import Sources
from advisor.questions.question import ByTask, Field, Kinds
from advisor.questions.reading import from_texts
from advisor.questions.values import ModelName, TensorParallel

A = TypeVar("A")
_NUMBER = Number()
# An option outside of a quoted `advisor ..` command; only these are spelled as Python arguments.
_OPTION = re.compile(r"`advisor [^`]*`|--([a-z][a-z-]*)")
_PATH = "str | PathLike[str]"
_TYPES: tuple[tuple[type[Kind], str], ...] = (
    (Flag, "bool"),
    (ModelName, "str | ModelConfig"),
    (Latency, "float | str"),
    (TensorParallel, "int | Literal['auto']"),
    (Files, f"{_PATH} | Sequence[{_PATH}]"),
    (File, _PATH),
    (Texts, "str | Sequence[str]"),
    (Parsed, "str | float | Sequence[str]"),
)


class Call(NamedTuple):
    """A question and the data sources from which it is answered."""

    question: Any
    sources: Sources


def asks(kinds: Kinds[Any], *sources: str) -> Callable[[Callable[[Call], A]], Callable[..., A]]:
    """A decorator that turns a function of a `Call` into one with keyword arguments: the question's fields
    and the named fields of `Sources`. It also builds the signature and the help text from them."""
    fields = fields_of(kinds, sources)

    def decorate(answer: Callable[[Call], A]) -> Callable[..., A]:
        def ask(**values: Any) -> A:
            with errors_with_fields(values):
                return answer(_call(kinds, fields, values))

        functools.update_wrapper(ask, answer)
        del ask.__wrapped__  # type: ignore[attr-defined]  # help() shows the fields
        lines = [f"    {field.name}: {about(field)}" for field in fields.values()]
        ask.__doc__ = "\n".join([f"{inspect.getdoc(answer)}\n", "Arguments, all by name:", *lines])
        ask.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [parameter_of(kinds, field) for field in fields.values()],
            return_annotation=answer.__annotations__["return"],
        )
        ask.kinds, ask.sources = kinds, sources  # type: ignore[attr-defined]
        return ask

    return decorate


def _call(kinds: Kinds[Any], fields: Mapping[str, Field], values: Mapping[str, Any]) -> Call:
    """The question that the arguments describe. None, an empty list and False (except for a flag whose
    default is None) count as not given. Raises `UsageError`, which names the field."""
    values = named_model(values)
    no = {name for name, field in fields.items() if field.is_open and values.get(name) is False}
    given = {
        name: value
        for name, value in values.items()
        if name in no or not (value is None or value is False or (_is_list(value) and not value))
    }
    texts = {
        name: [_text(part, name, fields) for part in (value if _is_list(value) else [value])]
        for name, value in given.items()
    }
    of_sources = {name: texts.pop(name) for name in Sources.fields if name in fields and name in texts}
    return Call(from_texts(kinds, texts, "argument"), from_texts(Sources, of_sources))


@contextmanager
def errors_with_fields(values: Mapping[str, Any] = {}) -> Iterator[None]:
    """Make errors raised in the block name Python arguments (`max_price`), not options (`--max-price`)."""
    try:
        yield
    except AdvisorError as error:
        error.spell = str
        with_way_out(error, values)
        raise


def _is_list(value: object) -> bool:
    return type(value) in (list, tuple)  # exact types: an instance of a subclass is one value


def _text(value: Any, name: str, fields: Mapping[str, Field]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return _NUMBER.text_of(float(value))
    raise error_in(
        name,
        "{field} takes {what}, not {kind}",
        kind=type(value).__name__,
        what=fields[name].kind.metavar if name in fields else "",
        hint="give a text or a number",
    )


def fields_of(kinds: Kinds[Any], sources: Sequence[str]) -> dict[str, Field]:
    """The arguments of an API function: the question's fields and those of `sources`, required ones first."""
    fields = {**kinds.fields, **{name: Sources.fields[name] for name in sources}}
    known = [field for field in fields.values() if field.where != "http"]
    return {field.name: field for field in sorted(known, key=lambda field: not field.required)}


def parameter_of(kinds: Kinds[Any], field: Field) -> inspect.Parameter:
    """A field as a keyword-only parameter of a signature."""
    declared = kinds.declarations(field.name) if isinstance(kinds, ByTask) else [field]
    default = inspect.Parameter.empty if field.required else shown_default(field)
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=type_of(declared or [field])
    )


def shown_default(field: Field) -> Any:
    """A field's default as one would write it in Python: a number, a string, a bool or None."""
    value = field.default
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return None if value == () else field.kind.text_of(value)


def type_of(fields: Sequence[Field]) -> str:
    """The Python type of a field's values, as text; a union if the declarations in `fields` differ."""
    types = dict.fromkeys(part for field in fields for part in _type_of(field).split(" | "))
    optional = any(not field.required and field.default in (None, ()) for field in fields)
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


def about(field: Field) -> str:
    """The help of a field in one line, with options spelled as Python arguments."""
    usual = f" Default: {field.usual}." if field.usual else ""
    return _OPTION.sub(
        lambda match: match[1].replace("-", "_") if match[1] else match[0], f"{field.help}{usual}"
    )
