"""Estimates on-demand and spot prices that no list has; on-demand prices from similar families in the region.

The ratio of a region's price to that of us-east-1 hardly differs between sizes of a family, and little
between newer families of one line (c7gd, c8gd: same class, CPU maker and suffix). The maker matters: in
ap-south-1 Graviton and AMD cost 30 to 40 % less than Intel. Bare metal costs as much as the type with the
same number of vCPUs. Accelerated types do not follow older ones: each GPU has different ratios. The error of
each method is measured on listed prices, with the type or family left out.

Spot prices are observed ones (September 2024), or follow from the saving that the Spot Instance Advisor
states (June 2025): `exp(a) x (1 - saving)^b` of the list price, fitted by group on types that have both.
Taking the saving literally makes half of the estimates at least 11 % too high, and for small savings two to
three times too high."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from advisor.infra.build.catalog.aws.lists import BARE_METAL, Dollars, family, generation, kinds, letters
from advisor.infra.build.catalog.tables import read_source

HOME = "us-east-1"
# From this generation on, AWS prices families of a class alike; older families have different ratios.
NEWER = 7
# Bare metal on a dedicated host costs at most this many times the type with as many vCPUs; beyond that it is
# a different machine (m8gb.metal-24xl).
_DEDICATED = 1.2

# Methods of estimating a price, best first.
WAYS = SAME_SIZE, SAME_FAMILY, SAME_LINE, SAME_CLASS, OLDER = (
    *("metal", "family", "line", "class", "older"),
)


class Estimate(NamedTuple):
    """An estimated price, which of `WAYS` it comes from, and the type whose listed price it is, if any."""

    usd: float
    way: str
    twin: str = ""


class Estimates:
    """Estimates from the prices in `listed`; `types` are source rows by name."""

    def __init__(self, listed: Dollars, types: Mapping[str, Mapping[str, str]]) -> None:
        self._listed = listed
        self._kinds = kinds({name: row["cpu_manufacturer"] for name, row in types.items()})
        self._vcpus = {name: row["vcpus"] for name, row in types.items()}
        cards = {row["family"] for row in read_source("catalog/aws_accelerators.csv")}
        cards |= {family(name) for name, row in types.items() if row["gpu_name"]}
        self._accelerated = frozenset(cards)
        self._sizes: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        for name, cells in listed.items():
            if HOME in cells and BARE_METAL not in name and name in types:
                for region, usd in cells.items():
                    self._sizes[family(name), region][name] = usd / cells[HOME]
        self._ratios = {key: statistics.median(of.values()) for key, of in self._sizes.items()}
        self._twins = {
            (family(name), row["vcpus"]): name for name, row in types.items() if BARE_METAL not in name
        }

    def estimate(self, name: str, region: str) -> Estimate | None:
        """The price of a type in a region that lists none; None if no similar type is listed."""
        if BARE_METAL in name:
            return self._of_metal(name, region)
        home = self._listed.get(name, {}).get(HOME)
        sizes = self._sizes.get((family(name), region))
        if home is None:
            return None
        if sizes:
            return Estimate(home * self._ratios[family(name), region], SAME_FAMILY)
        for way, ratios in self._kin(family(name), region):
            if ratios:
                return Estimate(home * statistics.median(ratios), way)
        return None

    def unlike(self, dedicated: Mapping[str, float]) -> set[str]:
        """Bare-metal types whose `dedicated` price shows a different machine from the virtual twin's."""
        return {
            name
            for name, usd in dedicated.items()
            for twin in [self._twin(name)]
            if twin and usd > _DEDICATED * self._listed.get(twin, {}).get(HOME, usd)
        }

    def left_out(self) -> Iterator[tuple[str, float]]:
        """Pairs of a method and (listed price / estimate made without it): for each bare-metal type, each
        size of a family, and each newer family by every applicable method."""
        for name, cells in self._listed.items():
            twin = self._listed.get(self._twin(name) or "", {})
            if BARE_METAL in name:
                yield from ((SAME_SIZE, usd / twin[at]) for at, usd in cells.items() if at in twin)
        for (_, region), sizes in self._sizes.items():
            if region != HOME and len(sizes) > 1:
                yield from ((SAME_FAMILY, ratio) for ratio in _over_the_others(sizes))
        for (name, region), ratio in self._ratios.items():
            if region != HOME and generation(name) >= NEWER:
                kin = self._kin(name, region)
                yield from ((way, ratio / statistics.median(of)) for way, of in kin if of)

    def _of_metal(self, name: str, region: str) -> Estimate | None:
        """The price, listed or estimated, of the type with as many vCPUs."""
        twin = self._twin(name)
        if twin is None:
            return None
        usd = self._listed.get(twin, {}).get(region)
        return Estimate(usd, SAME_SIZE, twin) if usd else self.estimate(twin, region)

    def _twin(self, name: str) -> str | None:
        return self._twins.get((family(name), self._vcpus.get(name, "")))

    def _kin(self, name: str, region: str) -> Iterable[tuple[str, list[float]]]:
        """The region's price ratios of other families: newer ones of the same line, newer ones of the same
        class, and the last generation before them."""
        own = self._kinds.get(name)
        if own is None:
            return
        kin = {
            other: self._ratios[other, region]
            for other, kind in self._kinds.items()
            if other != name and kind[:2] == own[:2] and (other, region) in self._ratios
        }
        newer = [other for other in kin if generation(other) >= NEWER]
        yield SAME_LINE, [kin[other] for other in newer if self._kinds[other] == own]
        yield SAME_CLASS, [kin[other] for other in newer]
        if name not in self._accelerated:
            older = [other for other in kin if generation(other) < NEWER]
            last = max(map(generation, older), default=0)
            yield OLDER, [kin[other] for other in older if generation(other) == last]


def _over_the_others(sizes: Mapping[str, float]) -> Iterator[float]:
    """Each ratio divided by the median of the others."""
    for name, ratio in sizes.items():
        yield ratio / statistics.median(other for size, other in sizes.items() if size != name)


def interval(ratios: Iterable[float]) -> tuple[float, float]:
    """An interval of factors that holds 90 % of the ratios and also 1, rounded outwards."""
    low, *_, high = statistics.quantiles(ratios, n=20)
    return min(1.0, int(low * 1000) / 1000), max(1.0, -int(-high * 1000 // 1) / 1000)


GPU, USUAL, OTHER = GROUPS = ("gpu", "usual", "other")
_USUAL_CLASSES = ("c", "m", "r", "t")


class Advice(NamedTuple):
    """The advised share of the on-demand price, and the index of the interruption band."""

    share: float
    band: int


class Seen(NamedTuple):
    """An observed spot price as a share of the on-demand price, with the type and the advice."""

    name: str
    share: float
    advice: Advice


class Line(NamedTuple):
    """log(share of the on-demand price) = start + slope x log(the advised share)."""

    start: float
    slope: float

    def share(self, advised: float) -> float:
        """The expected share of the on-demand price."""
        return math.exp(self.start + self.slope * math.log(advised))


def advice() -> dict[str, dict[str, Advice]]:
    """Type -> region -> advice; savings of 0 % or 100 % are ignored."""
    return {
        row["instance_type"]: dict(_advised(row))
        for row in read_source("catalog/aws_spot_advisor_2025-06-28.csv.gz")
    }


def group(name: str, has_gpu: bool) -> str:
    """The group of types with similar spot prices that a type belongs to."""
    if has_gpu:
        return GPU
    return USUAL if letters(family(name)) in _USUAL_CLASSES else OTHER


class SpotRules:
    """Fitted lines by group, and their errors."""

    def __init__(self, seen: Iterable[Seen], groups: Mapping[str, str]) -> None:
        self._seen: dict[str, list[Seen]] = defaultdict(list)
        for one in seen:
            self._seen[groups[one.name]].append(one)
        self._lines = {name: _fitted(of) for name, of in self._seen.items()}
        self._intervals: dict[str, tuple[float, float]] = {}

    def share(self, group: str, advised: float) -> float:
        """The expected share of the on-demand price, at most 1."""
        return min(1.0, self._lines[group].share(advised))

    def observed_over_estimate(self, group: str) -> list[float]:
        """Ratios of observed to estimated prices; each family is estimated by a line fitted without it."""
        return list(self._left_out(self._seen[group]))

    def interval(self, group: str) -> tuple[float, float]:
        """An interval of factors that holds 90 % of the observed prices."""
        if group not in self._intervals:
            self._intervals[group] = interval(self.observed_over_estimate(group))
        return self._intervals[group]

    def _left_out(self, seen: list[Seen]) -> Iterator[float]:
        for name in sorted({family(one.name) for one in seen}):
            line = _fitted([one for one in seen if family(one.name) != name])
            for one in seen:
                if family(one.name) == name:
                    yield one.share / line.share(one.advice.share)


def observations(observed: Dollars, on_demand: Dollars) -> list[Seen]:
    """Observed prices with their advice, for types whose on-demand price has not changed since."""
    advised = advice()
    return [
        Seen(name, usd / on_demand[name][region], advised[name][region])
        for name, cells in observed.items()
        for region, usd in cells.items()
        if region in on_demand.get(name, {}) and region in advised.get(name, {})
    ]


def _advised(row: Mapping[str, str]) -> Iterator[tuple[str, Advice]]:
    for region, cell in row.items():
        saving, _, band = cell.partition("~")
        if band and 0 < int(saving) < 100:
            yield region, Advice(1 - int(saving) / 100, int(band))


def _fitted(seen: Iterable[Seen]) -> Line:
    """Least squares in logarithms, shifted so that half of the prices lie above and half below."""
    pairs = [(math.log(one.advice.share), math.log(one.share)) for one in seen]
    slope = statistics.linear_regression(*zip(*pairs, strict=True)).slope
    return Line(statistics.median(y - slope * x for x, y in pairs), slope)
