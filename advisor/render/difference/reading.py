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
        spec: Document | None = self.recommendation["recommendation"]
        return spec

    def ranked(self) -> Sequence[Document]:
        """The recommended spec and its alternatives."""
        return [spec for spec in (self.pick,) if spec] + list(self.recommendation["alternatives"])

    def named(self) -> Sequence[Document]:
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
        workloads = [_of_section(workload) for workload in document["workloads"]]
    else:
        asked = document["request"]
        workloads = [Workload(f"{asked['model']} {asked['task']}", document, {})]
    names: dict[str, Workload] = {}
    for workload in workloads:
        name, number = workload.name, 2
        while name in names:
            name, number = f"{workload.name} ({number})", number + 1
        names[name] = workload
    return Side(document, names)


def _of_section(section: Document) -> Workload:
    return Workload(str(section["name"]), section["recommendation"], section)


def key_of(document: Document) -> Key:
    """Of a candidate, or of a row of `price_throughput`."""
    disk = document["disk"]
    order = disk["order"] if isinstance(disk, Mapping) else disk
    return Key(
        document["cloud"],
        document["region"],
        document["market"],
        document["instance_type"],
        document["count"],
        order,
    )


def spec_document(key: Key) -> dict[str, Any]:
    """A key as the document tells it."""
    fields = key._asdict()
    return {("count" if name == "machines" else name): value for name, value in fields.items()}


def prices(workload: Workload) -> dict[Key, float]:
    """USD an hour, all in, of everything whose price is told: ranked specs, drawn ones, and the
    recommended one on other markets and in other regions."""
    usd_by_key = dict(_elsewhere(workload))
    usd_by_key |= {key_of(row): row["total_usd_per_hour"] for row in _drawn(workload)}
    return usd_by_key | {key_of(row): row["price"]["total_usd_per_hour"] for row in workload.named()}


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
    drawn: dict[Key, Document] = {key_of(row): row for row in _drawn(workload)}
    named = {key_of(row): row["predicted"]["throughput"] for row in workload.named()}
    return drawn | named


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
    old: Mapping[_K, float], new: Mapping[_K, float], named: Callable[[_K], Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What both have under the same key, and not the same; the largest change first."""
    keys = [key for key in old if key in new and differ(old[key], new[key])]
    rows = [{**named(key), **change(old[key], new[key])} for key in keys]
    return sorted(rows, key=lambda row: (-abs(row["percent"] or math.inf), str(row)))


def coming_and_going(old: Mapping[_K, Any], new: Mapping[_K, Any]) -> tuple[list[_K], list[_K]]:
    """The keys that only the new one has, and those that only the old one has, in their order."""
    return [key for key in new if key not in old], [key for key in old if key not in new]
