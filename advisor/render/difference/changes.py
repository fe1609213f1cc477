"""Two values of one fact: whether they differ, and by how much."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

_K = TypeVar("_K", bound=Hashable)

# Sums of the same prices in another order differ in the last digits.
_SAME = 1e-9


def differ(old: float | None, new: float | None) -> bool:
    """Whether two numbers are not the same one, but for rounding."""
    if old is None or new is None:
        return old is not new
    return not math.isclose(old, new, rel_tol=_SAME, abs_tol=1e-12)


def percent(old: float | None, new: float | None) -> float | None:
    """12.5 for an eighth more; None where there is nothing to divide by."""
    return 100 * (new / old - 1) if old and new is not None else None


def change(old: float | None, new: float | None) -> dict[str, Any]:
    """A number on both days."""
    return {"old": old, "new": new, "percent": percent(old, new) if differ(old, new) else 0.0}


def changed_numbers(
    old: Mapping[_K, float], new: Mapping[_K, float], told: Callable[[_K], Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What both have under the same key, and not the same; the largest change first."""
    keys = [one for one in old if one in new and differ(old[one], new[one])]
    rows = [{**told(one), **change(old[one], new[one])} for one in keys]
    return sorted(rows, key=lambda row: (-abs(row["percent"] or math.inf), str(row)))


def coming_and_going(old: Mapping[_K, Any], new: Mapping[_K, Any]) -> tuple[list[_K], list[_K]]:
    """The keys that only the new one has, and those that only the old one has, in their order."""
    return [one for one in new if one not in old], [one for one in old if one not in new]
