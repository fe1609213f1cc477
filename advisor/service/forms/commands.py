"""The words of a question as the options of the command line, for whoever wants to ask again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec


def options_of(said: Mapping[str, Any]) -> str:
    """'--task inference --model googlenet': as a shell takes it. Words are what a form has read
    already: texts, numbers and truth values."""
    parts: list[str] = []
    for name, value in said.items():
        option = "--" + name.replace("_", "-")
        if value is True or value == "true":
            parts.append(option)
        elif value is not None and value is not False and value != "false":
            parts += [option, f"{value:.12g}" if isinstance(value, float) else str(value)]
    return shlex.join(parts)


def options_of_body(body: bytes) -> str:
    """The same of a JSON object."""
    return options_of(msgspec.json.decode(body))


def options_of_query(query: bytes) -> str:
    """The same of the words of a link."""
    return options_of(dict(parse_qsl(query.decode("ascii"))))
