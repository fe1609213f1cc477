"""`advisor.report-diff/1`: what changed between two saved reports or recommendations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.domain import HOURS_PER_MONTH
from advisor.render.difference.reading import (
    RECOMMENDATION,
    Document,
    Side,
    Workload,
    change,
    differ,
    side_of,
)
from advisor.render.difference.workloads import workload_change
from advisor.render.document import is_language

SCHEMA = "advisor.report-diff/1"


def difference(old: Document, new: Document) -> dict[str, Any]:
    """The whole of it as JSON-ready values; the documents are of `reading.COMPARED`.

    Workloads are the same by name; where both documents have one only, those two are. Raises
    `KeyError` or `TypeError` for documents that lack what their schema demands.
    """
    before, after = side_of(old), side_of(new)
    rows = [workload_change(name, was, now) for name, was, now in _paired(before, after)]
    stands_on = _stands_on(before, after)
    return {
        "schema": SCHEMA,
        "old": _head(before),
        "new": _head(after),
        "changed": any(row["status"] != "same" for row in rows)
        or any(change["changed"] for change in stands_on.values()),
        "totals": _totals(before, after),
        "stands_on": stands_on,
        "workloads": rows,
    }


def _paired(old: Side, new: Side) -> list[tuple[str, Workload | None, Workload | None]]:
    """In the order of the new document; what it lacks comes last."""
    if len(old.workloads) == len(new.workloads) == 1:
        (was,), (now,) = old.workloads.values(), new.workloads.values()
        return [(now.name, was, now)]
    names = dict.fromkeys([*new.workloads, *old.workloads])
    return [(name, old.workloads.get(name), new.workloads.get(name)) for name in names]


def _head(side: Side) -> dict[str, Any]:
    document = side.document
    return {
        "schema": document["schema"],
        "title": document.get("title"),
        "as_of": side.day,
        "workloads": len(side.workloads),
    }


def _totals(old: Side, new: Side) -> dict[str, Any]:
    """Of the workloads that both have a pick for, so that one that came or went makes nothing
    dearer; and of all. USD; null where there is none."""
    both = [
        (was.pick["price"]["total_usd_per_hour"], now.pick["price"]["total_usd_per_hour"])
        for _, was, now in _paired(old, new)
        if was and now and was.pick and now.pick
    ]
    hourly = change(sum(usd for usd, _ in both), sum(usd for _, usd in both)) if both else None
    monthly = hourly and {
        **hourly,
        "old": HOURS_PER_MONTH * hourly["old"],
        "new": HOURS_PER_MONTH * hourly["new"],
    }
    return {
        "compared": len(both),
        "usd_per_hour": hourly,
        "usd_per_month": monthly,
        "all_usd_per_hour": change(_whole(old), _whole(new)),
    }


def _whole(side: Side) -> float | None:
    picks = [workload.pick for workload in side.workloads.values() if workload.pick]
    return sum(pick["price"]["total_usd_per_hour"] for pick in picks) if picks else None


def _stands_on(old: Side, new: Side) -> dict[str, Any]:
    """Catalogue, performance model, measurements and program: which of them are others now."""
    before, after = _context(old), _context(new)
    return {
        name: {"changed": _is_other(before[name], after[name]), "old": before[name], "new": after[name]}
        for name in before
    }


def _is_other(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """By the facts that both tell: a recommendation tells fewer than a report."""
    shared = [name for name in old if old[name] is not None and new[name] is not None]
    return any(
        differ(old[name], new[name]) if isinstance(old[name], float) else old[name] != new[name]
        for name in shared
    )


def _context(side: Side) -> dict[str, dict[str, Any]]:
    document = side.document
    if document["schema"] == RECOMMENDATION:
        facts: Mapping[str, Any] = {}
        catalog, model = document["catalog"], document["performance_model"]
        if is_language(document):
            facts, model = {"language_predictors": [model]}, {}
    else:
        facts = document["reproducibility"]
        catalog, model = facts["catalog"], facts["performance_model"]
    measurements = facts.get("measurements", {})
    predictors = facts.get("language_predictors") or ()
    return {
        "catalog": {"as_of": catalog["as_of"], "sha256": catalog.get("sha256")},
        "performance_model": {
            **{name: model.get(name) for name in ("id", "trained_on", "error_percent")},
            "sha256": model.get("sha256"),
        },
        "language_predictors": {"ids": ", ".join(each["id"] for each in predictors) or None},
        "measurements": {
            "rows": measurements.get("rows"),
            "bundled_sha256": measurements.get("bundled_sha256"),
        },
        "advisor": {"version": facts.get("versions", {}).get("advisor")},
    }
