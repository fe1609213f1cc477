"""What the name of an instance type tells: family, class, generation, line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

# 'c8gd', 'm7i-flex', 'u7i-12tb': class, generation, processor (AMD, Intel, Graviton), the rest.
_FAMILY = re.compile(r"([a-z]+)(\d+)[aig]?(.*)")
BARE_METAL = ".metal"


class Kind(NamedTuple):
    """Class letters, maker of the processor, and what the family has beside: 'd', 'n', '-flex'."""

    letters: str
    maker: str
    suffix: str


def family(instance_type: str) -> str:
    """'g4dn.xlarge' -> 'g4dn'."""
    return instance_type.partition(".")[0]


def generation(family: str) -> int:
    """'c8gd' -> 8; 0 where the name has none ('u-6tb1')."""
    found = _FAMILY.fullmatch(family)
    return int(found[2]) if found else 0


def letters(family: str) -> str:
    """'c8gd' -> 'c'; the whole where it has no generation."""
    found = _FAMILY.fullmatch(family)
    return found[1] if found else family


def kinds(makers: Mapping[str, str]) -> dict[str, Kind]:
    """The kind of every family; `makers`: type -> maker of its processor."""
    found = {}
    for name, maker in makers.items():
        match = _FAMILY.fullmatch(family(name))
        if match:
            found[family(name)] = Kind(match[1], maker, match[3])
    return found
