"""A document cut to what an agent reads: what lists lose is counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# How many of each list an agent sees. The document has them best first; where a price comes from
# stands beside the price.
_MOST = {
    "alternatives": 3,
    "rejected": 3,
    "pareto": 5,
    "front": 5,
    "serving.front": 5,
    "gpus": 20,
    "sources": 0,
    "catalog.sources": 0,
}
_DIGITS = 6
_EMPTY: tuple[object, ...] = (None, [], {}, "")
LEFT_OUT = "left_out"


def trimmed(document: Mapping[str, Any], most_results: int | None = None) -> dict[str, Any]:
    """The document with at most `most_results` alternatives (3 where nobody said), floats to six
    digits, and below the first level without what is null or empty. `left_out` counts what lists
    lost, by their path."""
    most = _MOST if most_results is None else _MOST | {"alternatives": most_results}
    left_out: dict[str, int] = {}
    short = {name: _short(value, name, most, left_out) for name, value in document.items()}
    return short | {LEFT_OUT: left_out} if left_out else short


def _short(value: Any, path: str, most: Mapping[str, int], left_out: dict[str, int]) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        filled = {name: one for name, one in value.items() if one not in _EMPTY}
        return {n: _short(one, f"{path}.{n}", most, left_out) for n, one in filled.items()}
    if isinstance(value, (list, tuple)):
        kept = value[: most.get(path, len(value))]
        if len(kept) < len(value):
            left_out[path] = len(value) - len(kept)
        return [_short(one, f"{path}[]", most, left_out) for one in kept]
    return value
