"""Priced types without an accelerator, as little of each as tells whether it is worth a look.

There are thousands of them: building each type's record takes longer than everything else that
a recommendation does, and most are far too slow or too dear.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from advisor.catalog.cheapest import Place, cheapest_in_line
from advisor.catalog.clouds import Cloud
from advisor.catalog.instances import InstanceTable
from advisor.catalog.matching import OfferQuery
from advisor.catalog.prices import Priced, PriceRow, PriceTable


class CpuOnly(NamedTuple):
    """A type in its cheapest region (of those asked for): `mark` is nan where nobody measured one.

    `line` is where the offer is built from.
    """

    name: str
    usd_per_hour: float
    cores: float
    mark: float
    cpu_model: str
    line: tuple[Cloud, PriceTable, PriceRow, Priced]

    @property
    def place(self) -> Place:
        """Where its price stands."""
        return cheapest_in_line(*self.line)[-1]


def cpu_only(clouds: Iterable[Cloud], query: OfferQuery) -> Iterator[CpuOnly]:
    """Every type without an accelerator that has facts and a price where it is asked for."""
    for cloud in clouds:
        sizes, cheapest = _cores(cloud.instances), dict[str, CpuOnly]()
        for table, row, priced in cloud.scan(query):
            name, usd = row.instance_type, min(priced.usd)
            if name in sizes and not (name in cheapest and cheapest[name].usd_per_hour <= usd):
                model, mark = cloud.instances.cpu_mark(name)
                line = cloud, table, row, priced
                cheapest[name] = CpuOnly(name, usd, sizes[name], mark, model, line)
        yield from cheapest.values()


def _cores(instances: InstanceTable) -> dict[str, float]:
    """Whole cores of the types without an accelerator whose facts are known, by name."""
    return {
        name: min(float(vcpus), float(cores))
        for name, vcpus, cores in instances.without_accelerator
        if vcpus and cores
    }
