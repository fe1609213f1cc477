"""The constraints that any request sets: how each is given up, and as little of it as it takes.

A constraint asks again and again: what it finds is true of the decision itself, not of a copy of
its rules. Giving up never loses an answer, so that a limit can be closed in on between what answers
and what does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec.structs import replace

from advisor.domain import Range
from advisor.engine.columns import Columns
from advisor.engine.limits import MOST_INSTANCES
from advisor.patience import SpentError
from advisor.questions.spec import SpecQuestion
from advisor.units import gpus_text, range_text, size_text

if TYPE_CHECKING:
    from advisor.engine.model import Floats

# Lets every price, latency and time pass, and still is a limit: without any, other work is done.
ENDLESS = 1e15
# A limit is told with so many digits, and found to one part in a thousand.
_DIGITS = 4
_CLOSE = 1e-3
_ROUNDS = 14
R = TypeVar("R", bound=SpecQuestion)
T = TypeVar("T", bound=Columns)
R_contra = TypeVar("R_contra", bound=SpecQuestion, contravariant=True)


class Asker(Protocol[R_contra, T]):
    """Answers changed requests."""

    def answers(self, request: R_contra) -> T | None:
        """Every spec that answers a request; None where none does. `SpentError` where no more may
        be looked at."""

    def needs(self, name: str, request: R_contra, table: T) -> Floats:
        """The value of a constraint with which each row just answers."""

    def capability_of(self, gpu_name: str | None) -> float | None:
        """CUDA compute capability of a GPU."""


class Constraint:
    """A field of a request and the option that sets it. `limiting`: it limits what is looked for; the
    place and the certainty always have some value. `loose` lets everything pass."""

    limiting = True
    loose: Any = None

    def __init__(self, name: str, option: str, field: str = "") -> None:
        self.name = name
        self.option = option
        self.field = field or name

    def get(self, request: SpecQuestion) -> Any:
        """Its value."""
        return getattr(request, self.field)

    def put(self, request: R, value: Any) -> R:
        """The request with another value."""
        return replace(request, **{self.field: value})

    def loosened(self, request: R) -> R:
        """The request without this constraint."""
        return self.put(request, self.loose)

    def least(self, request: R, asker: Asker[R, T]) -> Any | None:
        """The value nearest to the present one with which something answers; None where none
        does."""
        raise NotImplementedError

    def text(self, request: SpecQuestion) -> str | None:
        """What its option takes in a request, so that it can be typed; None where it is left out."""
        text_of = _OPTION_TEXTS.get(self.option)
        if text_of is not None:
            return text_of(request)
        value = self.get(request)
        return None if value is None else str(value)


def _gpus(request: SpecQuestion) -> str | None:
    memory = Range(request.min_gpu_memory_mib, request.max_gpu_memory_mib)
    return gpus_text(request.gpus, memory, request.compute_capability)


# Of options that several fields of a request stand behind.
_OPTION_TEXTS: dict[str, Callable[[SpecQuestion], str | None]] = {
    "--vcpus": lambda request: range_text(request.vcpus, "{:g}".format),
    "--memory": lambda request: range_text(request.memory_mib, size_text),
    "--gpu": _gpus,
    "--disk": lambda request: str(request.disk) if request.disk else ",".join(request.disk_types) or None,
    "--quota": lambda request: ",".join(f"{code}={vcpus:g}" for code, vcpus in request.vcpu_quota) or None,
}


class Limit(Constraint):
    """A number that a spec has to keep. `most`: it is an upper one, and grows. `exact`: whatever
    answers shows what it needs, so that nothing is left to be searched."""

    def __init__(
        self, name: str, option: str, field: str = "", *, most: bool = True, exact: bool = True
    ) -> None:
        super().__init__(name, option, field)
        self.most = most
        self.exact = exact

    def needs(self, request: R, table: T, asker: Asker[R, T]) -> Floats:
        """The limit with which each row just answers."""
        return asker.needs(self.name, request, table)

    def rounded(self, value: float) -> float:
        """The value, rounded for people."""
        return value

    def least(self, request: R, asker: Asker[R, T]) -> float | None:
        """Closes in on it."""
        good = self._needed(request, asker, self.loose)
        if good is None or self.exact:
            return good
        return self._closer(request, asker, good)

    def _needed(self, request: R, asker: Asker[R, T], value: Any) -> float | None:
        """The nearest limit that something keeps of what answers with a value."""
        table = asker.answers(self.put(request, value))
        if table is None:
            return None
        needed = self.needs(request, table, asker)
        # What lacks the fact (an accelerator without known memory) keeps no limit to it.
        needed = needed[needed > 0]
        if not len(needed):
            return None
        return self.rounded(float(needed.min() if self.most else needed.max()))

    def _closer(self, request: R, asker: Asker[R, T], good: float) -> float | None:
        """Between `good`, which should answer, and the present limit, which does not.

        What is told has been asked: where a limit cuts a search for disk orders short, it may end
        before the order that would keep the limit.
        """
        wider = (self.rounded(self._within(good, -_CLOSE * step)) for step in (0, 1, 3, 10, 30))
        limit = next((limit for limit in wider if self._answers(request, asker, limit)), None)
        if limit is None:
            return None
        with suppress(SpentError):  # what answers is told, where the nearest is not found
            return self._between(request, asker, limit)
        return limit

    def _between(self, request: R, asker: Asker[R, T], good: float) -> float:
        """The nearest to the present limit that answers, where `good` does."""
        bad = self.get(request)
        tried = self._within(good, _CLOSE)
        for _ in range(_ROUNDS):
            tried = self.rounded(tried)
            if not min(good, bad) < tried < max(good, bad):
                break
            needed = self._needed(request, asker, tried)
            if needed is None:
                bad = tried
            elif needed != tried and self._answers(request, asker, needed):
                good = needed
            else:
                good = tried
            if abs(good - bad) <= _CLOSE * good:
                break
            tried = (good + bad) / 2
        return good

    def _answers(self, request: R, asker: Asker[R, T], value: float) -> bool:
        return asker.answers(self.put(request, value)) is not None

    def _within(self, good: float, share: float) -> float:
        return good + share * good * (-1 if self.most else 1)


class Amount(Limit):
    """Samples, dollars or time."""

    def __init__(self, name: str, option: str, *, most: bool = True, exact: bool = False) -> None:
        super().__init__(name, option, most=most, exact=exact)
        self.loose = ENDLESS if most else 1 / ENDLESS

    def get(self, request: SpecQuestion) -> float:
        """Its value."""
        return float(super().get(request))

    def rounded(self, value: float) -> float:
        """Few digits, and never on the wrong side: the limit has to hold when it is typed."""
        return rounded_up(value) if self.most else rounded_down(value)

    def text(self, request: SpecQuestion) -> str:
        """What its option takes in a request."""
        return f"{self.get(request):.10g}"


class Whole(Amount):
    """Users, tokens of a sequence, or instances: counted, not measured."""

    def rounded(self, value: float) -> float:
        """A whole number that keeps the limit."""
        return float(math.ceil(value) if self.most else max(1, math.floor(value)))

    def put(self, request: R, value: Any) -> R:
        """The request with another value."""
        whole = math.ceil(min(value, MOST_INSTANCES) if self.most else max(value, 1))
        return super().put(request, whole)


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
