"""The year that an engine's version is of: engines of one year have learnt the same tricks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# The first versions of each year, the newest first.
_FIRST_OF: Mapping[str, Sequence[tuple[tuple[int, int], str]]] = {
    "vllm": (((0, 12), "2026"), ((0, 7), "2025"), ((0, 0), "2024")),
    "trtllm": (((1, 2), "2026"), ((0, 15), "2025"), ((0, 0), "2024")),
    "sglang": (((0, 5), "2026"), ((0, 4), "2025"), ((0, 0), "2024")),
}
# A candidate of TensorRT-LLM 1.0 that is two to three times slower than its release.
_CANDIDATE = re.compile(r"1\.0\.0rc\d$")
SLOW_CANDIDATE = "1.0rc"


def minor_version(version: str) -> str:
    """`0.17.1rc2` as `0.17`: rates change with those; a slow candidate is a version of its own."""
    if _CANDIDATE.match(version):
        return SLOW_CANDIDATE
    return ".".join(version.split(".")[:2])


def era_of(engine: str, version: str) -> str:
    """The year of a version, `of 2025` or a number; "" where nothing tells it."""
    if year := re.search(r"\b20\d\d$", version):
        return year[0]
    if version == SLOW_CANDIDATE:
        return "2025"
    number = re.match(r"(\d+)\.(\d+)", version)
    if number is None:
        return ""
    found = int(number[1]), int(number[2])
    return next((year for first, year in _FIRST_OF.get(engine, ()) if found >= first), "")
