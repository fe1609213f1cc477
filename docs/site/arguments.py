"""The arguments of the Python functions as a page: a table out of the questions, so it cannot differ."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.api import functions
from advisor.api.calling import about, fields_of, shown_default, type_of
from advisor.questions.question import Field, kinds_of, tasks_of

_HEAD = "All are given by name. Not every argument goes with every task; what does not is a `UsageError`."
# A bar inside of brackets belongs to what they hold.
_ALTERNATIVE = re.compile(r"(?:[^|,\[\s]|\[(?:[^\[\]]|\[[^\]]*\])*\])+")


def arguments_page() -> str:
    """The page of all arguments, as the site shows it."""
    return f"# Arguments of the Python functions\n\n{_HEAD}\n\n{_table()}"


def _table() -> str:
    """A row for each meaning of each argument, and which functions (and tasks) take it."""
    rows: dict[tuple[str, str, str, str], list[str]] = {}
    for name, field, where in _taken():
        cells = (field.name, type_of([field]), _default(field), about(field))
        rows.setdefault(cells, []).append(f"{name}{where}")
    lines = ["| argument | type | default | what | of |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| `{name}` | {_code(kind)} | {default} | {what} | {', '.join(of)} |".replace("  ", " ")
        for (name, kind, default, what), of in sorted(rows.items())
    ]
    return "\n".join(lines) + "\n"


def _taken() -> Iterator[tuple[str, Field, str]]:
    """Function, field, and ' (generation)' where the question is of one such task alone."""
    for function in vars(functions).values():
        if hasattr(function, "kinds"):
            kinds = kinds_of(function.kinds)
            for kind in kinds:
                tasks = tasks_of(kind) if len(kinds) > 1 else ()
                where = f" ({tasks[0]})" if len(tasks) == 1 else ""
                for field in fields_of(kind, function.sources).values():
                    yield function.__name__, field, where


def _default(field: Field) -> str:
    if field.required:
        return "required"
    value = shown_default(field)
    return "" if value is None else f"`{value!r}`"


def _code(text: str) -> str:
    """In a cell a bar ends the cell."""
    names = re.sub(r"Literal\[([^]]*)\]", r"\1", text.removesuffix(" | None"))
    return ", ".join(f"`{part.replace(' | ', ' or ')}`" for part in _ALTERNATIVE.findall(names))
