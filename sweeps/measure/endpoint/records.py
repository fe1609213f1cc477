"""Records of requests to an endpoint, and the figures computed from them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field

from advisor.records import asdict
from advisor.sweeps.measure.endpoint.protocol import RequestFailed

_MOST_WARM_UP = 0.4
_BLOCKS = 8
# Figures of fewer answers have the status `few`.
FEWEST_ANSWERS = 5
_PERCENTILES = (50, 90, 99)

Figures = dict[str, Any]


def load_figures(driven: DrivenLoad) -> Figures:
    """A load's figures as an anchor has them; None for times without a measurement.

    TTFT is that of requests that began in the window; TPOT and total time are those of requests that ended in
    it; ITL is the time between pieces in it; tokens/s counts tokens that arrived in it."""
    begin, end = window(driven)
    ended = [entry for entry in driven.requests if entry.status == OK and begin < entry.ended_seconds <= end]
    # Each piece counts with its number of tokens, even in answers that were cut.
    pieces = [(moment, entry.tokens_per_piece) for entry in driven.requests for moment in entry.piece_seconds]
    gaps = [
        later - earlier
        for request in driven.requests
        for earlier, later in itertools.pairwise(request.piece_seconds)
        if begin <= earlier and later <= end
    ]
    late = distribution(driven.late_seconds)

    def of_ended(name: str) -> Figures | None:
        return distribution([getattr(request, name) for request in ended])

    return {
        "kind": driven.load.kind,
        "concurrency": driven.load.concurrency,
        "requests_per_second_wanted": driven.load.requests_per_second,
        "status": _status(driven, ended),
        "reason": driven.failed.detail if driven.failed else "",
        "began_seconds": driven.began_seconds,
        "window_seconds": max(0.0, end - begin),
        "requests": _counts(driven.requests, len(ended)),
        **{name: of_ended(name) for name in ("input_tokens", "output_tokens", "asked_tokens")},
        "cached_share": _cached_share(ended),
        "tokens_per_piece": float(np.mean([entry.tokens_per_piece for entry in ended])) if ended else None,
        "in_flight": _in_flight(driven.requests, begin, end),
        "ttft_seconds": distribution(
            [entry.ttft_seconds for entry in driven.requests if begin <= entry.started_seconds < end]
        ),
        "tpot_seconds": of_ended("tpot_seconds"),
        "itl_seconds": distribution(gaps),
        "e2e_seconds": distribution([entry.ended_seconds - entry.started_seconds for entry in ended]),
        "output_tokens_per_second": _rate(pieces, begin, end),
        "requests_per_second": _rate([(entry.ended_seconds, 1.0) for entry in ended], begin, end),
        "generator": {
            "busy_share": driven.busy_share,
            "late_p99_seconds": late and late["p99"],
            "is_capped": driven.is_capped,
        },
    }


def window(driven: DrivenLoad) -> tuple[float, float]:
    """The window that counts: from the moment when every slot has answered once (for a Poisson load: from the
    first answer), but at the latest after 40 % of the load's time, until its end."""
    first: dict[int, float] = {}
    for request in driven.requests:
        if request.status == OK:
            slot = request.slot if driven.load.concurrency else 0
            first[slot] = min(first.get(slot, math.inf), request.ended_seconds)
    latest = driven.began_seconds + _MOST_WARM_UP * (driven.ended_seconds - driven.began_seconds)
    is_warm = len(first) == (driven.load.concurrency or 1)
    return min(latest, max(first.values())) if is_warm else latest, driven.ended_seconds


def distribution(values: Sequence[float | None]) -> Figures | None:
    """Count, mean, its standard error (None for a single value) and percentiles; None without values."""
    known = np.array([value for value in values if value is not None], dtype=float)
    if not known.size:
        return None
    return {
        "count": int(known.size),
        "mean": float(known.mean()),
        "standard_error": standard_error(known),
        **{f"p{p}": float(np.percentile(known, p)) for p in _PERCENTILES},
    }


def standard_error(values: Sequence[float] | np.ndarray[Any, Any]) -> float | None:
    """The standard error of the mean of values in order of time, from up to eight blocks of them."""
    if len(values) < 2:
        return None
    means = [float(np.mean(block)) for block in np.array_split(values, min(_BLOCKS, len(values)))]
    return float(np.std(means, ddof=1) / math.sqrt(len(means)))


def _rate(moments: Sequence[tuple[float, float]], begin: float, end: float) -> Figures | None:
    """The total weight per second of (moment, weight) pairs in the window, with its standard error."""
    if end <= begin or not moments:
        return None
    edges = np.linspace(begin, end, _BLOCKS + 1)
    moment, weight = np.array(moments).T
    # The window begins with the end of an answer, which does not count.
    counts, _ = np.histogram(moment[moment > begin], edges, weights=weight[moment > begin])
    per_second = counts / (edges[1] - edges[0])
    error = float(np.std(per_second, ddof=1) / math.sqrt(_BLOCKS))
    return {"mean": float(per_second.mean()), "standard_error": error}


def _in_flight(requests: Sequence[RequestRecord], begin: float, end: float) -> float | None:
    """The mean number of requests in flight during the window."""
    if end <= begin:
        return None
    # Unended requests end at NaN, which `min` ignores as its second argument.
    spans = (min(end, entry.ended_seconds) - max(begin, entry.started_seconds) for entry in requests)
    return sum(max(0.0, span) for span in spans) / (end - begin)


def _counts(requests: Sequence[RequestRecord], completed: int) -> Figures:
    """Counts of all requests of the load; `completed` is the number that ended within the window."""
    by_status = Counter(request.status for request in requests)
    failed = {name: count for name, count in by_status.items() if name not in (OK, CUT)}
    return {
        "completed": completed,
        "ok": by_status[OK],
        "cut": by_status[CUT],
        "failed": sum(failed.values()),
        "faults": dict(sorted(failed.items())),
    }


def _status(driven: DrivenLoad, ended: Sequence[RequestRecord]) -> str:
    """The load's status: `ok`, `few` answers, `none`, or the fault that ended it."""
    if driven.failed:
        return driven.failed.fault.value
    if not ended:
        return "none"
    return "few" if len(ended) < FEWEST_ANSWERS else "ok"


def _cached_share(ended: Sequence[RequestRecord]) -> float | None:
    counted = [request for request in ended if request.cached_tokens is not None and request.input_tokens]
    total = sum(request.input_tokens or 0 for request in counted)
    return sum(request.cached_tokens or 0 for request in counted) / total if total else None


OK, CUT = "ok", "cut"


class Load(Struct, frozen=True):
    """A load: a constant number of requests in flight (closed loop), or the rate at which requests begin at
    random (Poisson); the other is None."""

    concurrency: int | None = None
    requests_per_second: float | None = None

    @property
    def kind(self) -> str:
        """`closed_loop` or `poisson`."""
        return "poisson" if self.concurrency is None else "closed_loop"

    def __str__(self) -> str:
        if self.concurrency is None:
            return f"{self.requests_per_second:g} requests/s"
        return f"concurrency {self.concurrency}"


class RequestRecord(Struct):
    """One request. Times are seconds since the measurement began.

    `status`: ok, cut (the load ended before the answer), or a fault's code with the server's message in
    `detail`. `ended_seconds` is NaN until its end. `piece_seconds` has the time of each piece of the answer
    (one token if the server streams each token). `output_tokens` is the server's count, else the number of
    pieces."""

    load: int
    slot: int
    started_seconds: float
    asked_tokens: int
    status: str = CUT
    detail: str = ""
    ended_seconds: float = math.nan
    piece_seconds: list[float] = field(default_factory=list)
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None

    @property
    def ttft_seconds(self) -> float | None:
        """Seconds to the first token; None before it."""
        return self.piece_seconds[0] - self.started_seconds if self.piece_seconds else None

    @property
    def tpot_seconds(self) -> float | None:
        """Mean seconds per token after the first; None for a cut answer or a single token."""
        tokens = self.output_tokens or 0
        if self.status != OK or tokens < 2 or len(self.piece_seconds) < 2:
            return None
        return (self.piece_seconds[-1] - self.piece_seconds[0]) / (tokens - 1)

    @property
    def tokens_per_piece(self) -> float:
        """Mean tokens of a piece; 1 if the server streams each token, or does not count them."""
        if self.status != OK or not self.output_tokens or not self.piece_seconds:
            return 1.0
        return self.output_tokens / len(self.piece_seconds)

    def row(self) -> dict[str, Any]:
        """The request as a JSON object, with times rounded to microseconds."""
        ended = None if math.isnan(self.ended_seconds) else round(self.ended_seconds, 6)
        pieces = [round(moment, 6) for moment in self.piece_seconds]
        moments = {"started_seconds": round(self.started_seconds, 6), "ended_seconds": ended}
        return asdict(self) | moments | {"piece_seconds": pieces}


class DrivenLoad(Struct):
    """A load and its requests, which began between `began_seconds` and `ended_seconds`. `busy_share` is the
    part of a core that the generator used, `late_seconds` are delays of its event loop. `failed` is the fault
    after which it was given up."""

    load: Load
    number: int
    began_seconds: float
    ended_seconds: float = 0.0
    requests: list[RequestRecord] = field(default_factory=list)
    busy_share: float = 0.0
    late_seconds: list[float] = field(default_factory=list)
    failed: RequestFailed | None = None
    is_capped: bool = False


class Lengths(Struct, frozen=True):
    """The mean tokens of a prompt and of its answer."""

    input_tokens: int
    output_tokens: int
