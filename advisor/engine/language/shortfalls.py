"""Why a type does not meet a request about serving: the first limit that none of its ways keeps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from advisor.domain import Rejected
from advisor.domain.language import MOST_SEQUENCES, GenerationRequest
from advisor.engine.language.table import ServingTable
from advisor.engine.limits import closest
from advisor.messages import Message
from advisor.units import ceil_significant, floor_rate


def rejections(table: ServingTable) -> list[Rejected]:
    """Every type of the table of which no way answers, with the reason that its nearest shows."""
    limits, usd = table.limits, table.usd
    answered = np.zeros(len(table.names), dtype=bool)
    answered[table.kind[table.answering()]] = True
    found = []
    for kind in np.flatnonzero(~answered).tolist():
        at, reason = closest(limits, usd, np.flatnonzero(table.kind == kind))
        detail = shortfall(table, at, reason)
        found.append(Rejected(*table.ways[at].kind, reason, detail, float(usd[at])))
    return found


def nearest_row(table: ServingTable) -> int:
    """The row that comes closest, of those within the price where there are any: what the least
    change of the limit that it misses would make the answer."""
    usd, most = table.usd, table.request.max_usd_per_hour
    rows = np.arange(len(table)) if most is None else np.flatnonzero(usd <= most)
    if not len(rows):
        return int(usd.argmin())
    if table.answering()[rows].any():  # of a named instance, whose ways are not ranked
        return int(rows[table.answering()[rows].argmax()])
    return closest(table.limits, usd, rows)[0]


def shortfall(table: ServingTable, at: int, reason: str) -> Message:
    """What a row misses, with the number that decided."""
    request = table.request
    near = {limit.reason: float(limit.nearness[at]) for limit in table.limits}[reason]
    if reason in _TIMES:
        return _time_shortfall(table, at, reason)
    if reason == "too_slow":
        return Message(
            "p{p:.3g} is {lower:,g} output tokens/s, below {target:target}",
            code=reason,
            p=_percentile(request),
            lower=floor_rate(near),
            target=request.target_output_tokens_per_second,
        )
    if reason == "users":
        if table.ways[at].memory.largest_concurrency >= MOST_SEQUENCES:
            return Message(
                "its replicas take in {held:,} requests at once (--max-num-seqs {most}), not those "
                "of {users:,} users",
                code=reason,
                held=int(near),
                most=MOST_SEQUENCES,
                users=request.users,
            )
        return Message(
            "the KV cache holds {held:,} requests at once, not those of {users:,} users",
            code=reason,
            held=int(near),
            users=request.users,
        )
    if reason == "load":
        return Message(
            "p{p:.3g} is {lower:,g} requests/s, below {target:target}",
            code=reason,
            p=_percentile(request),
            lower=floor_rate(near),
            target=request.target_requests_per_second,
        )
    if reason == "over_max_price":
        return Message(
            "{usd:usd}/h is above {limit:usd}/h",
            code=reason,
            usd=float(table.usd[at]),
            limit=request.max_usd_per_hour,
        )
    return Message("no calibrated interval for it (--allow-extrapolation judges it)", code=reason)


def _time_shortfall(table: ServingTable, at: int, reason: str) -> Message:
    request, rates = table.request, table.solved.rates
    message, unit, limit = _TIMES[reason]
    by_reason = {"ttft": rates.ttft, "tpot": rates.tpot, "e2e": rates.e2e(request.output_tokens)}
    upper, median, _ = unit * by_reason[reason][:, at]
    return Message(
        message.text,
        code=reason,
        upper=ceil_significant(float(upper)),
        median=ceil_significant(float(median)),
        limit=getattr(request, limit),
        concurrency=float(rates.concurrency[at]),
    )


# Message, factor to its unit, and the limit's field in a request.
_TIMES = {
    "ttft": (
        Message(
            "time to first token is up to {upper:,g} ms, above {limit:g} ms (median {median:,g} "
            "ms, {concurrency:,.3g} in flight in a replica)"
        ),
        1000.0,
        "max_ttft_ms",
    ),
    "tpot": (
        Message(
            "time per output token is up to {upper:,g} ms, above {limit:g} ms (median {median:,g} "
            "ms, {concurrency:,.3g} in flight in a replica)"
        ),
        1000.0,
        "max_tpot_ms",
    ),
    "e2e": (
        Message(
            "a request takes up to {upper:,g} s, above {limit:g} s (median {median:,g} s, "
            "{concurrency:,.3g} in flight in a replica)"
        ),
        1.0,
        "max_e2e_seconds",
    ),
}


def _percentile(request: GenerationRequest) -> float:
    return 100 * (1 - request.confidence)


def by_price(rejected: Sequence[Rejected]) -> list[Rejected]:
    """The cheapest first, those without a price last."""
    return sorted(
        rejected,
        key=lambda one: (float("inf") if one.usd_per_hour is None else one.usd_per_hour, one.instance_type),
    )
