"""The catalogue as the rest of the product sees it: types, offers, GPUs, disks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import cache, cached_property, partial
from operator import itemgetter
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog.assumed import read_facts
from advisor.catalog.bundle import Files, StoredPrices
from advisor.catalog.clouds import (
    Cloud,
    CpuOnly,
    PriceCell,
    by_price,
    require_gpu,
    require_instance,
    require_rate,
    require_region,
    unknown_region,
    why_closed,
)
from advisor.catalog.disks import DiskCatalog
from advisor.catalog.gpus import sheet_names
from advisor.catalog.instances import GpuSheet, PartialType, read_origins, read_sheets
from advisor.catalog.overlay import NO_OVERLAY, Overlay
from advisor.catalog.prices import Currency, OfferQuery, SourceUse, read_bases, source_uses
from advisor.domain import Gpu, InstanceType, Market, Offer, Price, Rejected
from advisor.domain.money import NotOrderable
from advisor.errors import UsageError, unknown_name
from advisor.messages import FieldName, Message

# Clouds that publish prices and no other facts of their types (a user may import those).
_WITHOUT_FACTS = ("coreweave", "crusoe")
DEFAULT_CLOUD = "aws"


class PartialOffer(Struct, frozen=True):
    """A priced type that lacks facts: it is listed, never ranked."""

    type: PartialType
    region: str
    market: Market
    price: Price


class Catalog:
    """Bundles of files as records; everything is read and built on first use."""

    def __init__(
        self,
        bundles: Sequence[Files],
        currencies: Mapping[str, Currency],
        overlays: Mapping[str, Overlay] = MappingProxyType({}),
    ) -> None:
        self.bundles = bundles
        self.overlays = overlays  # by cloud; these replace the first bundle's entries
        self.currencies = currencies
        self._cards: dict[tuple[str, int], Gpu] = {}

    @cached_property
    def shipped(self) -> Catalog:
        """The snapshot alone, without refreshed or imported data."""
        return Catalog(self.bundles[:1], self.currencies)

    @property
    def as_of(self) -> date:
        """Date of the list prices of AWS, the default cloud; each price carries its own."""
        return self._clouds[DEFAULT_CLOUD].as_of

    @property
    def sources(self) -> tuple[str, ...]:
        """One line per part of the catalogue: its name, date, source and licence."""
        parts_of = dict(overlay.part(cloud) for cloud, overlay in self.overlays.items())
        parts = [bundle.manifest["parts"] for bundle in self.bundles]
        return tuple(
            f"{name} {part['as_of']}: {part['source']} ({part['licence']})"
            for own in (parts[0] | parts_of, *parts[1:])
            for name, part in sorted(own.items())
        )

    @property
    def source_uses(self) -> list[SourceUse]:
        """Every source of the snapshot, the imports and the refreshes, those with most prices first."""

        def not_replaced(cloud: str, stored: StoredPrices) -> StoredPrices:
            return self.overlays.get(cloud, NO_OVERLAY).not_replaced(stored)

        uses = [use for bundle in self.bundles for use in source_uses(bundle, not_replaced)]
        uses += [use for cloud, overlay in self.overlays.items() for use in overlay.source_uses(cloud)]
        return sorted(uses, key=lambda use: (-use.prices, use.part, use.source))

    @cached_property
    def fingerprint(self) -> str:
        """Digest of all the data: the bundle, imports, refreshed prices and offerings, currencies."""
        import hashlib  # only the service needs it
        import json

        contents = [json.dumps(bundle.manifest, sort_keys=True, default=str) for bundle in self.bundles]
        contents.append(repr(sorted(self.currencies.items())))
        for cloud, overlay in self.overlays.items():
            contents.append(repr((cloud, sorted(overlay.prices.items()), sorted(overlay.offerings.items()))))
        return hashlib.sha256("\n".join(contents).encode()).hexdigest()

    @property
    def clouds(self) -> tuple[str, ...]:
        """Clouds with data, imported ones last."""
        return tuple(self._clouds)

    def regions(self, cloud: str = DEFAULT_CLOUD) -> tuple[str, ...]:
        """Regions of a cloud with prices, estimated ones included."""
        return self._cloud(cloud).priced_regions

    def known_regions(self, cloud: str) -> frozenset[str]:
        """Regions of a cloud that are known to offer something, priced or not."""
        home = self._cloud(cloud)
        return home.instances.regions | frozenset(home.priced_regions)

    @cached_property
    def gpus(self) -> Mapping[str, Gpu]:
        """Data sheets by name, as predictions need them; memory is nominal."""
        return {name: sheet.gpu for name, sheet in self.gpu_sheets.items()}

    @cached_property
    def gpu_sheets(self) -> Mapping[str, GpuSheet]:
        """Complete data sheets by name."""
        return read_sheets(self.bundles[0])

    def capability_of(self, gpu_name: str | None) -> float | None:
        """CUDA compute capability of a GPU; None without a GPU, and where it is not known."""
        sheet = self.gpus.get(gpu_name or "")
        return sheet.capability if sheet else None

    def gpu_of(self, instance: InstanceType) -> Gpu | None:
        """The data sheet of an instance's GPU with the memory usable there; None without one."""
        sheet, mib = self.gpus.get(instance.gpu_name or ""), instance.gpu_memory_mib
        if sheet is None or mib is None:
            return sheet
        if (sheet.name, mib) not in self._cards:
            self._cards[sheet.name, mib] = replace(sheet, memory_mib=mib)
        return self._cards[sheet.name, mib]

    @cached_property
    def cards(self) -> Mapping[str, Gpu]:
        """Data sheets by name, with the least memory that any instance reports for the whole card."""
        cards = dict(self.gpus)
        for instance in self.instances():
            card = self.gpu_of(instance)
            if card is None or instance.gpu_fraction < 1:
                continue
            if card.memory_mib < cards[card.name].memory_mib:
                cards[card.name] = card
        return cards

    def cards_named(self, text: str) -> list[str]:
        """Every card that a text may mean, usual first: a GPU's name, or the name of a type that has it."""
        try:
            return sheet_names(text, self.cards)
        except UsageError:
            with suppress(UsageError):
                if (card := self.instance(self.name_of(text)).gpu_name) in self.cards:
                    return [str(card)]
            raise

    @cached_property
    def rented_gpus(self) -> frozenset[str]:
        """Names of GPUs in types that some cloud sells, or sold."""
        named = (cloud.instances.gpu_names for cloud in self._clouds.values())
        return frozenset().union(*named) & self.gpus.keys()

    @property
    def disks(self) -> DiskCatalog:
        """Disks of AWS, the default cloud."""
        return self.disks_of(DEFAULT_CLOUD)

    @property
    def disk_clouds(self) -> tuple[str, ...]:
        """Clouds whose network disks are known."""
        return tuple(name for name, cloud in self._clouds.items() if cloud.has_disks)

    def disks_of(self, cloud: str) -> DiskCatalog:
        """Disks of a cloud; `UsageError` where none are known."""
        home = self._cloud(cloud)
        if not home.has_disks:
            known = ", ".join(self.disk_clouds)
            raise UsageError(f"no disks of cloud '{cloud}' are known; of these they are: {known}")
        return home.disks

    def instance(self, name: str, cloud: str | None = None) -> InstanceType:
        """The facts of a type; `UsageError` for an unknown type (with near names) or missing facts."""
        table = self._home_of(name, cloud).instances
        instance = table.find(name)
        if instance is None:
            missing = ", ".join(table.partial(name).missing)
            raise UsageError(f"{name} cannot be judged: not known of it: {missing}")
        return instance

    def type_names(self, cloud: str) -> tuple[str, ...]:
        """Every type of a cloud, priced or not; of every cloud for "any"."""
        return tuple(sorted({name for home in self._homes(cloud) for name in home.instances.names}))

    def name_of(self, text: str, cloud: str | None = None) -> str:
        """The catalogue's spelling of a type, whatever its case; `UsageError` for an unknown one."""
        clouds = self._homes(cloud)
        if any(text in home.instances for home in clouds):
            return text
        names = {name.casefold(): name for home in clouds for name in home.instances.names}
        if text.casefold() not in names:
            require_instance(text, clouds)
        return names[text.casefold()]

    def cloud_of(self, name: str, cloud: str) -> str:
        """The cloud of a type: `cloud` if given, else the only one; `UsageError` for none or several."""
        home = self._clouds.get(cloud)
        return cloud if home and name in home.instances else self._home_of(name, None).name

    def is_in_dollars(self, cloud: str) -> bool:
        """True if prices of a cloud are known in dollars: a list in euros needs the user's rate."""
        return self._cloud(cloud).has_rate

    def require_cloud(self, cloud: str) -> None:
        """`UsageError` for a cloud that the catalogue lacks; "any" stands for all of them."""
        if "," in cloud:
            said = Message("{cloud} takes one cloud, or any", cloud=FieldName("cloud"))
            raise UsageError(said, hint="ask once for each of them", field="cloud")
        if cloud != "any":
            self._cloud(cloud)

    def require_region(self, region: str, cloud: str) -> None:
        """`UsageError` with near names for an unknown region."""
        if region not in self.known_regions(cloud):
            raise unknown_region(region, self.known_regions(cloud), [cloud])

    def require_gpu(self, name: str, cloud: str) -> None:
        """`UsageError` with near names for a GPU that no data sheet and no type has."""
        require_gpu(name, self.gpus, [self._cloud(cloud)])

    def partial_type(self, name: str, cloud: str | None) -> PartialType:
        """The known facts of a type, complete or not."""
        return self._home_of(name, cloud).instances.partial(name)

    def instances(self, cloud: str = DEFAULT_CLOUD) -> list[InstanceType]:
        """Every type of a cloud (or "any") with facts, retired ones (`current` False) included."""
        built = [home.instances.find(name) for home in self._homes(cloud) for name in home.instances.names]
        return [instance for instance in built if instance is not None]

    def restriction(
        self, instance: InstanceType, market: Market | None, region: str | None = None
    ) -> NotOrderable | None:
        """Why a type cannot be ordered in a region (None: any that offers it); None where it can be."""
        home = self._cloud(instance.cloud)
        region_name = region or min(home.instances.regions_of(instance.name), default="")
        return home.restriction(instance.name, region_name, str(market or Market.ON_DEMAND))

    def order_restrictions(self, name: str, cloud: str | None = None) -> Sequence[NotOrderable]:
        """Every known reason why a type cannot be ordered, in any region and on any market."""
        return self._home_of(name, cloud).order_restrictions(name)

    def is_offered(self, name: str, region: str, cloud: str | None = None) -> bool:
        """True if a region offers a type."""
        homes = (home.instances for home in self._homes(cloud))
        return any(name in types and region in types.regions_of(name) for types in homes)

    def regions_of(self, name: str, cloud: str | None = None) -> tuple[str, ...]:
        """Regions that offer a type, in order; empty for a retired one."""
        return tuple(sorted(self._home_of(name, cloud).instances.regions_of(name)))

    def price(
        self, name: str, region: str, market: Market = Market.ON_DEMAND, cloud: str | None = None
    ) -> Price | None:
        """The price of a type in a region; None where it is not known."""
        return self._home_of(name, cloud).price(name, region, market)

    def not_outdated(self, cloud: str, overlay: Overlay) -> Overlay:
        """The overlay without prices older than the known ones, and offerings older than the cloud's list."""
        return self._cloud(cloud).not_outdated(overlay)

    def offers(self, query: OfferQuery) -> list[Offer]:
        """Priced offers that match and whose facts are known, in the bundle's order.

        Retired types that still have a list price are included, so that they can be rejected by name
        (`support.check`). `UsageError` for unknown names, `NoOfferError` for a region without prices."""
        return [cell.offer() for cell in self._matching(query)]

    def cheapest(self, query: OfferQuery, count: int) -> tuple[list[Offer], int]:
        """The `count` cheapest of `offers`, and the number of all; no other record is built."""
        cells = list(self._matching(query))
        return [cell.offer() for cell in sorted(cells, key=by_price)[:count]], len(cells)

    def unconverted(self, query: OfferQuery) -> dict[str, list[str]]:
        """Currency without a known rate -> the clouds with prices in it."""
        clouds: dict[str, list[str]] = {}
        for cloud in self._homes(query.cloud):
            for currency in sorted(cloud.unconverted(query)):
                clouds.setdefault(currency, []).append(cloud.name)
        return clouds

    def without_prices(self, query: OfferQuery) -> list[str]:
        """Clouds of the query without any known price on its market."""
        return [cloud.name for cloud in self._homes(query.cloud) if not cloud.has_prices(query.market)]

    def unconverted_offers(self, query: OfferQuery) -> dict[str, list[Offer]]:
        """Currency without a known rate -> the matching offers, priced as if one unit were a dollar. Empty
        where the query limits dollars."""
        if query.max_usd_per_hour is not None:
            return {}
        offers = {}
        for currency, clouds in self.unconverted(query).items():
            unit = {
                name: rate._replace(per_usd=1.0 if name == currency else math.nan)
                for name, rate in self.currencies.items()
            }
            twin = Catalog(self.bundles, unit, self.overlays)
            cells = [cell for name in clouds for cell in twin._clouds[name].matching(query)]
            offers[currency] = [cell.offer() for cell in sorted(cells, key=by_price)]
        return offers

    def best_places(self, query: OfferQuery) -> list[Offer]:
        """The offers of each type and market in regions where it could be cheapest with a disk, cheapest
        first. A type that no region sells has its cheapest offer."""
        cells = (cell for cloud in self._clouds_of(query) for cell in cloud.unbeaten(query))
        return [cell.offer() for cell in sorted(cells, key=by_price)]

    def lowest_by_type(self, query: OfferQuery) -> dict[str, float]:
        """Type -> USD per hour in its cheapest region, cheapest first; builds no records."""
        lowest: dict[str, float] = {}
        for cloud in self._clouds_of(query):
            for name, usd in cloud.lowest_by_type(query).items():
                lowest[name] = min(usd, lowest.get(name, usd))
        return dict(sorted(lowest.items(), key=itemgetter(1, 0)))

    def cpu_only(self, query: OfferQuery) -> list[CpuOnly]:
        """Matching types without an accelerator, each once; builds no records of types."""
        return [known for cloud in self._clouds_of(query) for known in cloud.cpu_only(query)]

    def partial_offers(self, query: OfferQuery) -> list[PartialOffer]:
        """Priced types that lack facts and may match the query."""
        return [
            PartialOffer(type=incomplete, region=cell.region, market=Market(cell.market), price=cell.price)
            for cloud in self._clouds_of(query)
            for cell, incomplete in cloud.incomplete_cells(query)
        ]

    def unpriced(self, query: OfferQuery) -> list[Rejected]:
        """Matching types that cannot be ranked: offered in the region (or any) without a price (`no_price`),
        without facts (`facts_missing`), or closed to orders (`not_offered`)."""
        clouds = self._clouds_of(query)
        unranked = [
            (cloud.name, name, "facts_missing", Message("not known of it: {facts}", facts=partial.missing))
            for cloud in clouds
            for name, partial in cloud.incomplete_types(query).items()
        ]
        unranked += [
            (cloud.name, name, "not_offered", why_closed(closed))
            for cloud in clouds
            for name, closed in cloud.unpriced_closed(query)
        ]
        named = {entry[:2] for entry in unranked}
        market = str(query.market or "instance")
        detail = Message("no {market} price anywhere is known", market=market)
        if query.region:
            detail = Message("no {market} price in {region} is known", market=market, region=query.region)
        unpriced = ((cloud.name, name) for cloud in clouds for name in cloud.unpriced(query))
        unranked += [(*entry, "no_price", detail) for entry in unpriced if entry not in named]
        return [Rejected(cloud=c, instance_type=name, reason=why, detail=d) for c, name, why, d in unranked]

    def price_cells(self, query: OfferQuery) -> Iterator[PriceCell]:
        """Every price of the query's types in its region and on its market."""
        return (cell for cloud in self._clouds_in_dollars(query) for cell in cloud.price_cells(query))

    def _matching(self, query: OfferQuery) -> Iterator[PriceCell]:
        return (cell for cloud in self._clouds_of(query) for cell in cloud.matching(query))

    @cached_property
    def _clouds(self) -> dict[str, Cloud]:
        clouds, assumed = {}, read_facts(self.bundles)
        for bundle in self.bundles:
            origins = read_origins(bundle)
            # Shared by all clouds of a bundle, and read with the first price.
            bases = cache(partial(read_bases, bundle, origins, self.currencies))
            for name in sorted(bundle.manifest["clouds"], key=lambda cloud: cloud != DEFAULT_CLOUD):
                clouds[name] = Cloud(
                    *(name, bundle, origins, self.currencies, self.capability_of),
                    *(assumed.get(name, {}), bases, self.overlays.get(name, NO_OVERLAY)),
                )
        for bundle in self.bundles:
            for name in bundle.manifest.get("disk_prices", ()):
                clouds[name].disk_imports.append(bundle)
        return clouds

    def _clouds_of(self, query: OfferQuery) -> list[Cloud]:
        """The clouds of a query with prices in its region; `UsageError` for unknown names in the query."""
        clouds = self._clouds_in_dollars(query)
        for name in query.instances:
            require_instance(name, clouds)
        for name in query.gpus:
            require_gpu(name, self.gpus, clouds)
        if query.region is not None:
            require_region(query.region, clouds)
            clouds = [cloud for cloud in clouds if query.region in cloud.priced_regions]
        return clouds

    def _clouds_in_dollars(self, query: OfferQuery) -> list[Cloud]:
        """The named cloud, or all whose prices are known in dollars."""
        clouds = self._homes(query.cloud)
        if query.cloud not in (None, "any"):
            require_rate(clouds[0])
        return [cloud for cloud in clouds if cloud.has_rate]

    def _home_of(self, name: str, cloud: str | None) -> Cloud:
        """The named cloud, else the only one that has a type; `UsageError` for none or several."""
        clouds = self._homes(cloud)
        require_instance(name, clouds)
        homes = [home for home in clouds if name in home.instances]
        if len(homes) > 1:
            raise UsageError(
                "{name} is a type of {clouds}",
                name=name,
                clouds=[home.name for home in homes],
                field="instance",
                hint=Message("give {cloud} one of them", cloud=FieldName("cloud")),
            )
        return homes[0]

    def _homes(self, cloud: str | None) -> list[Cloud]:
        """The named cloud; all of them for None and "any"."""
        return list(self._clouds.values()) if cloud in (None, "any") else [self._cloud(str(cloud))]

    def _cloud(self, name: str) -> Cloud:
        if name not in self._clouds:
            if name in _WITHOUT_FACTS:
                hint = Message("`advisor catalog import` ranks those of a file that tells them")
                raise UsageError(
                    "vCPUs and RAM of {name}'s types are not known here", name=name, field="cloud", hint=hint
                )
            raise unknown_name("cloud", name, self._clouds, field="cloud")
        return self._clouds[name]
