"""Spot prices of AWS: as observed, else from the saving that the Spot Instance Advisor tells.

The advisor's saving is of June 2025, the observation of September 2024. Over the types that both
know the price is `exp(a) x (1 - saving)^b` of the list price, fitted by group: where the saving is
taken as it is, half of the estimates are 11 % too high, and two to three times for small savings.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from advisor.infra.build.catalog.aws.estimates import interval
from advisor.infra.build.catalog.aws.families import family, letters
from advisor.infra.build.catalog.aws.lists import Dollars
from advisor.infra.build.catalog.tables import read_source

GPU, USUAL, OTHER = GROUPS = ("gpu", "usual", "other")
_USUAL_CLASSES = ("c", "m", "r", "t")


class Advice(NamedTuple):
    """Share of the on-demand price that is left, and the index of the interruption band."""

    share: float
    band: int


class Seen(NamedTuple):
    """A price that was observed: the type, that price over the on-demand one, and the advice."""

    name: str
    share: float
    advice: Advice


class Line(NamedTuple):
    """log(share of the on-demand price) = start + slope x log(the advised share)."""

    start: float
    slope: float

    def share(self, advised: float) -> float:
        """The share to expect."""
        return math.exp(self.start + self.slope * math.log(advised))


def advice() -> dict[str, dict[str, Advice]]:
    """Type -> region -> advice; a saving of nothing, or of everything, is none."""
    return {
        row["instance_type"]: dict(_advised(row))
        for row in read_source("catalog/aws_spot_advisor_2025-06-28.csv.gz")
    }


def group(name: str, has_gpu: bool) -> str:
    """Types whose spot prices behave alike."""
    if has_gpu:
        return GPU
    return USUAL if letters(family(name)) in _USUAL_CLASSES else OTHER


class SpotRules:
    """Lines by group, and how wrong they are."""

    def __init__(self, seen: Iterable[Seen], groups: Mapping[str, str]) -> None:
        self._seen: dict[str, list[Seen]] = defaultdict(list)
        for one in seen:
            self._seen[groups[one.name]].append(one)
        self._lines = {name: _fitted(of) for name, of in self._seen.items()}
        self._intervals: dict[str, tuple[float, float]] = {}

    def share(self, group: str, advised: float) -> float:
        """The expected share of the on-demand price, at most all of it."""
        return min(1.0, self._lines[group].share(advised))

    def observed_over_estimate(self, group: str) -> list[float]:
        """Observed over estimated prices, each family by a line fitted without it."""
        return list(self._left_out(self._seen[group]))

    def interval(self, group: str) -> tuple[float, float]:
        """The factors between which 90 % of the observed prices lie."""
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
    """Observed prices with their advice, where the on-demand price of then is that of today."""
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
    """Least squares in logarithms, moved to the median: half are dearer, half cheaper."""
    pairs = [(math.log(one.advice.share), math.log(one.share)) for one in seen]
    slope = statistics.linear_regression(*zip(*pairs, strict=True)).slope
    return Line(statistics.median(y - slope * x for x, y in pairs), slope)
