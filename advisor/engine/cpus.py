"""Upper bounds of types without an accelerator: the rate of the network alone on each CPU. There
are thousands of types, and few are worth a prediction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from advisor.catalog import CpuOnly
from advisor.domain import Rejected
from advisor.engine.candidates import batches_of, plain_workload
from advisor.engine.limits import TOO_SLOW
from advisor.messages import Message
from advisor.questions.network import NetworkQuestion
from advisor.units import format_rate, format_target

if TYPE_CHECKING:
    from advisor.engine.model import Booleans, Floats, Integers, PerformanceModel


class CpuTypes(Struct, frozen=True):
    """Types without an accelerator, the cheapest first, with what none of them surpasses in samples
    per second (0: nothing tells) and USD per hour of each."""

    types: Sequence[CpuOnly]
    most: Floats
    usd: Floats

    @classmethod
    def of(cls, request: NetworkQuestion, model: PerformanceModel, types: Sequence[CpuOnly]) -> CpuTypes:
        """Types of which the cheapest come first."""
        if not types:
            return cls([], np.empty(0), np.empty(0))
        most = model.most_on_cpu(
            batches_of(request, plain_workload(request)),
            np.array([cpu.cores for cpu in types]),
            np.array([cpu.mark for cpu in types]),
            [cpu.cpu_model for cpu in types],
        )
        return cls(types, most, np.array([cpu.usd_per_hour for cpu in types]))


class SlowCpus(Struct, frozen=True):
    """Types without an accelerator (by their places) that compute less than is wanted, however well
    everything else does."""

    cpus: CpuTypes
    places: Integers
    wanted: float
    instances: int

    def up_to(self, usd_per_hour: float) -> SlowCpus:
        """Those of them that cost no more."""
        within = self.cpus.usd[self.places] <= usd_per_hour
        return SlowCpus(self.cpus, self.places[within], self.wanted, self.instances)

    def rejected(self) -> Iterator[Rejected]:
        """One record each."""
        return map(self.record, self.places.tolist())

    def record(self, index: int) -> Rejected:
        """A type as rejected, by its index."""
        wanted = Message("{rate}/s", rate=format_target(self.wanted))
        if self.instances > 1:
            wanted = Message(
                "the {rate}/s that each of {count} instances has to do",
                rate=format_rate(self.wanted / self.instances),
                count=self.instances,
            )
        cpu = self.cpus.types[index]
        detail = _cpu_bound(cpu.cores, float(self.cpus.most[index]), wanted)
        return Rejected(cpu.cloud, cpu.name, TOO_SLOW, detail, cpu.usd_per_hour)

    def near(self, price: float | None, most: int) -> Integers:
        """Places among which the `most` nearest to a price are; without one, the cheapest."""
        if price is None:
            return self.places[:most]
        usd = self.cpus.usd[self.places]  # rising
        below = int(np.searchsorted(usd, price))
        first = max(0, below - most)
        if below:  # of types that cost the same none is left out
            first = int(np.searchsorted(usd, usd[first]))
        return self.places[first : below + most]


def _cpu_bound(cores: float, rate: float, wanted: Message) -> Message:
    if cores == 1:
        return Message(
            "its core computes at most {rate:rate}/s (median), below {wanted}",
            code="cpu_bound",
            rate=rate,
            wanted=wanted,
        )
    return Message(
        "its {cores:g} cores compute at most {rate:rate}/s (median), below {wanted}",
        code="cpu_bound",
        cores=cores,
        rate=rate,
        wanted=wanted,
    )


class ByBound(NamedTuple):
    """Places of the types that may answer, the best first, with the least that each could rank by;
    those that are too slow however well they do, and others with the first limit that they miss."""

    places: Integers
    ranks: Floats
    slow: SlowCpus | None
    rejected: list[Rejected]


def ranked_by_bound(request: NetworkQuestion, cpus: CpuTypes, last: float) -> ByBound:
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
    request: NetworkQuestion, cpus: CpuTypes, may: Booleans, hours: Floats, run_usd: Floats
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
        for index in np.flatnonzero(missed).tolist():
            cpu = cpus.types[index]
            detail = Message(message.text, code=reason, least=float(values[index]), limit=limit)
            yield Rejected(cpu.cloud, cpu.name, reason, detail, cpu.usd_per_hour)
        may &= ~missed
