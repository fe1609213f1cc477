"""What a question's performance model has become once anchors were heard."""

from __future__ import annotations

from advisor.records import dataclass
from models.performance import PerformanceModel


@dataclass(frozen=True, slots=True)
class Heard:
    """The model that answers, and what must be said with its answer."""

    model: PerformanceModel
    warnings: tuple[str, ...]
