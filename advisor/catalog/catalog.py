"""The catalogue as the rest of the product sees it: types, offers, GPUs, disks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property

from advisor.catalog.disks import DiskCatalog
from advisor.catalog.files import BundleFiles
from advisor.catalog.gpus import read_gpus
from advisor.catalog.instances import InstanceTable, read_origins
from advisor.catalog.matching import OfferQuery, is_gpu, matches, matches_instance
from advisor.catalog.prices import PriceTable
from advisor.domain import Gpu, InstanceType, Market, Offer, Price, Rejected
from advisor.errors import NoOfferError, UsageError, unknown_name


@dataclass(frozen=True, slots=True)
class _Cloud:
    """One cloud's tables."""

    instances: InstanceTable
    prices: PriceTable


class Catalog:
    """A bundle of files as records; everything is built when it is first asked for."""

    def __init__(self, files: BundleFiles) -> None:
        self._files = files
        self._parts: Mapping[str, Mapping[str, str]] = files.manifest["parts"]
        self._disks: dict[str, DiskCatalog] = {}

    @property
    def as_of(self) -> date:
        """Date of the instance prices; the oldest, where they differ."""
        return min(cloud.prices.as_of for cloud in self._clouds.values())

    @property
    def sources(self) -> tuple[str, ...]:
        """One line a part: what it is, when it was true, where it comes from."""
        return tuple(
            f"{name} {part['as_of']}: {part['source']} ({part['licence']})"
            for name, part in sorted(self._parts.items())
        )

    @property
    def clouds(self) -> tuple[str, ...]:
        """Clouds with data."""
        return tuple(self._clouds)

    def regions(self, cloud: str = "aws") -> tuple[str, ...]:
        """Regions of a cloud with prices."""
        return self._cloud(cloud).prices.regions

    def known_regions(self, cloud: str = "aws") -> frozenset[str]:
        """Regions of a cloud that are known to offer something, priced or not."""
        one = self._cloud(cloud)
        return one.instances.regions | frozenset(one.prices.regions)

    @cached_property
    def gpus(self) -> Mapping[str, Gpu]:
        """Data sheets by name, with nominal memory."""
        return read_gpus(self._files)

    def gpu_of(self, instance: InstanceType) -> Gpu | None:
        """The data sheet of an instance's GPU with the memory usable there; None without one."""
        sheet = self.gpus.get(instance.gpu_name or "")
        if sheet is None or instance.gpu_memory_mib is None:
            return sheet
        return replace(sheet, memory_mib=instance.gpu_memory_mib)

    @property
    def disks(self) -> DiskCatalog:
        """Disks of AWS, the default cloud."""
        return self.disks_of("aws")

    @property
    def disk_clouds(self) -> tuple[str, ...]:
        """Clouds whose disks are known."""
        names = ("aws", "gcp", "azure", "alibaba")
        return tuple(
            n for n in names if f"catalog/{n}_disk_types.csv" in self._files.manifest["files"]
        )

    def disks_of(self, cloud: str) -> DiskCatalog:
        """Disks of a cloud; `UsageError` where none are known."""
        if cloud not in self._disks:
            if cloud not in self.disk_clouds:
                known = ", ".join(self.disk_clouds)
                raise UsageError(
                    f"no disks of cloud '{cloud}' are known; of these they are: {known}"
                )
            self._disks[cloud] = DiskCatalog(cloud, self._files, read_origins(self._files))
        return self._disks[cloud]

    def instance(self, name: str) -> InstanceType:
        """The facts of a type; `UsageError` with near names for an unknown one."""
        for cloud in self._clouds.values():
            if name in cloud.instances:
                return cloud.instances.get(name)
        known = [name for cloud in self._clouds.values() for name in cloud.instances.names]
        raise unknown_name("instance type", name, known)

    def instances(self) -> list[InstanceType]:
        """Every known type, retired ones (`current` False) included."""
        return [
            cloud.instances.get(name)
            for cloud in self._clouds.values()
            for name in cloud.instances.names
        ]

    def is_offered(self, name: str, region: str) -> bool:
        """Whether a region has a type."""
        return any(
            name in cloud.instances and region in cloud.instances.regions_of(name)
            for cloud in self._clouds.values()
        )

    def regions_of(self, name: str) -> tuple[str, ...]:
        """Regions that offer a type, in order; empty for a retired one."""
        cloud = self._clouds[self.instance(name).cloud]
        return tuple(sorted(cloud.instances.regions_of(name)))

    def price(self, name: str, region: str, market: Market = Market.ON_DEMAND) -> Price | None:
        """What a type costs in a region; None where that is not known."""
        cloud = self._clouds[self.instance(name).cloud]
        return cloud.prices.price(name, region, market)

    def offers(self, query: OfferQuery) -> list[Offer]:
        """Priced offers that match, in the bundle's order.

        Retired types that still have a list price are among them, so that they can be rejected
        by name (`support.check`). `UsageError` for names nobody knows, `NoOfferError` for a
        region without prices.
        """
        return [
            offer
            for cloud in self._asked(query)
            for offer in self._offers_of(cloud, query)
            if matches(offer, query)
        ]

    def unpriced(self, query: OfferQuery) -> list[Rejected]:
        """Types that match and are offered in the region, and whose price is not known."""
        if query.region is None:
            return []
        asked = self._asked(query)
        priced = {name for cloud in asked for name in _priced_names(cloud, query)}
        detail = f"no {query.market or 'instance'} price in {query.region} is known"
        return [
            Rejected(instance_type=name, reason="no_price", detail=detail)
            for cloud in asked
            for name in _candidates(cloud, query) or cloud.instances.names
            if name not in priced
            and query.region in cloud.instances.regions_of(name)
            and matches_instance(cloud.instances.get(name), query)
        ]

    @cached_property
    def _clouds(self) -> dict[str, _Cloud]:
        origins = read_origins(self._files)
        return {
            name: _Cloud(
                InstanceTable(name, self._files, origins),
                PriceTable(name, self._files, origins),
            )
            for name in self._files.manifest["clouds"]
        }

    def _offers_of(self, cloud: _Cloud, query: OfferQuery) -> Iterator[Offer]:
        region = query.region
        if region is not None and region not in cloud.prices.regions:
            return
        for one in cloud.prices.scan(_candidates(cloud, query), region, query.market):
            instance = cloud.instances.get(one.instance_type)
            yield Offer(instance=instance, region=one.region, market=one.market, price=one.price)

    def _asked(self, query: OfferQuery) -> list[_Cloud]:
        """The clouds a query is about, once its names are known to be right."""
        everywhere = query.cloud in (None, "any")
        asked = list(self._clouds.values()) if everywhere else [self._cloud(str(query.cloud))]
        for name in query.instances:
            self.instance(name)
        for name in query.gpus:
            self._require_gpu(name)
        if query.region is not None:
            _require_region(query.region, asked)
        return asked

    def _require_gpu(self, name: str) -> None:
        sold = frozenset().union(*(one.instances.gpu_names for one in self._clouds.values()))
        if not any(is_gpu(one, name) for one in (*sold, *self.gpus)):
            raise unknown_name("GPU", name, sold)

    def _cloud(self, name: str) -> _Cloud:
        if name not in self._clouds:
            known = ", ".join(self._clouds)
            raise UsageError(f"the catalogue has no data on cloud '{name}'; it has: {known}")
        return self._clouds[name]


def _candidates(cloud: _Cloud, query: OfferQuery) -> Collection[str] | None:
    """Names worth building records for: a cheap, wider choice than the predicate's own."""
    if query.instances:
        return query.instances
    if query.accelerated or query.gpus or query.min_gpu_memory_mib is not None:
        return cloud.instances.accelerated
    return None


def _priced_names(cloud: _Cloud, query: OfferQuery) -> Iterator[str]:
    """Types with a price in the asked region and market; no records are built for it."""
    if query.region is None or query.region in cloud.prices.regions:
        rows = cloud.prices.scan(_candidates(cloud, query), query.region, query.market)
        yield from (one.instance_type for one in rows)


def _require_region(region: str, clouds: Collection[_Cloud]) -> None:
    priced = sorted({one for cloud in clouds for one in cloud.prices.regions})
    if region in priced:
        return
    known = {one for cloud in clouds for one in cloud.instances.regions}
    if region not in known:
        raise unknown_name("region", region, known | set(priced))
    raise NoOfferError(
        f"no prices of region {region} are in the catalogue; regions with prices: "
        f"{', '.join(priced)}"
    )
