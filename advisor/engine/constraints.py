"""The constraints of a request, and the least change of each that lets some spec meet the request.

A constraint finds that change by having changed requests answered, so that it needs no copy of the engine's
rules. A looser constraint never loses an answer, so a limit can be bisected between a value with an answer
and one without."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import numpy as np
from msgspec.structs import replace

from advisor.catalog.prices import ECC_SHARE
from advisor.catalog.support import CLOUD, quota_code, quota_text
from advisor.domain import InstanceType, Market, Range
from advisor.domain.decision import RELAXING_STOPPED
from advisor.domain.money import term_hours
from advisor.engine.columns import Columns, Floats, cheapest
from advisor.engine.limits import MOST_INSTANCES
from advisor.errors import STILL_WANTED, SpentError
from advisor.messages import Message, gpus_text, range_text, size_text
from advisor.questions.spec import SpecQuestion

# Candidates. Most searches take a few thousand, one over all clouds and markets several hundred thousand.
_MOST_CANDIDATES = 140_000
_STOPPED = Message(
    "what to relax was not searched to its end: other or smaller changes may do too; a narrower "
    "cloud, market or region is searched whole",
    code=RELAXING_STOPPED,
)


class Effort:
    """The budget, in candidates, of a search for what to relax; void once no client waits any more."""

    def __init__(self, candidates: int = _MOST_CANDIDATES) -> None:
        self._left = candidates
        self.was_stopped = False

    def require(self) -> None:
        """Raise `SpentError` if the budget is spent, or no client waits any more."""
        if self._left <= 0 or not STILL_WANTED.get()():
            self.was_stopped = True
            raise SpentError

    def spend(self, candidates: int) -> None:
        """Subtract a number of candidates from the budget."""
        self._left -= candidates

    @property
    def notes(self) -> tuple[Message, ...]:
        """The note that the search ended early; empty if it did not."""
        is_whole = not self.was_stopped and STILL_WANTED.get()()
        return () if is_whole else (_STOPPED,)


# A limit that every price, latency and time keeps; without a limit, the answer would have another form.
ENDLESS = 1e15
# A limit is found to one part in a thousand (`_CLOSE`), and rounded to two digits, in half steps below 20.
_HALVES, _SAME = 20, 1e-9
_CLOSE = 1e-3
# A share of a limit that is larger than the distance of two rounded figures.
_A_FIGURE = 0.06
_ROUNDS = 14
R = TypeVar("R", bound=SpecQuestion)
T = TypeVar("T", bound=Columns)
R_contra = TypeVar("R_contra", bound=SpecQuestion, contravariant=True)


class Answerer(Protocol[R_contra, T]):
    """Answers changed requests for constraints, as `advisor.engine.relax.Relaxer` does."""

    def answers(self, request: R_contra) -> T | None: ...
    def needs(self, name: str, request: R_contra, table: T) -> Floats: ...
    def capability_of(self, gpu_name: str | None) -> float | None: ...


class Constraint:
    """A field of a request and the option that sets it. `loose` is the value that excludes nothing. Place,
    market and confidence are not `limiting`: a request always has some."""

    limiting = True
    loose: Any = None

    def __init__(self, name: str, option: str, field: str = "") -> None:
        self.name = name
        self.option = option
        self.field = field or name

    def get(self, request: SpecQuestion) -> Any:
        """The constraint's value in the request."""
        return getattr(request, self.field)

    def put(self, request: R, value: Any) -> R:
        """The request with another value."""
        return replace(request, **{self.field: value})

    def loosened(self, request: R) -> R:
        """The request without this constraint."""
        return self.put(request, self.loose)

    def least(self, request: R, answerer: Answerer[R, T]) -> Any | None:
        """The value nearest to the present one with which some spec answers; None if there is none."""
        raise NotImplementedError

    def text(self, request: SpecQuestion) -> str | None:
        """The value as a user types it after the option; None if the option is left out."""
        text_of = _OPTION_TEXTS.get(self.option)
        if text_of is not None:
            return text_of(request)
        value = self.get(request)
        return None if value is None else str(value)


def _gpu_option(request: SpecQuestion) -> str | None:
    memory = Range(request.min_gpu_memory_mib, request.max_gpu_memory_mib)
    return gpus_text(request.gpus, memory, request.compute_capability)


# The texts of options whose values come from several fields of a request.
_OPTION_TEXTS: dict[str, Callable[[SpecQuestion], str | None]] = {
    "--vcpus": lambda request: range_text(request.vcpus, "{:g}".format),
    "--memory": lambda request: range_text(request.memory_mib, size_text),
    "--gpu": _gpu_option,
    "--disk": lambda request: str(request.disk) if request.disk else ",".join(request.disk_types) or None,
    "--quota": lambda request: quota_text(request.vcpu_quota, request.market) or None,
}


class Limit(Constraint):
    """A limit on a number: an upper limit if `most`, else a lower one. If `exact`, the rows that answer
    without the limit show the least change, so that no search is needed."""

    def __init__(
        self, name: str, option: str, field: str = "", *, most: bool = True, exact: bool = True
    ) -> None:
        super().__init__(name, option, field)
        self.most = most
        self.exact = exact

    def needs(self, request: R, table: T, answerer: Answerer[R, T]) -> Floats:
        """The strictest limit that each row meets, (rows,)."""
        return answerer.needs(self.name, request, table)

    def rounded(self, value: float) -> float:
        """The value, rounded for people."""
        return value

    def least(self, request: R, answerer: Answerer[R, T]) -> float | None:
        """The nearest limit with which some spec answers; None if there is none."""
        good = self._needed(request, answerer, self.loose)
        if good is None or self.exact:
            return good
        return self._nearest_limit(request, answerer, good)

    def _needed(self, request: R, answerer: Answerer[R, T], value: Any) -> float | None:
        """The strictest limit met by a row that answers under the limit `value`; None if there is none."""
        table = answerer.answers(self.put(request, value))
        if table is None:
            return None
        needed = self.needs(request, table, answerer)
        # A row without the fact (a GPU without known memory) meets no limit on this fact.
        needed = needed[needed > 0]
        if not len(needed):
            return None
        return self.rounded(float(needed.min() if self.most else needed.max()))

    def _nearest_limit(self, request: R, answerer: Answerer[R, T], good: float) -> float | None:
        """The limit nearest to the present one that answers, starting from `good`, which should answer. The
        result is checked by a request, because under a limit the search for disk orders may end before the
        order that meets it. None if no such limit is found."""
        wider = (self.rounded(self._tighter(good, -_CLOSE * step)) for step in (0, 1, 3, 10, 30))
        limit = next((limit for limit in wider if self._answers(request, answerer, limit)), None)
        if limit is None:
            return None
        with suppress(SpentError):  # without budget for the nearest limit, one that answers is returned
            return self._bisected(request, answerer, limit)
        return limit

    def _bisected(self, request: R, answerer: Answerer[R, T], good: float) -> float:
        """The limit that answers nearest to the present one, starting from `good`, which answers."""
        bad = self.get(request)
        tried = self._tighter(good, _A_FIGURE)
        for _ in range(_ROUNDS):
            tried = self.rounded(tried)
            if not min(good, bad) < tried < max(good, bad):
                break
            needed = self._needed(request, answerer, tried)
            if needed is None:
                bad = tried
            elif needed != tried and self._answers(request, answerer, needed):
                good = needed
            else:
                good = tried
            if abs(good - bad) <= _CLOSE * good:
                break
            tried = (good + bad) / 2
        return good

    def _answers(self, request: R, answerer: Answerer[R, T], value: float) -> bool:
        return answerer.answers(self.put(request, value)) is not None

    def _tighter(self, good: float, share: float) -> float:
        return good + share * good * (-1 if self.most else 1)


class Amount(Limit):
    """A limit on samples per second, dollars or time."""

    def __init__(self, name: str, option: str, *, most: bool = True, exact: bool = False) -> None:
        super().__init__(name, option, most=most, exact=exact)
        self.loose = ENDLESS if most else 1 / ENDLESS

    def get(self, request: SpecQuestion) -> float:
        return float(super().get(request))

    def rounded(self, value: float) -> float:
        """The value in few digits, rounded to the looser side, so that a spec meets the limit as typed."""
        return _rounded(value, up=self.most)

    def text(self, request: SpecQuestion) -> str:
        return f"{self.get(request):.10g}"


class Whole(Amount):
    """A limit on a count: users, tokens of a sequence, or instances."""

    def rounded(self, value: float) -> float:
        """The value as a whole number, rounded to the looser side."""
        return float(math.ceil(value) if self.most else max(1, math.floor(value)))

    def put(self, request: R, value: Any) -> R:
        whole = math.ceil(min(value, MOST_INSTANCES) if self.most else max(value, 1))
        return super().put(request, whole)


def _rounded(value: float, *, up: bool) -> float:
    """The value `up` or down to a figure that people type: two digits, with half steps below 20."""
    if not 0 < value < math.inf:
        return value
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    step *= 1 if value >= _HALVES * step else 0.5
    # A value that is such a figure already stays, whatever its last bits.
    whole = math.ceil(value / step - _SAME) if up else math.floor(value / step + _SAME)
    return float(f"{whole * step:.4g}")


_GIB = 1024
_LEAST_PERCENT = 50


class HardwareEnd(Limit):
    """One end of a range of the machine's vCPUs, RAM or compute capability."""

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

    def needs(self, request: R, table: T, answerer: Answerer[R, T]) -> Floats:

        def fact(instance: InstanceType) -> float:
            if self.field == "compute_capability":
                return answerer.capability_of(instance.gpu_name) or 0.0
            return float(getattr(instance, self.field))

        facts = [fact(offer.instance) for offer in table.offers()]
        return np.asarray(np.array(facts)[table.option])


class GpuMemory(Limit):
    """A limit on the memory of a GPU, in whole GiB, as cards are sold."""

    def rounded(self, value: float) -> float:
        gib = math.ceil(value / _GIB) if self.most else math.floor(value / ECC_SHARE / _GIB)
        return float(gib * _GIB or value)

    def needs(self, request: R, table: T, answerer: Answerer[R, T]) -> Floats:
        memory = [float(offer.instance.gpu_memory_mib or 0) for offer in table.offers()]
        return np.asarray(np.array(memory)[table.option])


class Quota(Limit):
    """A quota of vCPUs on AWS, by its code."""

    def __init__(self, code: str) -> None:
        super().__init__("vcpu_quota", "--quota")
        self.code = code

    def get(self, request: SpecQuestion) -> float:
        return float(dict(request.vcpu_quota)[self.code])

    def put(self, request: R, value: float | None) -> R:
        left = {**dict(request.vcpu_quota), self.code: value}
        return replace(request, vcpu_quota=tuple((k, v) for k, v in left.items() if v is not None))

    def needs(self, request: R, table: T, answerer: Answerer[R, T]) -> Floats:
        vcpus = [
            float(offer.instance.vcpus)
            if offer.instance.cloud == CLOUD and quota_code(offer.instance.name, offer.market) == self.code
            else math.inf
            for offer in table.offers()
        ]
        return np.asarray(table.count * np.array(vcpus)[table.option])


class Choice(Constraint):
    """A choice of GPUs, disk, batch size or region; relaxed to what the cheapest spec without it has."""

    def __init__(self, name: str, option: str, loose: Any, *, limiting: bool = True) -> None:
        super().__init__(name, option)
        self.loose, self.limiting = loose, limiting

    def least(self, request: R, answerer: Answerer[R, T]) -> Any | None:
        table = answerer.answers(self.loosened(request))
        if table is not None and self.name == "gpus":
            has = [offer.instance.gpu_name is not None for offer in table.offers()]
            table = table.take(np.array(has)[table.option])
        if table is None or not len(table):
            return None
        nearest = self._value_in(request, answerer, table, cheapest(table))
        if self.name == "batch_size":  # the largest doubling of it that answers
            while 2 * nearest < self.get(request) and answerer.answers(self.put(request, 2 * nearest)):
                nearest *= 2
        return nearest

    def _value_in(self, request: R, answerer: Answerer[R, T], table: T, row: int) -> Any:
        if self.name == "gpus":
            return (*request.gpus, str(table.offer(row).instance.gpu_name))
        if self.name == "disk":
            return table.disk[row].choice
        if self.name == "disk_types":
            return (*request.disk_types, table.disk[row].rate.type)
        if self.name == "region":
            return table.offer(row).region
        return int(answerer.needs(self.name, request, table)[row])


class OtherMarket(Constraint):
    """The market; relaxed to the one with the cheapest answer, but to no commitment for work that ends. From
    a commitment it is relaxed to on-demand where that answers, since spot instances are taken back."""

    limiting = False

    def least(self, request: R, answerer: Answerer[R, T]) -> Market | None:
        usd = {}
        for market in Market:
            if market is not request.market and not (request.ends and term_hours(market)):
                table = answerer.answers(self.put(request, market))
                if table is not None:
                    usd[market] = float(table.usd[cheapest(table)])
        if request.market is not Market.SPOT and Market.ON_DEMAND in usd:
            return Market.ON_DEMAND
        return min(usd, key=lambda market: usd[market], default=None)


class Confidence(Constraint):
    """The confidence in whole percent, searched by halving down to the least that a request may have."""

    limiting = False
    loose = _LEAST_PERCENT / 100

    def least(self, request: R, answerer: Answerer[R, T]) -> float | None:
        good, bad = _LEAST_PERCENT, math.ceil(100 * request.confidence)
        if good >= bad or answerer.answers(self.put(request, good / 100)) is None:
            return None
        while bad - good > 1:
            middle = (good + bad) // 2
            if answerer.answers(self.put(request, middle / 100)) is not None:
                good = middle
            else:
                bad = middle
        return good / 100

    def put(self, request: R, value: float) -> R:
        return replace(request, confidence=value, required_confidence=value)

    def text(self, request: SpecQuestion) -> str:
        return f"{request.confidence:g}"


def constraints_of(
    request: SpecQuestion, amounts: Iterable[Constraint], *choices: Constraint
) -> Iterator[Constraint]:
    """Yield the constraints that a request sets: of the given `amounts` and `choices`, and of those that all
    tasks share."""
    yield from (amount for amount in amounts if getattr(request, amount.name) is not None)
    yield from _hardware_constraints(request)
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
    if request.market is not None:
        yield OtherMarket("market", "--market")
    if request.is_sure:
        yield Confidence("confidence", "--confidence")


def _hardware_constraints(request: SpecQuestion) -> Iterator[Constraint]:
    """Yield the constraints on the machine that a request sets; each end of a range is one."""
    for field, option in (("vcpus", "--vcpus"), ("memory_mib", "--memory"), ("compute_capability", "--gpu")):
        for side in ("least", "most"):
            if getattr(getattr(request, field), side) is not None:
                yield HardwareEnd(field, option, side)
    for name, most in (("min_gpu_memory_mib", False), ("max_gpu_memory_mib", True)):
        if getattr(request, name) is not None:
            yield GpuMemory(name, "--gpu", most=most)
