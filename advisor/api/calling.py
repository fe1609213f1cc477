"""Arguments of a call -> the typed question, and functions that take them.

An argument becomes the text that a command line has for it, and is read as that is: the same
names, units, defaults and errors.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from advisor.api.modules import named_model, with_way_out
from advisor.api.signatures import arguments_help, fields_of, parameter_of
from advisor.errors import AdvisorError
from advisor.messages import Message
from advisor.questions.fields import wrong
from advisor.questions.listings import Sources
from advisor.questions.numbers import Number
from advisor.questions.question import Field, Kinds
from advisor.questions.reading import from_texts

A = TypeVar("A")
_NUMBER = Number()


class Asked(NamedTuple):
    """A question with the data that answers it, and the fields that were given."""

    question: Any
    sources: Sources
    given: frozenset[str]


def asks(kinds: Kinds[Any], *sources: str) -> Callable[[Callable[[Asked], A]], Callable[..., A]]:
    """Turn a function of `Asked` into one of the question's fields, and of those of `Sources` that
    are named, all of them by name; its signature and its help are made of them."""
    fields = fields_of(kinds, sources)

    def decorate(answer: Callable[[Asked], A]) -> Callable[..., A]:
        def ask(**values: Any) -> A:
            with errors_with_fields(values):
                return answer(_asked(kinds, fields, values))

        functools.update_wrapper(ask, answer)
        del ask.__wrapped__  # type: ignore[attr-defined]  # help() shows the fields
        ask.__doc__ = f"{inspect.getdoc(answer)}\n\n{arguments_help(fields.values())}"
        ask.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [parameter_of(kinds, field) for field in fields.values()],
            return_annotation=answer.__annotations__["return"],
        )
        ask.kinds, ask.sources = kinds, sources  # type: ignore[attr-defined]
        return ask

    return decorate


def _asked(kinds: Kinds[Any], fields: Mapping[str, Field], values: Mapping[str, Any]) -> Asked:
    """The question of the arguments; None, False (where it is the default) and an empty list say
    nothing, as an option that is left out. Raises `UsageError` that names the field."""
    values = named_model(values)
    no = {name for name, field in fields.items() if field.is_open and values.get(name) is False}
    given = {n: value for n, value in values.items() if n in no or not _is_nothing(value)}
    texts = {name: list(_texts_of(value, name, fields)) for name, value in given.items()}
    of_sources = {name: texts.pop(name) for name in Sources.fields if name in fields and name in texts}
    question = from_texts(kinds, texts, "argument")
    return Asked(question, from_texts(Sources, of_sources), frozenset(given))


@contextmanager
def errors_with_fields(values: Mapping[str, Any] = {}) -> Iterator[None]:
    """Inside, errors name fields as the arguments with these values are called, `max_price` and
    not `--max-price`."""
    try:
        yield
    except AdvisorError as error:
        error.spell = str
        with_way_out(error, values)
        raise


def _is_nothing(value: object) -> bool:
    return value is None or value is False or (isinstance(value, (list, tuple)) and not value)


def _texts_of(value: Any, name: str, fields: Mapping[str, Field]) -> Iterator[str]:
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        yield from (_text(one, name, fields) for one in value)
    else:
        yield _text(value, name, fields)


def _text(value: Any, name: str, fields: Mapping[str, Field]) -> str:
    """As a command line has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return _NUMBER.text_of(float(value))
    raise wrong(
        name,
        "{field} takes {what}, not {kind}",
        kind=type(value).__name__,
        what=fields[name].kind.metavar if name in fields else "",
        hint=Message("give a text or a number"),
    )
