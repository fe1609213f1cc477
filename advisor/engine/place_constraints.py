"""The constraints of place, hardware, disk and quota, which every request has."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from advisor.catalog.match import ECC_SHARE
from advisor.catalog.support import CLOUD, quota_code
from advisor.domain import InstanceType, Market, Range
from advisor.engine.columns import Columns, cheapest
from advisor.engine.constraints import Asker, Constraint, Limit, R, T
from advisor.questions.spec import SpecQuestion

if TYPE_CHECKING:
    from advisor.engine.model import Floats

_ANY_CLOUD = "any"
_GIB = 1024
_LEAST_PERCENT = 50


class HardwareEnd(Limit):
    """One end of a range of what the machine has."""

    def __init__(self, field: str, option: str, side: str) -> None:
        name = f"{'max' if side == 'most' else 'min'}_{field}"
        super().__init__(name, option, field, most=side == "most")
        self.side = side

    def get(self, request: SpecQuestion) -> float:
        return float(getattr(getattr(request, self.field), self.side))

    def put(self, request: R, value: float | None) -> R:
        limits: Range = getattr(request, self.field)
        changed: dict[str, Any] = {self.field: replace(limits, **{self.side: value})}
        return replace(request, **changed)

    def needs(self, request: R, table: T, asker: Asker[R, T]) -> Floats:

        def fact(instance: InstanceType) -> float:
            if self.field == "compute_capability":
                return asker.capability_of(instance.gpu_name) or 0.0
            return float(getattr(instance, self.field))

        facts = [fact(offer.instance) for offer in table.offers()]
        return _of_instances(table, facts)


class GpuMemory(Limit):
    """Memory of a GPU, in whole GiB, as cards are sold."""

    def rounded(self, value: float) -> float:
        gib = math.ceil(value / _GIB) if self.most else math.floor(value / ECC_SHARE / _GIB)
        return float(gib * _GIB or value)

    def needs(self, request: R, table: T, asker: Asker[R, T]) -> Floats:
        instances = [offer.instance for offer in table.offers()]
        return _of_instances(table, [float(instance.gpu_memory_mib or 0) for instance in instances])


class Quota(Limit):
    """The fewest vCPUs of a quota that an answer takes."""

    def __init__(self, code: str) -> None:
        super().__init__("vcpu_quota", "--quota")
        self.code = code

    def get(self, request: SpecQuestion) -> float:
        return float(dict(request.vcpu_quota)[self.code])

    def put(self, request: R, value: float | None) -> R:
        left = {**dict(request.vcpu_quota), self.code: value}
        return replace(request, vcpu_quota=tuple((k, v) for k, v in left.items() if v is not None))

    def needs(self, request: R, table: T, asker: Asker[R, T]) -> Floats:
        vcpus = [
            float(offer.instance.vcpus)
            if offer.instance.cloud == CLOUD and quota_code(offer.instance.name, offer.market) == self.code
            else math.inf
            for offer in table.offers()
        ]
        return np.asarray(table.count * _of_instances(table, vcpus))


class Choice(Constraint):
    """GPUs by name, the disk, the batch size, the region: what the cheapest spec without it has."""

    def __init__(self, name: str, option: str, loose: Any, *, limiting: bool = True) -> None:
        super().__init__(name, option)
        self.loose, self.limiting = loose, limiting

    def least(self, request: R, asker: Asker[R, T]) -> Any | None:
        table = asker.answers(self.loosened(request))
        if table is not None and self.name == "gpus":
            has = [offer.instance.gpu_name is not None for offer in table.offers()]
            table = table.take(np.array(has)[table.option])
        if table is None or not len(table):
            return None
        nearest = self._of(request, asker, table, cheapest(table))
        return self._doubled(request, asker, nearest) if self.name == "batch_size" else nearest

    def _doubled(self, request: R, asker: Asker[R, T], batch: int) -> int:
        """The largest doubling of a batch that answers, below the one that was asked for."""
        while 2 * batch < self.get(request) and asker.answers(self.put(request, 2 * batch)):
            batch *= 2
        return batch

    def _of(self, request: R, asker: Asker[R, T], table: T, row: int) -> Any:
        if self.name == "gpus":
            return (*request.gpus, str(table.offer(row).instance.gpu_name))
        if self.name == "disk":
            return table.disk[row].choice
        if self.name == "disk_types":
            return (*request.disk_types, table.disk[row].rate.type)
        if self.name == "region":
            return table.offer(row).region
        return int(asker.needs(self.name, request, table)[row])


class OtherMarket(Constraint):
    """The market where the cheapest is cheaper than on the others; for who asks for a commitment
    the one on demand, where there is one: spot instances are taken back."""

    limiting = False

    def least(self, request: R, asker: Asker[R, T]) -> Market | None:
        usd = {}
        for market in Market:
            if market is not request.market:
                table = asker.answers(self.put(request, market))
                if table is not None:
                    usd[market] = float(table.usd[cheapest(table)])
        if request.market is not Market.SPOT and Market.ON_DEMAND in usd:
            return Market.ON_DEMAND
        return min(usd, key=lambda market: usd[market], default=None)


class OtherCloud(Constraint):
    """Every cloud, in all regions, for the GPUs that were asked for."""

    limiting = False

    def put(self, request: R, value: Any) -> R:
        return replace(request, cloud=value, region=None)

    def least(self, request: R, asker: Asker[R, T]) -> str | None:
        return _ANY_CLOUD if asker.answers(self.put(request, _ANY_CLOUD)) is not None else None


class Confidence(Constraint):
    """In whole percent, halving the way down to the least that may be asked."""

    limiting = False
    loose = _LEAST_PERCENT / 100

    def least(self, request: R, asker: Asker[R, T]) -> float | None:
        good, bad = _LEAST_PERCENT, math.ceil(100 * request.confidence)
        if good >= bad or asker.answers(self.put(request, good / 100)) is None:
            return None
        while bad - good > 1:
            middle = (good + bad) // 2
            if asker.answers(self.put(request, middle / 100)) is not None:
                good = middle
            else:
                bad = middle
        return good / 100

    def put(self, request: R, value: float) -> R:
        return replace(request, confidence=value, required_confidence=value)

    def text(self, request: SpecQuestion) -> str:
        return f"{request.confidence:g}"


def of_place(request: SpecQuestion, *choices: Constraint) -> Iterator[Constraint]:
    """Constraints of hardware, disk and quota that are set, `choices` that are, and the place,
    market and confidence, which always are."""
    yield from _of_hardware(request)
    named = (
        Choice("gpus", "--gpu", ()),
        Choice("disk", "--disk", None),
        Choice("disk_types", "--disk", ()),
        *choices,
    )
    yield from (choice for choice in named if getattr(request, choice.name) != choice.loose)
    yield from (Quota(code) for code, _ in request.vcpu_quota)
    if request.region is not None:
        yield Choice("region", "--region", None, limiting=False)
    if request.gpus and request.cloud != _ANY_CLOUD:
        yield OtherCloud("cloud", "--cloud")
    if request.market is not None:
        yield OtherMarket("market", "--market")
    if request.is_sure:
        yield Confidence("confidence", "--confidence")


def _of_hardware(request: SpecQuestion) -> Iterator[Constraint]:
    """What the machine has; each end of a range is a constraint of its own."""
    for field, option in (("vcpus", "--vcpus"), ("memory_mib", "--memory"), ("compute_capability", "--gpu")):
        for side in ("least", "most"):
            if getattr(getattr(request, field), side) is not None:
                yield HardwareEnd(field, option, side)
    for name, most in (("min_gpu_memory_mib", False), ("max_gpu_memory_mib", True)):
        if getattr(request, name) is not None:
            yield GpuMemory(name, "--gpu", most=most)


def _of_instances(table: Columns, facts: list[float]) -> Floats:
    return np.array(facts)[table.option]
