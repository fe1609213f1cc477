"""The constraints that any request sets: how each is given up, and as little of it as it takes.

A constraint asks again and again: what it finds is true of the decision itself, not of a copy of
its rules. Giving up never loses an answer, so that a limit can be closed in on between what answers
and what does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from advisor.catalog.matching import ECC_SHARE
from advisor.catalog.support import CLOUD, quota_code
from advisor.domain import InstanceType, Market, Offer, Range
from advisor.records import replace
from advisor.units import gpus_text, range_text, size_text

if TYPE_CHECKING:
    from advisor.engine.model import Floats, Integers

# A `Request`, or another one with the same fields of place, hardware, disk and quota.
AnyRequest = Any

# Lets every price, latency and time pass, and still is a limit: without any, other work is done.
_ENDLESS = 1e15
_GIB = 1024
_LEAST_PERCENT = 50
# A limit is told with so many digits, and found to one part in a thousand.
_DIGITS = 4
_CLOSE = 1e-3
_ROUNDS = 14


class Rows(Protocol):
    """Specs that answer a request, as columns."""

    names: Any
    kind: Integers
    option: Integers
    count: Integers
    disk: Any

    @property
    def usd(self) -> Floats:
        """All instances and disks, an hour."""

    def offers(self) -> Sequence[Offer]:
        """What `option` numbers."""

    def offer(self, at: int) -> Offer:
        """A row's offer."""

    def take(self, rows: Any) -> Rows:
        """Some of the rows."""

    def __len__(self) -> int: ...


class Asking(Protocol):
    """Who answers changed requests."""

    def answers(self, request: AnyRequest) -> Any | None:
        """Every spec that answers a request, as `Rows`; None where none does."""

    def capability_of(self, gpu_name: str | None) -> float | None:
        """CUDA compute capability of a GPU."""


class Answers(NamedTuple):
    """Rows that answer a request, and who told so."""

    request: AnyRequest
    table: Any  # `Rows`, with the columns of the request's kind
    asking: Asking


class Constraint:
    """A field of a request and the option that sets it. `asked`: it limits what is looked for; the
    place and the certainty always have some value. `loose` lets everything pass."""

    asked = True
    loose: Any = None

    def __init__(self, name: str, option: str, field: str = "") -> None:
        self.name = name
        self.option = option
        self.field = field or name

    def get(self, request: AnyRequest) -> Any:
        """Its value."""
        return getattr(request, self.field)

    def put(self, request: AnyRequest, value: Any) -> AnyRequest:
        """The request with another value."""
        return replace(request, **{self.field: value})

    def loosened(self, request: AnyRequest) -> AnyRequest:
        """The request without this constraint."""
        return self.put(request, self.loose)

    def least(self, request: AnyRequest, asking: Asking) -> Any | None:
        """The value nearest to the present one with which something answers; None where none
        does."""
        raise NotImplementedError

    def text(self, request: AnyRequest) -> str | None:
        """What its option takes in a request; None where it is left out."""
        return option_text(self.option, request)


class Limit(Constraint):
    """A number that a spec has to keep. `most`: it is an upper one, and grows. `exact`: whatever
    answers shows what it needs, so that nothing is left to be searched."""

    def __init__(
        self, name: str, option: str, field: str = "", *, most: bool = True, exact: bool = True
    ) -> None:
        super().__init__(name, option, field)
        self.most = most
        self.exact = exact

    def needs(self, found: Answers) -> Floats:
        """The limit with which each row just answers."""
        raise NotImplementedError

    def rounded(self, value: float) -> float:
        """As it is told."""
        return value

    def least(self, request: AnyRequest, asking: Asking) -> float | None:
        """Closes in on it."""
        good = self._needed(request, asking, self.loose)
        if good is None or self.exact:
            return good
        return self._closer(request, asking, good)

    def _needed(self, request: AnyRequest, asking: Asking, value: Any) -> float | None:
        """The nearest limit that something keeps of what answers with a value."""
        found = asking.answers(self.put(request, value))
        if found is None:
            return None
        needed = self.needs(Answers(request, found, asking))
        # What lacks the fact (an accelerator without known memory) keeps no limit to it.
        needed = needed[needed > 0]
        if not len(needed):
            return None
        return self.rounded(float(needed.min() if self.most else needed.max()))

    def _closer(self, request: AnyRequest, asking: Asking, good: float) -> float | None:
        """Between `good`, which should answer, and the present limit, which does not.

        What is told has been asked: where a limit cuts a search for disk orders short, it may end
        before the order that would keep the limit.
        """
        wider = (self.rounded(self._within(good, -_CLOSE * step)) for step in (0, 1, 3, 10, 30))
        asked = next((one for one in wider if self._answers(request, asking, one)), None)
        if asked is None:
            return None
        good, bad = asked, self.get(request)
        tried = self._within(good, _CLOSE)
        for _ in range(_ROUNDS):
            tried = self.rounded(tried)
            if not min(good, bad) < tried < max(good, bad):
                break
            needed = self._needed(request, asking, tried)
            if needed is None:
                bad = tried
            elif needed != tried and self._answers(request, asking, needed):
                good = needed
            else:
                good = tried
            if abs(good - bad) <= _CLOSE * good:
                break
            tried = (good + bad) / 2
        return good

    def _answers(self, request: AnyRequest, asking: Asking, value: float) -> bool:
        return asking.answers(self.put(request, value)) is not None

    def _within(self, good: float, share: float) -> float:
        return good + share * good * (-1 if self.most else 1)


class Amount(Limit):
    """Samples, dollars or time."""

    def __init__(self, name: str, option: str, *, most: bool = True, exact: bool = False) -> None:
        super().__init__(name, option, most=most, exact=exact)
        self.loose = _ENDLESS if most else 1 / _ENDLESS

    def get(self, request: AnyRequest) -> float:
        """Its value."""
        return float(super().get(request))

    def rounded(self, value: float) -> float:
        """Few digits, and never on the wrong side: the limit has to hold when it is typed."""
        return rounded_up(value) if self.most else rounded_down(value)

    def text(self, request: AnyRequest) -> str:
        """What its option takes in a request."""
        return f"{self.get(request):.10g}"


class HardwareEnd(Limit):
    """One end of a range of what the machine has."""

    def __init__(self, field: str, option: str, side: str) -> None:
        name = f"{'max' if side == 'most' else 'min'}_{field}"
        super().__init__(name, option, field, most=side == "most")
        self.side = side

    def get(self, request: AnyRequest) -> float:
        """Its value."""
        return float(getattr(getattr(request, self.field), self.side))

    def put(self, request: AnyRequest, value: float | None) -> AnyRequest:
        """The request with another value; None leaves it out."""
        limits: Range = getattr(request, self.field)
        changed: dict[str, Any] = {self.field: replace(limits, **{self.side: value})}
        return replace(request, **changed)

    def needs(self, found: Answers) -> Floats:
        """The limit with which each row just answers."""

        def fact(instance: InstanceType) -> float:
            if self.field == "compute_capability":
                return found.asking.capability_of(instance.gpu_name) or 0.0
            return float(getattr(instance, self.field))

        facts = [fact(offer.instance) for offer in found.table.offers()]
        return _of_instances(found.table, facts)


class GpuMemory(Limit):
    """Memory of a GPU, in whole GiB, as cards are sold."""

    def rounded(self, value: float) -> float:
        """As it is sold."""
        gib = math.ceil(value / _GIB) if self.most else math.floor(value / ECC_SHARE / _GIB)
        return float(gib * _GIB or value)

    def needs(self, found: Answers) -> Floats:
        """The limit with which each row just answers."""
        instances = [offer.instance for offer in found.table.offers()]
        return _of_instances(found.table, [float(one.gpu_memory_mib or 0) for one in instances])


class Quota(Limit):
    """The fewest vCPUs of a quota that an answer takes."""

    def __init__(self, code: str) -> None:
        super().__init__("vcpu_quota", "--quota")
        self.code = code

    def get(self, request: AnyRequest) -> float:
        """Its value."""
        return float(dict(request.vcpu_quota)[self.code])

    def put(self, request: AnyRequest, value: float | None) -> AnyRequest:
        """The request with another value; None leaves it out."""
        left = {**dict(request.vcpu_quota), self.code: value}
        return replace(request, vcpu_quota=tuple((k, v) for k, v in left.items() if v is not None))

    def needs(self, found: Answers) -> Floats:
        """The limit with which each row just answers."""
        vcpus = [
            float(offer.instance.vcpus)
            if offer.instance.cloud == CLOUD
            and quota_code(offer.instance.name, offer.market) == self.code
            else math.inf
            for offer in found.table.offers()
        ]
        return np.asarray(found.table.count * _of_instances(found.table, vcpus))


class Choice(Constraint):
    """GPUs by name, the disk, the batch size, the region: what the cheapest spec without it has."""

    def __init__(self, name: str, option: str, loose: Any, *, asked: bool = True) -> None:
        super().__init__(name, option)
        self.loose, self.asked = loose, asked

    def least(self, request: AnyRequest, asking: Asking) -> Any | None:
        """The nearest one with which something answers."""
        found = asking.answers(self.loosened(request))
        if found is not None and self.name == "gpus":
            has = [offer.instance.gpu_name is not None for offer in found.offers()]
            found = found.take(np.array(has)[found.option])
        return (
            None if found is None or not len(found) else self._of(request, found, cheapest(found))
        )

    def _of(self, request: AnyRequest, table: Any, at: int) -> Any:
        if self.name == "gpus":
            return (*request.gpus, str(table.offer(at).instance.gpu_name))
        if self.name == "disk":
            return table.disk[at].choice
        if self.name == "disk_types":
            return (*request.disk_types, table.disk[at].rate.type)
        if self.name == "region":
            return table.offer(at).region
        return int(getattr(table, _COLUMNS[self.name])[at])


# Of a table, by what is chosen there.
_COLUMNS = {"batch_size": "batch", "tensor_parallel": "tensor_parallel"}


class OtherMarket(Constraint):
    """The market where the cheapest is cheaper than on the others; for who asks for a commitment
    the one on demand, where there is one: spot instances are taken back."""

    asked = False

    def least(self, request: AnyRequest, asking: Asking) -> Market | None:
        """The nearest one with which something answers."""
        usd = {}
        for market in Market:
            if market is not request.market:
                table = asking.answers(self.put(request, market))
                if table is not None:
                    usd[market] = float(table.usd[cheapest(table)])
        if request.market is not Market.SPOT and Market.ON_DEMAND in usd:
            return Market.ON_DEMAND
        return min(usd, key=lambda market: usd[market], default=None)


class Confidence(Constraint):
    """In whole percent, halving the way down to the least that may be asked."""

    asked = False
    loose = _LEAST_PERCENT / 100

    def least(self, request: AnyRequest, asking: Asking) -> float | None:
        """The nearest one with which something answers."""
        good, bad = _LEAST_PERCENT, math.ceil(100 * request.confidence)
        if good >= bad or asking.answers(self.put(request, good / 100)) is None:
            return None
        while bad - good > 1:
            middle = (good + bad) // 2
            if asking.answers(self.put(request, middle / 100)) is not None:
                good = middle
            else:
                bad = middle
        return good / 100

    def text(self, request: AnyRequest) -> str:
        """What its option takes in a request."""
        return f"{request.confidence:g}"


def of_place(request: AnyRequest, *choices: Constraint) -> Iterator[Constraint]:
    """Constraints of hardware, disk and quota that are set, `choices` that are, and the place,
    market and confidence, which always are."""
    yield from _of_hardware(request)
    named = (
        Choice("gpus", "--gpu", ()),
        Choice("disk", "--disk", None),
        Choice("disk_types", "--disk", ()),
        *choices,
    )
    yield from (one for one in named if getattr(request, one.name) != one.loose)
    yield from (Quota(code) for code, _ in request.vcpu_quota)
    if request.region is not None:
        yield Choice("region", "--region", None, asked=False)
    yield OtherMarket("market", "--market")
    yield Confidence("confidence", "--confidence")


def _of_hardware(request: AnyRequest) -> Iterator[Constraint]:
    """What the machine has; each end of a range is a constraint of its own."""
    for field, option in (
        ("vcpus", "--vcpus"), ("memory_mib", "--memory"), ("compute_capability", "--gpu"),
    ):  # fmt: skip
        for side in ("least", "most"):
            if getattr(getattr(request, field), side) is not None:
                yield HardwareEnd(field, option, side)
    for name, most in (("min_gpu_memory_mib", False), ("max_gpu_memory_mib", True)):
        if getattr(request, name) is not None:
            yield GpuMemory(name, "--gpu", most=most)


def cheapest(table: Rows) -> int:
    """The row with the least total price; ties by name."""
    usd = table.usd
    rows = np.flatnonzero(usd == usd.min())
    return int(min(rows, key=lambda at: (table.names[table.kind[at]], at)))


def option_text(option: str, request: AnyRequest) -> str | None:
    """What an option takes in a request, so that what is told can be typed; None where it is left
    out."""
    if option == "--vcpus":
        return range_text(request.vcpus, "{:g}".format)
    if option == "--memory":
        return range_text(request.memory_mib, size_text)
    if option == "--gpu":
        memory = Range(request.min_gpu_memory_mib, request.max_gpu_memory_mib)
        return gpus_text(request.gpus, memory, request.compute_capability)
    if option == "--disk":
        return str(request.disk) if request.disk else ",".join(request.disk_types) or None
    if option == "--quota":
        return ",".join(f"{code}={vcpus:g}" for code, vcpus in request.vcpu_quota) or None
    if option == "--batch-size":
        return str(request.batch_size)
    if option == "--tensor-parallel":
        return str(request.tensor_parallel or "auto")
    return request.region if option == "--region" else str(request.market)


def _of_instances(table: Rows, facts: list[float]) -> Floats:
    return np.array(facts)[table.option]


def rounded_up(value: float) -> float:
    """Few digits, and never below."""
    return _rounded(value, up=True)


def rounded_down(value: float) -> float:
    """Few digits, and never above."""
    return _rounded(value, up=False)


def _rounded(value: float, *, up: bool) -> float:
    if not 0 < value < math.inf:
        return value
    step = 10.0 ** (math.floor(math.log10(value)) - _DIGITS + 1)
    whole = math.ceil(value / step) if up else math.floor(value / step)
    near = float(f"{whole * step:.{_DIGITS + 2}g}")
    if near < value if up else near > value:
        whole += 1 if up else -1
        near = float(f"{whole * step:.{_DIGITS + 2}g}")
    return near
