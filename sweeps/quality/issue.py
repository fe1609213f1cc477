"""One reason to doubt a measurement."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityIssue:
    """Its kind, its number in words, and the way out."""

    kind: str
    detail: str
    advice: str
