"""What questions ask of the spec: where it is rented, and what it must have."""

from __future__ import annotations

from advisor.domain import Market, Range
from advisor.questions.question import Question
from advisor.questions.shared import (
    ALLOW_EXTRAPOLATION,
    CLOUD,
    DISK,
    EXPLAIN_REJECTED,
    GPU,
    HORIZON_HOURS,
    MARKET,
    MAX_GPUS,
    MAX_PRICE,
    MAX_RESULTS,
    MEMORY,
    PRICE_KIND,
    QUOTA,
    RANKED_MARKET,
    REGION,
    STRICT,
    VCPUS,
)
from advisor.questions.values import GpuFilter


class PlacedQuestion(Question):
    """Where an instance is rented, and with which disk."""

    disk: str | None = DISK
    cloud: str = CLOUD
    region: str | None = REGION
    market: Market | str = MARKET


class HardwareQuestion(PlacedQuestion):
    """Which instances may be rented, and how many of them are shown."""

    market: Market | str = RANKED_MARKET
    price_kind: tuple[str, ...] | None = PRICE_KIND
    gpu: GpuFilter | None = GPU
    vcpus: Range | None = VCPUS
    memory: Range | None = MEMORY
    max_price: float | None = MAX_PRICE
    quota: str | None = QUOTA
    max_gpus: int | None = MAX_GPUS
    max_results: int | None = MAX_RESULTS
    horizon_hours: float = HORIZON_HOURS
    explain_rejected: bool = EXPLAIN_REJECTED
    strict: bool = STRICT
    allow_extrapolation: bool = ALLOW_EXTRAPOLATION
