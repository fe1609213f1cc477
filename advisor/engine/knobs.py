"""Each constraint of a request as a knob: how it is loosened wholly, and as little as it takes.

A knob asks again and again: what it finds is true of the decision itself, not of a copy of its
rules. Loosening never loses an answer, so that a limit can be closed in on between what answers
and what does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from advisor.domain import Candidate, Request
from advisor.records import dataclass, replace

# Every spec and batch that answers a request.
Ask = Callable[[Request], Sequence[Candidate]]

# A limit is told with so many digits, and found to one part in a thousand.
DIGITS = 4
_CLOSE = 1e-3
_ROUNDS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One constraint that is set. `least` is the value nearest to the present one with which
    something answers, None where none does; `typed` is the option's text in a request.

    `asked`: it limits what is looked for; the place and the certainty always have some value.
    """

    constraint: str
    option: str
    get: Callable[[Request], Any]
    put: Callable[[Request, Any], Request]
    free: Any
    least: Callable[[Request, Ask], Any | None]
    typed: Callable[[Request], str | None]
    asked: bool = True

    def loosened(self, request: Request) -> Request:
        """The request without this constraint."""
        return self.put(request, self.free)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How a limit is closed in on. `needs` is the limit with which a candidate just answers.

    `most`: it is an upper one, and grows. `exact`: whatever answers shows what it needs, so that
    nothing is left to be searched. `loose` lets everything pass.
    """

    get: Callable[[Request], float]
    put: Callable[[Request, float | None], Request]
    needs: Callable[[Candidate], float]
    loose: float | None
    most: bool
    exact: bool
    rounded: Callable[[float], float]

    def least(self, request: Request, ask: Ask) -> float | None:
        """The limit nearest to the present one with which something answers."""
        # What lacks the fact (an accelerator without known memory) keeps no limit to it.
        found = [one for one in ask(self.put(request, self.loose)) if self.needs(one) > 0]
        if not found:
            return None
        good = self._of(found)
        return good if self.exact else self._closer(request, ask, good)

    def _closer(self, request: Request, ask: Ask, good: float) -> float | None:
        """Between `good`, which should answer, and the present limit, which does not.

        What is told has been asked: where a limit cuts a search for disk orders short, it may end
        before the order that would keep the limit.
        """
        asked = self._asked_wider(request, ask, good)
        if asked is None:
            return None
        good, bad = asked, self.get(request)
        tried = self._within(good, _CLOSE)
        for _ in range(_ROUNDS):
            tried = self.rounded(tried)
            if not min(good, bad) < tried < max(good, bad):
                break
            found = ask(self.put(request, tried))
            if not found:
                bad = tried
            elif (needed := self._of(found)) != tried and ask(self.put(request, needed)):
                good = needed
            else:
                good = tried
            if abs(good - bad) <= _CLOSE * good:
                break
            tried = (good + bad) / 2
        return good

    def _asked_wider(self, request: Request, ask: Ask, good: float) -> float | None:
        """The limit itself where something answers with it, else one that is a little wider."""
        wider = (self.rounded(self._within(good, -_CLOSE * step)) for step in (0, 1, 3, 10, 30))
        return next((one for one in wider if ask(self.put(request, one))), None)

    def _within(self, good: float, share: float) -> float:
        return good + share * good * (-1 if self.most else 1)

    def _of(self, found: Iterable[Candidate]) -> float:
        needed = (self.needs(one) for one in found)
        return self.rounded(min(needed) if self.most else max(needed))


def rounded_up(value: float) -> float:
    """Few digits, and never below: the limit has to hold when it is typed."""
    return _rounded(value, math.ceil)


def rounded_down(value: float) -> float:
    """Few digits, and never above."""
    return _rounded(value, math.floor)


def _rounded(value: float, towards: Callable[[float], int]) -> float:
    if not 0 < value < math.inf:
        return value
    step = 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1)
    whole = towards(value / step)
    near = float(f"{whole * step:.{DIGITS + 2}g}")
    if near < value if towards is math.ceil else near > value:
        whole += 1 if towards is math.ceil else -1
        near = float(f"{whole * step:.{DIGITS + 2}g}")
    return near


def limit_knob(
    constraint: str, option: str, limit: Limit, typed: Callable[[Request], str | None]
) -> Knob:
    """A knob that closes in on a number."""
    return Knob(
        constraint=constraint,
        option=option,
        get=limit.get,
        put=limit.put,
        free=limit.loose,
        least=limit.least,
        typed=typed,
    )


def choice_knob(
    constraint: str,
    option: str,
    field: str,
    free: Any,
    pick: Callable[[Request, Candidate], Any],
    typed: Callable[[Request], str | None],
    *,
    asked: bool = True,
    has: Callable[[Candidate], bool] = lambda _: True,
) -> Knob:
    """A knob that takes what the cheapest spec has that answers without the constraint, of those
    that have such a thing at all."""

    def put(request: Request, value: Any) -> Request:
        return replace(request, **{field: value})

    def least(request: Request, ask: Ask) -> Any | None:
        found = list(filter(has, ask(put(request, free))))
        return pick(request, cheapest(found)) if found else None

    return Knob(
        constraint=constraint,
        option=option,
        get=lambda request: getattr(request, field),
        put=put,
        free=free,
        least=least,
        typed=typed,
        asked=asked,
    )


def cheapest(found: Iterable[Candidate]) -> Candidate:
    """The least total price; ties by name."""
    return min(found, key=lambda o: (o.spec.total_usd_per_hour, o.spec.offer.instance.name))
