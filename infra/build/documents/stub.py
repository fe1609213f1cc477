"""Writes `advisor/__init__.pyi`, which type checkers and notebooks read instead of the lazy imports.

`python -m advisor.infra.build.documents` rewrites it; a test checks that it is current."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import advisor
from advisor.api import functions
from advisor.api.calling import fields_of, shown_default, type_of
from advisor.questions.question import kinds_of

FILE = Path(advisor.__file__).with_suffix(".pyi")
_HEAD = '''"""The Python API, with types.

Written by `python -m advisor.infra.build.documents`, out of the questions.
"""

from collections.abc import Sequence
from os import PathLike
from typing import Literal, overload

from advisor.api.modules import ModelConfig, Module

'''


def stub() -> str:
    """The text of the stub file."""
    asking = [function for function in vars(functions).values() if hasattr(function, "kinds")]
    names = {function.__name__ for function in asking}
    homes = vars(advisor)["_HOMES"].items()
    lines = [
        f"from {home} import {name} as {name}"
        for home, of_home in homes
        for name in of_home
        if name not in names
    ]
    lines.append("")
    for function in asking:
        lines += _declared(function)
    return _HEAD + "\n".join(lines) + "\n"


def _declared(function: Callable[..., Any]) -> Iterator[str]:
    """The function's stub; for a question with several tasks, an overload with the fields of each task."""
    kinds, sources = vars(function)["kinds"], vars(function)["sources"]
    questions = kinds_of(kinds)
    for question in questions:
        if len(questions) > 1:
            yield "@overload"
        yield f"def {function.__name__}("
        yield "    *,"
        for field in fields_of(question, sources).values():
            default = "" if field.required else f" = {shown_default(field)!r}"
            yield f"    {field.name}: {type_of([field])}{default},"
        yield f") -> {inspect.signature(function).return_annotation}:"
        first_line = str(function.__doc__).splitlines()[0]
        yield f'    """{first_line}"""' if question is questions[0] else "    ..."
