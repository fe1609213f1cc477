"""Priced types without an accelerator, as little of each as tells whether it is worth a look.

There are thousands of them: building each type's record takes longer than everything else that
a recommendation does, and most are far too slow or too dear.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from advisor.catalog.clouds import Cloud
from advisor.catalog.instances import InstanceTable
from advisor.catalog.matching import OfferQuery


class CpuOnly(NamedTuple):
    """A type with its price in its cheapest region (of those asked for) and its whole cores;
    `mark` is nan where nobody measured one."""

    name: str
    usd_per_hour: float
    cores: float
    mark: float
    cpu_model: str


def cpu_only(clouds: Iterable[Cloud], query: OfferQuery) -> Iterator[CpuOnly]:
    """Every type without an accelerator that has facts, a price where it is asked for, and the
    vCPUs and RAM that are asked for."""
    for cloud in clouds:
        sizes, least = _cores(cloud.instances, query), dict[str, float]()
        for _, row, priced in cloud.scan(query):
            if row.instance_type in sizes:
                known = least.get(row.instance_type, priced.usd[0])
                least[row.instance_type] = min(known, *priced.usd)
        for name, usd in least.items():
            model, mark = cloud.instances.cpu_mark(name)
            yield CpuOnly(name, usd, sizes[name], mark, model)


def _cores(instances: InstanceTable, query: OfferQuery) -> dict[str, float]:
    """Whole cores of the types without an accelerator whose facts are known, by name."""
    return {
        name: min(float(vcpus), float(cores))
        for name, vcpus, cores, memory_mib in instances.without_accelerator
        if vcpus and cores
        if int(vcpus) in query.vcpus and int(memory_mib) in query.memory_mib
    }
