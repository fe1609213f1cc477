"""What types without an accelerator could do at best: none is slower than its network alone on its
CPU. There are thousands, and few are worth a prediction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from advisor.domain import Rejected, Request
from advisor.engine.prepared import CpuTypes
from advisor.engine.rejected import SlowCpus
from advisor.messages import Message

if TYPE_CHECKING:
    from advisor.engine.model import Booleans, Floats, Integers


class ByBound(NamedTuple):
    """Places of the types that may answer, the best first, with the least that each could rank by;
    those that are too slow however well they do, and others with the first limit that they miss."""

    places: Integers
    ranks: Floats
    slow: SlowCpus | None
    rejected: list[Rejected]


def ranked_by_bound(request: Request, cpus: CpuTypes, last: float) -> ByBound:
    """Types that may answer and rank before the last that is shown, at their bounds."""
    target, count = request.target_throughput or 0.0, request.max_count
    slow = cpus.most * count < target
    rates = np.where(slow, np.inf, cpus.most)
    with np.errstate(divide="ignore", invalid="ignore"):
        run_usd = cpus.usd / (rates * 3600) * (request.run_samples or 1e6)
        hours = (request.run_samples or 0.0) / (rates * count * 3600)
        needed = np.maximum(1.0, np.ceil(target / np.where(rates > 0, rates, np.inf)))
    ranks = cpus.usd * needed if request.ranks_by_price else run_usd
    limited = any(
        limit is not None for limit in (request.max_hours, request.max_run_usd, request.max_usd_per_hour)
    )
    # Whether more than a rate is missed has to be found of each type.
    may = ~slow & ((ranks <= last) | (not request.ranks_by_price or limited))
    rejected = list(_missing_limits(request, cpus, may, hours, run_usd))
    places = np.flatnonzero(may)
    order = np.argsort(ranks[places], kind="stable")
    too_slow = SlowCpus(cpus, np.flatnonzero(slow), target, count) if slow.any() else None
    return ByBound(places[order], ranks[places][order], too_slow, rejected)


def _missing_limits(
    request: Request, cpus: CpuTypes, may: Booleans, hours: Floats, run_usd: Floats
) -> Iterator[Rejected]:
    """Types that miss a limit even at their bounds; they are taken out of `may`."""
    checks = (
        (
            "too_long",
            hours,
            request.max_hours,
            Message("its run takes {least:hours} or more (median), above {limit:hours}"),
        ),
        (
            "over_max_cost",
            run_usd,
            request.max_run_usd,
            Message("its run costs {least:usd} or more (median), above {limit:usd}"),
        ),
        (
            "over_max_price",
            cpus.usd,
            request.max_usd_per_hour,
            Message("{least:usd}/h is above {limit:usd}/h"),
        ),
    )
    for reason, values, limit, message in checks:
        if limit is None or (reason != "over_max_price" and not request.run_samples):
            continue
        missed = may & (values > limit)
        for at in np.flatnonzero(missed).tolist():
            one = cpus.types[at]
            detail = Message(message.text, code=reason, least=float(values[at]), limit=limit)
            yield Rejected(one.cloud, one.name, reason, detail, one.usd_per_hour)
        may &= ~missed
