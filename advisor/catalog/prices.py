"""Prices of instances with their bases, the number of prices from each source, and the query for offers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from advisor.catalog.bundle import Files, StoredPrices, table_if_any
from advisor.catalog.instances import Origin, PartialType
from advisor.domain import ANY, FREE, InstanceType, Market, Price, Range
from advisor.domain.money import MAX_AGE_DAYS, PriceSpread, is_old, is_wanted

BASES_FILE = "catalog/price_kinds.csv"
# The environment variable with the units of a currency per US dollar.
RATE_VARIABLE = "ADVISOR_{}_PER_USD"
# A test that the prices of a query have to pass.
PriceFilter = Callable[[Price], bool]


class Currency(NamedTuple):
    """Units of a currency per US dollar, with their date; `own` if the user set them. nan: not known."""

    per_usd: float
    as_of: date
    own: bool = False

    def __str__(self) -> str:
        return f"{self.per_usd:g} a US dollar" + (" as told" if self.own else f" of {self.as_of}")


class Basis(Struct, frozen=True):
    """What prices rest on: their kind, currency and origin.

    The true price is within `low` to `high` times the stored one with a chance of 90 %."""

    kind: str
    origin: Origin
    currency: str
    rate: Currency
    terms: str = ""
    low: float = 1.0
    high: float = 1.0

    @property
    def source(self) -> str:
        """The origin, with the exchange rate for prices in another currency."""
        converted = self.rate.per_usd != 1
        return self.origin.text + (f"; {self.currency} at {self.rate}" if converted else "")

    def price(self, usd_per_hour: float) -> Price:
        """A price on this basis."""
        return Price(
            usd_per_hour=usd_per_hour,
            kind=self.kind,
            as_of=self.origin.as_of,
            source=self.source,
            terms=self.terms,
            low=self.low,
            high=self.high,
            max_age_days=self.origin.max_age_days,
            note=self.origin.note,
        )


def read_bases(
    files: Files, origins: Mapping[str, Origin], currencies: Mapping[str, Currency]
) -> dict[str, Basis]:
    """Every basis by its id; an import has no interval, and its terms are the origin's."""
    return {
        row["basis"]: Basis(
            kind=row["kind"],
            origin=origins[row["source"]],
            currency=row["currency"],
            rate=currencies[row["currency"]],
            terms=row.get("terms") or origins[row["source"]].terms,
            low=float(row.get("low") or 1),
            high=float(row.get("high") or 1),
        )
        for row in files.table(BASES_FILE).records()
    }


class PriceTable:
    """Prices of one market: a row per type, a column per region; a missing price is nan, never 0."""

    def __init__(self, stored: StoredPrices, bases: Mapping[str, Basis]) -> None:
        self.market = Market(stored.market)
        self.types = stored.types
        self.regions = stored.regions
        self._stored = stored
        self._bases = [bases[key] for key in stored.bases]
        self._per_usd = np.array([basis.rate.per_usd for basis in self._bases])
        self._in_dollars = bool((self._per_usd == 1).all())
        self._prices: dict[tuple[float, int], Price] = {}

    def cells(
        self, names: Collection[str] | None, region: str | None, price_filter: PriceFilter | None = None
    ) -> Iterator[tuple[int, int, float]]:
        """Row, column and USD per hour of prices that pass the filter, for types and a region (None: all)."""
        rows, columns = self._rows(names), self._columns(region)
        usd = self._filtered_usd(rows, columns, price_filter)
        row, column = np.nonzero(~np.isnan(usd))
        return zip(rows[row].tolist(), columns[column].tolist(), usd[row, column].tolist(), strict=True)

    def lowest(
        self,
        names: Collection[str],
        region: str | None,
        price_filter: PriceFilter | None = None,
        limit: float = math.inf,
    ) -> dict[str, float]:
        """Type -> its lowest price that passes the filter, where that is within the limit."""
        rows, columns = self._rows(names), self._columns(region)
        lowest = np.fmin.reduce(self._filtered_usd(rows, columns, price_filter), axis=1, initial=np.nan)
        within = lowest <= limit  # nan is not
        types = self.types
        return dict(zip((types[row] for row in rows[within].tolist()), lowest[within].tolist(), strict=True))

    def price(self, row: int, column: int) -> Price:
        """The price in a cell, with date and source; equal prices share one record."""
        basis = int(self._stored.basis[row, column])
        (usd,) = self._usd(np.array([row]), np.array([column])).ravel().tolist()
        if (usd, basis) not in self._prices:
            self._prices[usd, basis] = self._bases[basis].price(usd)
        return self._prices[usd, basis]

    def price_date(self, name: str, region: str) -> date | None:
        """The date of a type's price in a region; None without a price."""
        row, regions = self._row_of.get(name), self._column_of
        if row is None or region not in regions or not self._stored.position[row, regions[region]]:
            return None
        return self._bases[int(self._stored.basis[row, regions[region]])].origin.as_of

    @property
    def unconverted(self) -> frozenset[str]:
        """Currencies of its prices without a known rate."""
        return frozenset(basis.currency for basis in self._bases if math.isnan(basis.rate.per_usd))

    def _filtered_usd(
        self, rows: NDArray[np.intp], columns: NDArray[np.intp], price_filter: PriceFilter | None
    ) -> NDArray[np.float64]:
        """USD per hour of some cells; nan where a price does not pass the filter."""
        usd = self._usd(rows, columns)
        if price_filter is None:
            return usd
        kept = [price_filter(basis.price(0.0 if basis.kind == FREE else 1.0)) for basis in self._bases]
        return np.where(np.array(kept)[self._stored.basis[rows[:, None], columns]], usd, np.nan)

    def _usd(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[np.float64]:
        cells = rows[:, None], columns
        amounts: NDArray[np.float64] = self._stored.distinct[self._stored.position[cells]]
        return amounts if self._in_dollars else amounts / self._per_usd[self._stored.basis[cells]]

    def _rows(self, names: Collection[str] | None) -> NDArray[np.intp]:
        if names is None:
            return np.arange(len(self.types))
        row_of = self._row_of
        # `np.unique` would import numpy.ma, which takes 10 ms.
        return np.sort(np.array([*{row_of[name] for name in names if name in row_of}], np.intp))

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.types)}

    @cached_property
    def _column_of(self) -> dict[str, int]:
        return {name: column for column, name in enumerate(self.regions)}

    def _columns(self, region: str | None) -> NDArray[np.intp]:
        if region is None:
            return np.arange(len(self.regions))
        return np.array([self.regions.index(region)] if region in self.regions else [], np.intp)


SOURCES_FILE = "catalog/sources.csv"


class SourceUse(Struct, frozen=True, kw_only=True):
    """A source, and the number of prices from it.

    `prices` counts prices of instances and of disks. `max_age_days` is None without any price: facts do not
    expire. `note` is a warning for users, or empty."""

    source: str
    part: str
    as_of: date
    licence: str
    origin: str
    note: str
    prices: int
    max_age_days: int | None

    def age_days(self, today: date) -> int:
        """Days since its date."""
        return (today - self.as_of).days

    def is_too_old(self, today: date) -> bool:
        """True if an answer with `--strict` refuses its prices."""
        return self.max_age_days is not None and self.age_days(today) > self.max_age_days


def source_uses(files: Files, remaining: Callable[[str, StoredPrices], StoredPrices]) -> Iterator[SourceUse]:
    """Every source of a bundle; `remaining` drops a cloud's prices that an overlay replaces."""
    counts: Counter[str] = Counter()
    if files.has(BASES_FILE):
        source_of = {row["basis"]: row["source"] for row in files.table(BASES_FILE).records()}
        for cloud, facts in files.manifest["clouds"].items():
            for stored in (
                remaining(cloud, table) for path in facts["prices"] for table in files.prices(path)
            ):
                priced = stored.basis[stored.position > 0]
                for basis, count in zip(stored.bases, np.bincount(priced).tolist(), strict=False):
                    counts[source_of[basis]] += count
    for cloud in (*files.manifest["clouds"], *files.manifest.get("disk_prices", ())):
        table = table_if_any(files, f"catalog/{cloud}_disk_prices.csv")
        counts.update(row["source"] for row in table.records())
    for row in files.table(SOURCES_FILE).records():
        prices = counts[row["source"]]
        yield SourceUse(
            source=row["source"],
            part=row.get("part") or "imported",
            as_of=date.fromisoformat(row["as_of"]),
            licence=row["licence"],
            origin=row["origin"],
            note=row.get("note", ""),
            prices=prices,
            max_age_days=int(row.get("max_age_days") or MAX_AGE_DAYS) if prices else None,
        )


# "24GiB.." means cards sold with 24 GiB. Error correction and the driver keep up to 6.9 % of them (A10G 22.49
# of 24, T4 15 of 16, K80 11.17 of 12 GiB in nvidia-smi).
ECC_SHARE = 0.93

# Stands for every cloud; no cloud has this name.
ANY_CLOUD = "any"


class OfferQuery(Struct, frozen=True, kw_only=True):
    """A filter over offers; None or an empty tuple does not filter.

    `cloud` may be "any". `gpus` are names as clouds or data sheets write them ("A100" is every A100,
    "A100-SXM4-80GB" one of them). `accelerated` keeps types with (True) or without (False) a GPU or another
    accelerator. `max_usd_per_hour` limits the instance alone: with its disk a spec costs more, so the total
    is limited where specs are made. GPU memory is that of one GPU, or of the share of one that a type has; a
    K80 card counts as two GPUs. `listed_on` keeps prices that are listed and not old on that day, `fresh_on`
    prices that are not old then, `price_spread` prices that are sure enough."""

    cloud: str | None = None
    region: str | None = None
    market: Market | None = None
    price_kinds: tuple[str, ...] = ()
    listed_on: date | None = None
    fresh_on: date | None = None
    price_spread: PriceSpread | None = None
    gpus: tuple[str, ...] = ()
    min_gpu_memory_mib: float | None = None
    accelerated: bool | None = None
    max_usd_per_hour: float | None = None
    instances: tuple[str, ...] = ()
    max_gpu_memory_mib: float | None = None
    compute_capability: Range = ANY
    vcpus: Range = ANY
    memory_mib: Range = ANY

    @property
    def price_filter(self) -> Callable[[Price], bool] | None:
        """The test that a price has to pass; None where every price does."""
        kinds, listed_on, fresh_on = self.price_kinds, self.listed_on, self.fresh_on
        spread = self.price_spread
        if not kinds and listed_on is None and fresh_on is None and spread is None:
            return None
        return lambda price: (
            is_wanted(price, kinds, listed_on)
            and (fresh_on is None or not is_old(price, fresh_on))
            and (spread is None or spread.allows(price))
        )

    @property
    def asks_for_gpu(self) -> bool:
        """True if it has a condition that only a GPU can meet."""
        memory = (self.min_gpu_memory_mib, self.max_gpu_memory_mib)
        return bool(self.gpus) or memory != (None, None) or self.compute_capability.limits

    @property
    def asks_for_facts(self) -> bool:
        """True if it has a condition on the instance besides its name."""
        host = self.vcpus.limits or self.memory_mib.limits
        return self.asks_for_gpu or host or self.accelerated is not None


def matches_instance(known: InstanceType | PartialType, query: OfferQuery, capability: float | None) -> bool:
    """True if a type matches, apart from its price. Facts that are unknown of a type do not exclude it,
    except its GPU where the query names one."""
    accelerated = known.gpu_name is not None
    if isinstance(known, InstanceType):
        accelerated = is_accelerated(known)
    return (
        query.cloud in (None, ANY_CLOUD, known.cloud)
        and (not query.instances or known.name in query.instances)
        and query.accelerated in (None, accelerated)
        and (not query.gpus or any(is_gpu(known.gpu_name, name) for name in query.gpus))
        and capability in query.compute_capability
        and has_memory(known.gpu_memory_mib, query.min_gpu_memory_mib, query.max_gpu_memory_mib)
        and (known.vcpus is None or known.vcpus in query.vcpus)
        and (known.memory_mib is None or known.memory_mib in query.memory_mib)
    )


def has_memory(mib: float | None, least: float | None, most: float | None) -> bool:
    """True if a GPU with `mib` of memory is sold as one of `least`..`most` MiB."""
    if least is not None and (mib is None or mib < ECC_SHARE * least):
        return False
    return most is None or (mib is not None and mib <= most)


def is_accelerated(instance: InstanceType) -> bool:
    """True if a type has a GPU, or another accelerator (which may not run PyTorch at all)."""
    return instance.gpu_count > 0 or instance.accelerator is not None


def is_gpu(gpu_name: str | None, text: str) -> bool:
    """True if a text names the GPU: 'NVIDIA A100 80GB' and 'A100' name 'A100-SXM4-80GB', 'T4' not 'T4G'."""
    if gpu_name is None:
        return False
    name, wanted = gpu_name.casefold(), text.casefold()
    return name == wanted or name.startswith(f"{wanted}-") or _is_alias(gpu_name, text)


@lru_cache(maxsize=4096)
def _is_alias(gpu_name: str, text: str) -> bool:
    """True if a text is another name of the GPU; cached, since thousands of types have a few cards."""
    from advisor.domain.gpu_names import gpus_named  # few ask for a GPU by name

    return bool(gpus_named(text, (gpu_name,)))
