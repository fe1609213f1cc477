"""What every request says of the spec: where it is rented, what it has, and what it may cost."""

from __future__ import annotations

import math
from datetime import date

from msgspec import Struct

from advisor.domain.machines import ANY, Range, require_positive
from advisor.domain.money import HOURS_PER_MONTH, DiskChoice
from advisor.domain.price_age import PriceSpread
from advisor.domain.words import Market


class SpecRequest(Struct, frozen=True, kw_only=True):
    """The part of a question that is the same for every task. What is None is left to the advisor.

    `confidence` is the probability with which bounds must hold. `region` None is every region: each
    type is then taken where it is cheapest; `market` None is every market. Instances count whose
    price is of `price_kinds` (empty: all), and with `listed_on` only what is listed and not old on
    that day, disks too, and with `price_spread` only what is so sure, which the decision asks
    itself; with `fresh_on` only those whose price is not old then. `disk` without a size is sized
    for what it must hold; `disk_types` leaves these to choose among. `max_gpus` is how many GPUs of
    an instance are used at most (None: all of them). `vcpu_quota` holds pairs of an AWS quota code
    (as L-DB2E81BA) and the vCPUs of it that may still be used; what it does not name is not
    limited. `horizon_hours` is how long the spec is to be paid for: it decides whether a verifying
    trial pays, and never what is recommended.
    """

    confidence: float = 0.9
    cloud: str = "aws"
    region: str | None = "us-east-1"
    market: Market | None = Market.ON_DEMAND
    price_kinds: tuple[str, ...] = ()
    listed_on: date | None = None
    fresh_on: date | None = None
    price_spread: PriceSpread | None = None
    gpus: tuple[str, ...] = ()
    min_gpu_memory_mib: float | None = None
    max_gpu_memory_mib: float | None = None
    compute_capability: Range = ANY
    vcpus: Range = ANY
    memory_mib: Range = ANY
    max_usd_per_hour: float | None = None
    vcpu_quota: tuple[tuple[str, float], ...] = ()
    disk: DiskChoice | None = None
    disk_types: tuple[str, ...] = ()
    max_gpus: int | None = None
    horizon_hours: float = HOURS_PER_MONTH
    max_results: int = 10
    allow_extrapolation: bool = False

    def __post_init__(self) -> None:
        require_positive(
            min_gpu_memory_mib=self.min_gpu_memory_mib,
            max_gpu_memory_mib=self.max_gpu_memory_mib,
            max_usd_per_hour=self.max_usd_per_hour,
            max_gpus=self.max_gpus,
            horizon_hours=self.horizon_hours,
            max_results=self.max_results,
        )
        if not 0.5 <= self.confidence < 1:
            raise ValueError(f"confidence must lie in 0.5..1, not {self.confidence}")
        if self.disk is not None and self.disk_types:
            raise ValueError("disk fixes what disk_types leaves open: give one of them")
        if any(not (math.isfinite(vcpus) and vcpus >= 0) for _, vcpus in self.vcpu_quota):
            raise ValueError(f"vcpu_quota must be vCPUs of 0 or more, not {self.vcpu_quota}")
