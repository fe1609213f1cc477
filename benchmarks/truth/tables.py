"""Tables of the accuracy pages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def documents_in(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """The scorer's documents that the folder has, in the order of the names."""
    paths = {name: folder / f"{name}.json" for name in names}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def row(*cells: object) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def heads(*names: str) -> list[str]:
    """The first two lines of a table."""
    return [row(*names), row(*["---"] * len(names))]


def marked(value: float, missed: bool) -> str:
    """A figure, bold where it misses its aim."""
    return f"**{value}**" if missed else f"{value}"
