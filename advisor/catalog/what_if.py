"""The catalogue with one type as it is not: as if it had other vCPUs, or another RAM."""

from __future__ import annotations

import math

from msgspec.structs import replace

from advisor.catalog.catalog import Catalog
from advisor.catalog.match import OfferQuery
from advisor.domain import InstanceType, Offer


def with_host(
    instance: InstanceType, vcpus: int | None = None, memory_mib: float | None = None
) -> InstanceType:
    """The type with a host of so many vCPUs and so much RAM; None leaves what it has.

    Cores go with the vCPUs, as many threads a core as it has, rounded up to whole ones. GPUs, disks
    and links stay the type's own.
    """
    vcpus = instance.vcpus if vcpus is None else vcpus
    cores = math.ceil(vcpus * instance.physical_cores / instance.vcpus)
    mib = instance.memory_mib if memory_mib is None else round(memory_mib)
    return replace(instance, vcpus=vcpus, physical_cores=cores, memory_mib=mib)


class WhatIfCatalog(Catalog):
    """All of `real` but one type, which is `changed` here and has no price: nobody sells it."""

    def __init__(self, real: Catalog, changed: InstanceType) -> None:
        vars(self).update(vars(real))  # what was read of it is not read again
        self._changed = changed

    def instance(self, name: str, cloud: str | None = None) -> InstanceType:
        """The facts of a type; those of the changed one are as they were changed."""
        instance = super().instance(name, cloud)
        here = (instance.cloud, instance.name) == (self._changed.cloud, self._changed.name)
        return self._changed if here else instance

    def cheapest(self, query: OfferQuery, count: int) -> tuple[list[Offer], int]:
        """The cheapest offers; none where the changed type alone is asked for."""
        if query.instances == (self._changed.name,):
            return [], 0
        return super().cheapest(query, count)
