"""Compares two saved reports or recommendations; the result is a document of schema `advisor.report-diff/1`.

Both documents are read as flat maps (a price, an interval or a reason for each spec or type), whose keys and
values are then compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from advisor.domain import HOURS_PER_MONTH
from advisor.render.document import is_language
from advisor.render.facts import hours_of_month, per_month, run_usd, usd_per_million_samples
from advisor.render.records import BOUNDS

SCHEMA = "advisor.report-diff/1"
RECOMMENDATION, REPORT = "advisor.recommendation/1", "advisor.report/1"
COMPARED = (REPORT, RECOMMENDATION)
# Summing the same prices in another order changes the last digits.
_SAME = 1e-9

Document = Mapping[str, Any]
K = TypeVar("K", bound=Hashable)


class Key(NamedTuple):
    """What identifies the same purchase in both documents: the offer, its number and the disk order."""

    cloud: str
    region: str
    market: str
    instance_type: str
    machines: int
    disk: str


class Workload(NamedTuple):
    """One workload of a document. `section` holds what a report has beyond its recommendation."""

    name: str
    recommendation: Document
    section: Document

    @property
    def pick(self) -> Document | None:
        """The recommended spec, or None if nothing meets the target."""
        spec: Document | None = self.recommendation["recommendation"]
        return spec

    @property
    def about(self) -> tuple[str, str]:
        """The task and model, by which workloads with different names are paired."""
        request = self.recommendation["request"]
        return request["task"], request["model"]

    @property
    def usd_per_hour(self) -> float | None:
        """The total price of the pick per hour, in dollars."""
        return self.pick["price"]["total_usd_per_hour"] if self.pick else None

    @property
    def month_usd(self) -> float | None:
        """Dollars per month of a workload that is kept running, or that runs as often as its plan says."""
        run, often, usd = run_usd(self.pick), self.section.get("runs_per_month"), self.usd_per_hour
        if self.pick and usd and run is None:
            return per_month(usd, hours_of_month(self.section, self.pick))
        return run and often and run * often

    @property
    def kept_usd_per_hour(self) -> float | None:
        """Dollars per hour of a workload that is kept running; None for a run that ends."""
        return self.usd_per_hour if run_usd(self.pick) is None else None

    def asked(self) -> Document:
        """The fields of the question; `horizon_hours` is the usual one if `runs_per_month` gave it."""
        request, often = self.recommendation["request"], self.section.get("runs_per_month")
        is_derived = often and request.get("horizon_hours") == round(HOURS_PER_MONTH / often, 2)
        return {**request, "horizon_hours": float(HOURS_PER_MONTH)} if is_derived else request

    def ranked(self) -> dict[Key, int]:
        """The ranks of the recommended spec and its alternatives, from 1 on."""
        specs = [spec for spec in (self.pick, *self.recommendation["alternatives"]) if spec]
        return {key_of(spec): rank for rank, spec in enumerate(specs, start=1)}

    def named(self) -> Sequence[Document]:
        """Every spec with all its details: the ranked ones, or the nearest one if there are none."""
        answer = self.recommendation
        return [spec for spec in (self.pick, *answer["alternatives"], answer["nearest"]) if spec]

    def prices(self) -> dict[Key, float]:
        """The total dollars per hour of every spec whose price the document has: ranked and charted specs,
        and the recommended one on other markets and in other regions."""
        usd_by_key: dict[Key, float] = {}
        if self.pick:
            key = key_of(self.pick)
            for row in (self.section.get("costs") or {}).get("choices", ()):
                usd_by_key[key._replace(market=row["market"])] = row["usd_per_hour"]
            for row in self.section.get("regions") or ():
                if row["total_usd_per_hour"] is not None:
                    usd_by_key[key._replace(region=row["region"])] = row["total_usd_per_hour"]
        drawn = self.section.get("price_throughput") or ()
        usd_by_key |= {key_of(row): row["total_usd_per_hour"] for row in drawn}
        return usd_by_key | {key_of(spec): spec["price"]["total_usd_per_hour"] for spec in self.named()}

    def rates(self) -> dict[Key, Document]:
        """Lower bound, median and upper bound (samples/s), and the batch size, of every spec."""
        named = {
            key_of(spec): spec["predicted"]["throughput"] | {"batch_size": spec.get("batch_size")}
            for spec in self.named()
        }
        return {key_of(row): row for row in self.section.get("price_throughput") or ()} | named

    def rejections(self) -> dict[str, Document]:
        """The reason why each type was rejected, keyed by its name."""
        return {row["instance_type"]: row for row in self.recommendation["rejected"]}

    def not_named(self) -> int:
        """The number of rejected types that the document does not name: it may name only the nearest."""
        answer = self.recommendation
        return max(0, int(answer["catalog"]["offers_rejected"]) - len(answer["rejected"]))


def workloads_of(document: Document) -> dict[str, Workload]:
    """Return the workloads of a document in `COMPARED`, keyed by name."""
    if document["schema"] == REPORT:
        sections = document["workloads"]
        return {row["name"]: Workload(row["name"], row["recommendation"], row) for row in sections}
    request = document["request"]
    name = f"{request['model']} {request['task']}"
    return {name: Workload(name, document, {})}


def key_of(spec: Document) -> Key:
    """Return the key of a candidate, or of a row of `price_throughput`."""
    disk = spec["disk"]["order"] if isinstance(spec["disk"], Mapping) else spec["disk"]
    return Key(spec["cloud"], spec["region"], spec["market"], spec["instance_type"], spec["count"], disk)


def spec_document(key: Key) -> dict[str, Any]:
    """Return a key as the fields of a document."""
    return {("count" if name == "machines" else name): value for name, value in key._asdict().items()}


def differ(old: float | None, new: float | None) -> bool:
    """Return whether two numbers differ by more than rounding, or only one of them is known."""
    if old is None or new is None:
        return old is not new
    return not math.isclose(old, new, rel_tol=_SAME, abs_tol=1e-12)


def percent(old: float | None, new: float | None) -> float | None:
    """Return the change in percent (12.5 for an eighth more), or None if it cannot be computed."""
    return 100 * (new / old - 1) if old and new is not None else None


def change(old: float | None, new: float | None) -> dict[str, Any]:
    """Return a number in both documents and its change in percent."""
    return {"old": old, "new": new, "percent": percent(old, new) if differ(old, new) else 0.0}


def _changed_numbers(
    old: Mapping[K, float], new: Mapping[K, float], named: Callable[[K], Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the numbers that differ under keys that both have, the largest change first."""
    keys = [key for key in old if key in new and differ(old[key], new[key])]
    rows = [{**named(key), **change(old[key], new[key])} for key in keys]
    return sorted(rows, key=lambda row: (-abs(row["percent"] or math.inf), str(row)))


def _came_and_went(old: Mapping[K, Any], new: Mapping[K, Any]) -> dict[str, list[K]]:
    """Return the keys found only in `new` (came) and only in `old` (went), in their order."""
    return {"came": [key for key in new if key not in old], "went": [key for key in old if key not in new]}


def difference(old: Document, new: Document, *files: str) -> dict[str, Any]:
    """Return the difference of two documents in `COMPARED`, read from these `files`, as JSON-ready values.
    `_paired` pairs the workloads, in the order of the new document. Raises `KeyError` or `TypeError` for
    documents that lack what their schema demands."""
    before, after = workloads_of(old), workloads_of(new)
    pairs = _paired(before, after)
    rows = [_workload_change(name, was, now) for name, was, now in pairs]
    stands_on = _fact_changes(*(_evidence(document, pairs, side) for side, document in enumerate((old, new))))
    # Count only workloads with a pick on both sides: a new or removed one makes nothing dearer.
    both = [(was, now) for _, was, now in pairs if was and now and was.pick and now.pick]
    hourly = _sums(both, lambda workload: workload.kept_usd_per_hour)
    monthly = _sums(both, lambda workload: workload.month_usd if workload.kept_usd_per_hour else None)
    return {
        "schema": SCHEMA,
        "old": _document_facts(old, len(before), *files[:1]),
        "new": _document_facts(new, len(after), *files[1:]),
        "changed": any(row["status"] != "same" for row in rows)
        or any(fact["changed"] for fact in stands_on.values()),
        "totals": {
            "compared": len(both),
            "usd_per_hour": hourly,
            "usd_per_month": monthly,
            "month_usd": monthly,
            "run_usd": _sums(both, lambda workload: run_usd(workload.pick)),
            "all_usd_per_hour": _sum_change(before, after, lambda workload: workload.kept_usd_per_hour),
            "all_month_usd": _sum_change(before, after, lambda workload: workload.month_usd),
            "all_month_lacks": {"old": list(_missing_costs(pairs, 0)), "new": list(_missing_costs(pairs, 1))},
        },
        "stands_on": stands_on,
        "workloads": rows,
    }


UsdOf = Callable[[Workload], float | None]


def _sums(both: Sequence[tuple[Workload, Workload]], usd_of: UsdOf) -> dict[str, Any] | None:
    """Return the sums, on both days, over workloads that have such a cost on both; None if none has."""
    usd = [(usd_of(was), usd_of(now)) for was, now in both]
    old, new = ([pair[day] or 0.0 for pair in usd if None not in pair] for day in (0, 1))
    return change(sum(old), sum(new)) if old else None


Pair = tuple[str, Workload | None, Workload | None]


def _paired(old: Mapping[str, Workload], new: Mapping[str, Workload]) -> list[Pair]:
    """Pair workloads of the same name, then those of other names if task and model match or each side has
    just one. Unpaired ones come last."""
    left, pairs = dict(old), list[Pair]()
    alone = len(old) == len(new) == 1
    for name, now in new.items():
        twins = (each for each in left if each not in new and (alone or left[each].about == now.about))
        pairs.append((name, left.pop(name if name in left else next(twins, ""), None), now))
    return [*pairs, *((name, was, None) for name, was in left.items())]


def _document_facts(document: Document, workloads: int, file: str | None = None) -> dict[str, Any]:
    title, day = document.get("title"), str(document["as_of"])
    return {"file": file, "schema": document["schema"], "title": title, "as_of": day, "workloads": workloads}


def _sum_change(old: Mapping[str, Workload], new: Mapping[str, Workload], usd_of: UsdOf) -> dict[str, Any]:
    known = [[usd for each in side.values() if (usd := usd_of(each)) is not None] for side in (old, new)]
    return change(*(sum(usd) if usd else None for usd in known))


def _missing_costs(pairs: Sequence[Pair], side: int) -> Iterator[dict[str, Any]]:
    """Yield the workloads that are missing in the monthly sum of this `side` (0: old, 1: new) but not in the
    other's, with their dollars there and why they are missing."""
    for name, *both in pairs:
        here, there = both[side], both[1 - side]
        if there and there.month_usd is not None and (here is None or here.month_usd is None):
            why = "not_asked" if here is None else "not_planned" if here.pick else "nothing_fits"
            yield {"name": name, "month_usd": there.month_usd, "why": why}


def _fact_changes(before: Document, after: Document) -> dict[str, Any]:
    """Return, for the catalogue, models, measurements and program, the old and new facts and whether they
    differ. Only facts in both documents are compared; a recommendation has fewer than a report."""
    facts = {}
    for name, was in before.items():
        now = after[name]
        shared = [(was[key], now[key]) for key in was if was[key] is not None and now[key] is not None]
        changed = any(differ(a, b) if isinstance(a, float) else a != b for a, b in shared)
        facts[name] = {"changed": changed, "old": was, "new": now}
    return facts


def _evidence(document: Document, pairs: Sequence[Pair], side: int) -> dict[str, dict[str, Any]]:
    """Return the catalogue, models, measurements and program behind one document, the first or second `side`
    of each pair. Facts that a recommendation lacks are null."""
    facts = document.get("reproducibility", document)
    both = [(was, now)[side].recommendation for _, was, now in pairs if was and now]
    language = [answer["performance_model"]["id"] for answer in both if is_language(answer)]
    catalog, model = facts["catalog"], facts["performance_model"] if len(language) < len(both) else {}
    rows = facts.get("measurements", {})
    return {
        "catalog": {"as_of": catalog["as_of"], "sha256": catalog.get("sha256")},
        "performance_model": {
            name: model.get(name) for name in ("id", "trained_on", "error_percent", "sha256")
        },
        "language_predictors": {"ids": ", ".join(dict.fromkeys(language)) or None},
        "measurements": {name: rows.get(name) for name in ("rows", "bundled_sha256")},
        "advisor": {"version": facts.get("versions", {}).get("advisor")},
    }


def _workload_change(name: str, old: Workload | None, new: Workload | None) -> dict[str, Any]:
    """Return the changes of a workload that both have: its pick, prices, predictions, alternatives,
    rejections, measurements and warnings. A new or removed workload has only its status, spec and cost."""
    month = change(*(side and side.month_usd for side in (old, new)))
    if old is None or new is None:
        workload = new or old
        assert workload is not None
        return {
            "name": name,
            "status": "added" if old is None else "removed",
            "spec": spec_document(key_of(workload.pick)) if workload.pick else None,
            "usd_per_hour": workload.usd_per_hour,
            "run_usd": run_usd(workload.pick),
            "month_usd": month,
        }
    asked = _changed_request_fields(old, new)
    # A recommendation alone does not say how often the workload runs.
    tells = bool(old.section and new.section)
    planned = {
        f"{what}_per_month": [each.section.get(f"{what}_per_month") if tells else None for each in (old, new)]
        for what in ("runs", "hours")
    }
    runs = run_usd(old.pick), run_usd(new.pick)
    before, after = (key_of(side.pick) if side.pick else None for side in (old, new))
    rows: dict[str, Any] = {
        "request": asked,
        # Reasons are facts found in the documents; no guess is made which of several was decisive.
        "pick": {
            "changed": before != after,
            "old": _pick_block(old.pick),
            "new": _pick_block(new.pick),
            "reasons": list(_reasons(old, new, before, after)) if before != after else [],
        },
        "cost": change(old.usd_per_hour, new.usd_per_hour) if before and after else None,
        "run_usd": None if runs == (None, None) else change(*runs),
        "month_usd": month,
        **{name: None if was == now else change(was, now) for name, (was, now) in planned.items()},
        "prices": _changed_numbers(old.prices(), new.prices(), spec_document),
        "predictions": _prediction_changes(old.rates(), new.rates()),
        "alternatives": _alternative_changes(old.ranked(), new.ranked()),
        "rejected": _rejection_changes(old, new),
        "measured": _measured_changes(old.section, new.section),
        "warnings": _text_changes(old, new, "warnings"),
        "assumptions": _text_changes(old, new, "assumptions"),
    }
    # Warnings and assumptions do not count as changes: some state an age, which differs each day.
    lists = [asked, *(rows[name] for name in planned), rows["prices"], rows["predictions"]]
    for group in ("alternatives", "rejected", "measured"):
        lists += [part for key, part in rows[group].items() if key != "not_named"]
    changed = before != after or any(lists)
    unit = next((spec["predicted"]["unit"] for side in (new, old) for spec in side.named()), None)
    status = "changed" if changed else "same"
    return {"name": name, "old_name": old.name, "status": status, "unit": unit, **rows}


def _prediction_changes(old: Mapping[Key, Document], new: Mapping[Key, Document]) -> list[dict[str, Any]]:
    """Return the specs whose interval (samples/s) changed, the largest change of the median first."""
    rows = [
        {
            **spec_document(key),
            "median": change(was["median"], new[key]["median"]),
            "old_interval": {bound: was[bound] for bound in BOUNDS},
            "new_interval": {bound: new[key][bound] for bound in BOUNDS},
            "old_batch_size": was.get("batch_size"),
            "new_batch_size": new[key].get("batch_size"),
        }
        for key, was in old.items()
        if key in new and any(differ(was[bound], new[key][bound]) for bound in BOUNDS)
    ]
    return sorted(rows, key=lambda row: -abs(row["median"]["percent"] or 0.0))


def _alternative_changes(old: Mapping[Key, int], new: Mapping[Key, int]) -> dict[str, Any]:
    keys = _came_and_went(old, new)
    moved = [key for key in new if key in old and old[key] != new[key]]
    return {
        "came": [{**spec_document(key), "place": new[key]} for key in keys["came"]],
        "went": [{**spec_document(key), "place": old[key]} for key in keys["went"]],
        "moved": [{**spec_document(key), "old_place": old[key], "new_place": new[key]} for key in moved],
    }


def _rejection_changes(old: Workload, new: Workload) -> dict[str, Any]:
    before, after = ({name: row["reason"] for name, row in side.rejections().items()} for side in (old, new))
    names = _came_and_went(before, after)
    both = [name for name in after if name in before and before[name] != after[name]]
    # A document may name only the nearest rejected types, so a type that it omits may be rejected too.
    came, went = [] if old.not_named() else names["came"], [] if new.not_named() else names["went"]
    return {
        "came": [{"instance_type": name, "reason": after[name]} for name in came],
        "went": [{"instance_type": name, "reason": before[name]} for name in went],
        "reason_changed": [{"instance_type": name, "old": before[name], "new": after[name]} for name in both],
        "not_named": {"old": old.not_named(), "new": new.not_named()},
    }


def _measured_changes(old: Document, new: Document) -> dict[str, Any]:
    """Return how the measured samples per second of this network and task changed, by trial."""
    if not (old.get("complete") and new.get("complete")):
        return {"came": [], "went": [], "changed": []}
    before, after = (
        {row["trial_id"]: row["samples_per_second"] for row in side["measured"]} for side in (old, new)
    )
    trials = {name: sorted(ids) for name, ids in _came_and_went(before, after).items()}
    return trials | {"changed": _changed_numbers(before, after, lambda name: {"trial_id": name})}


def _text_changes(old: Workload, new: Workload, name: str) -> dict[str, Any]:
    before, after = (dict.fromkeys(side.recommendation.get(name) or ()) for side in (old, new))
    return _came_and_went(before, after)


def _changed_request_fields(old: Workload, new: Workload) -> list[dict[str, Any]]:
    before, after = old.asked(), new.asked()
    return [
        {"field": name, "old": before.get(name), "new": after.get(name)}
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    ]


def _pick_block(pick: Document | None) -> dict[str, Any] | None:
    if pick is None:
        return None
    return {
        **spec_document(key_of(pick)),
        "usd_per_hour": pick["price"]["total_usd_per_hour"],
        "price_kind": pick["price"]["kind"],
        "price_as_of": pick["price"]["as_of"],
        "probability": pick.get("probability"),
        "usd_per_million_samples": usd_per_million_samples(pick),
        **pick["predicted"]["throughput"],
        "bottleneck": pick.get("bottleneck"),
        "provenance": pick["predicted"]["provenance"],
    }


def _reasons(old: Workload, new: Workload, before: Key | None, after: Key | None) -> Iterator[dict[str, Any]]:
    """Yield why the pick changed. If the question differs, that is the only reason given. Otherwise the
    reasons are what became of the old pick, and the prices of both picks."""
    fields = _changed_request_fields(old, new)
    if fields:
        yield {"kind": "request", "fields": [field["field"] for field in fields]}
        return
    was, now, rejected = old.prices(), new.prices(), new.rejections()
    for kind, key in (("old_pick", before), ("new_pick", after)):
        facts: dict[str, Any] = {}
        if key in was and key in now and differ(was[key], now[key]):
            facts = {"usd_per_hour_then": was[key], "usd_per_hour": now[key]}
        if key == before and key and (row := rejected.get(key.instance_type)):
            facts |= {"now": "rejected", "reason": row["reason"], "detail": row["detail"]}
        elif key == before and key:
            facts |= {"now": "alternative" if key in new.ranked() else "absent"}
        if key and facts:
            yield {"kind": kind, **spec_document(key), **facts}
