"""Saved reports and recommendations as one shape, and whether two values of a fact differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

Document = Mapping[str, Any]

RECOMMENDATION, REPORT = "advisor.recommendation/1", "advisor.report/1"
COMPARED = (REPORT, RECOMMENDATION)


class Key(NamedTuple):
    """The offer and the disk order: what is the same thing to buy on both days."""

    cloud: str
    region: str
    market: str
    instance_type: str
    machines: int
    disk: str


class Workload(NamedTuple):
    """One workload of a document. `section` has what a report tells beyond its recommendation."""

    name: str
    recommendation: Document
    section: Document

    @property
    def pick(self) -> Document | None:
        """The recommended spec; None where nothing meets the target."""
        found: Document | None = self.recommendation["recommendation"]
        return found

    def ranked(self) -> Sequence[Document]:
        """The recommended spec and its alternatives."""
        return [one for one in (self.pick,) if one] + list(self.recommendation["alternatives"])

    def told(self) -> Sequence[Document]:
        """And the nearest spec, where nothing meets the target."""
        nearest = self.recommendation["nearest"]
        return [*self.ranked(), *([nearest] if nearest else [])]


class Side(NamedTuple):
    """The old or the new document."""

    document: Document
    workloads: Mapping[str, Workload]

    @property
    def day(self) -> str:
        """YYYY-MM-DD."""
        return str(self.document["as_of"])


def side_of(document: Document) -> Side:
    """The workloads of a document of `COMPARED`, by name; one of the same name gets a number."""
    if document["schema"] == REPORT:
        found = [_of_section(one) for one in document["workloads"]]
    else:
        asked = document["request"]
        found = [Workload(f"{asked['model']} {asked['task']}", document, {})]
    names: dict[str, Workload] = {}
    for one in found:
        name, number = one.name, 2
        while name in names:
            name, number = f"{one.name} ({number})", number + 1
        names[name] = one
    return Side(document, names)


def _of_section(section: Document) -> Workload:
    return Workload(str(section["name"]), section["recommendation"], section)


def key_of(one: Document) -> Key:
    """Of a candidate, or of a row of `price_throughput`."""
    disk = one["disk"]
    order = disk["order"] if isinstance(disk, Mapping) else disk
    return Key(
        one["cloud"], one["region"], one["market"], one["instance_type"], one["count"], order
    )


def spec_document(key: Key) -> dict[str, Any]:
    """A key as the document tells it."""
    told = key._asdict()
    return {("count" if name == "machines" else name): value for name, value in told.items()}


def prices(workload: Workload) -> dict[Key, float]:
    """USD an hour, all in, of everything whose price is told: ranked specs, drawn ones, and the
    recommended one on other markets and in other regions."""
    found = dict(_elsewhere(workload))
    found |= {key_of(one): one["total_usd_per_hour"] for one in _drawn(workload)}
    return found | {key_of(one): one["price"]["total_usd_per_hour"] for one in workload.told()}


def _elsewhere(workload: Workload) -> Iterator[tuple[Key, float]]:
    if workload.pick is None:
        return
    key = key_of(workload.pick)
    for row in (workload.section.get("costs") or {}).get("choices", ()):
        yield key._replace(market=row["market"]), row["usd_per_hour"]
    for row in workload.section.get("regions") or ():
        if row["total_usd_per_hour"] is not None:
            yield key._replace(region=row["region"]), row["total_usd_per_hour"]


def rates(workload: Workload) -> dict[Key, Document]:
    """Lower bound, median and upper bound (samples per second) of every spec that is told."""
    found: dict[Key, Document] = {key_of(one): one for one in _drawn(workload)}
    told = {key_of(one): one["predicted"]["throughput"] for one in workload.told()}
    return found | told


def _drawn(workload: Workload) -> Sequence[Document]:
    return workload.section.get("price_throughput") or ()


def measured(workload: Workload) -> dict[str, float] | None:
    """Measured samples per second of this network and task, by trial; None where nobody looked."""
    if not workload.section.get("complete"):
        return None
    rows = workload.section["measured"]
    return {row["trial_id"]: row["samples_per_second"] for row in rows}


def not_named(workload: Workload) -> int:
    """How many rejected types the document does not name: it may name the nearest alone."""
    document = workload.recommendation
    return max(0, int(document["catalog"]["offers_rejected"]) - len(document["rejected"]))


def rejections(workload: Workload) -> dict[str, Document]:
    """Why each type was passed over, by its name."""
    return {row["instance_type"]: row for row in workload.recommendation["rejected"]}


_K = TypeVar("_K", bound=Hashable)

# Sums of the same prices in another order differ in the last digits.
_SAME = 1e-9


def differ(old: float | None, new: float | None) -> bool:
    """Whether two numbers are not the same one, but for rounding."""
    if old is None or new is None:
        return old is not new
    return not math.isclose(old, new, rel_tol=_SAME, abs_tol=1e-12)


def percent(old: float | None, new: float | None) -> float | None:
    """12.5 for an eighth more; None where there is nothing to divide by."""
    return 100 * (new / old - 1) if old and new is not None else None


def change(old: float | None, new: float | None) -> dict[str, Any]:
    """A number on both days."""
    return {"old": old, "new": new, "percent": percent(old, new) if differ(old, new) else 0.0}


def changed_numbers(
    old: Mapping[_K, float], new: Mapping[_K, float], told: Callable[[_K], Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What both have under the same key, and not the same; the largest change first."""
    keys = [one for one in old if one in new and differ(old[one], new[one])]
    rows = [{**told(one), **change(old[one], new[one])} for one in keys]
    return sorted(rows, key=lambda row: (-abs(row["percent"] or math.inf), str(row)))


def coming_and_going(old: Mapping[_K, Any], new: Mapping[_K, Any]) -> tuple[list[_K], list[_K]]:
    """The keys that only the new one has, and those that only the old one has, in their order."""
    return [one for one in new if one not in old], [one for one in old if one not in new]
