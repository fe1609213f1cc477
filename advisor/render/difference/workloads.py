"""What changed in one workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.render.difference.changes import change, changed_numbers, coming_and_going, differ
from advisor.render.difference.picking import asked_differently, pick_change
from advisor.render.difference.reading import (
    Workload,
    key_of,
    measured,
    prices,
    rates,
    rejections,
    spec_document,
)

_BOUNDS = ("lower", "median", "upper")


def workload_change(name: str, old: Workload | None, new: Workload | None) -> dict[str, Any]:
    """Of a workload that both have: its pick, prices, predictions, alternatives, rejections,
    measurements, warnings. Of one that came or went only that."""
    if old is None or new is None:
        return _one_sided(name, old, new)
    rows = {
        "request": asked_differently(old, new),
        "pick": pick_change(old, new),
        "cost": _cost(old, new),
        "prices": changed_numbers(prices(old), prices(new), spec_document),
        "predictions": _predictions(old, new),
        "alternatives": _alternatives(old, new),
        "rejected": _rejected(old, new),
        "measured": _measured(old, new),
        "warnings": _texts(old, new, "warnings"),
        "assumptions": _texts(old, new, "assumptions"),
    }
    return {"name": name, "status": "changed" if _is_change(rows) else "same", **rows}


def _one_sided(name: str, old: Workload | None, new: Workload | None) -> dict[str, Any]:
    one = new or old
    assert one is not None
    pick = one.pick
    return {
        "name": name,
        "status": "added" if old is None else "removed",
        "spec": None if pick is None else spec_document(key_of(pick)),
        "usd_per_hour": None if pick is None else pick["price"]["total_usd_per_hour"],
    }


def _cost(old: Workload, new: Workload) -> dict[str, Any] | None:
    """What the picks cost an hour; None where a side has none."""
    if old.pick is None or new.pick is None:
        return None
    total = [one.pick["price"]["total_usd_per_hour"] for one in (old, new) if one.pick]
    return change(*total)


def _predictions(old: Workload, new: Workload) -> list[dict[str, Any]]:
    """Specs whose interval is another one, by the change of their median (samples per second)."""
    before, after = rates(old), rates(new)
    rows = [
        {
            **spec_document(key),
            "median": change(before[key]["median"], after[key]["median"]),
            "old_interval": {one: before[key][one] for one in _BOUNDS},
            "new_interval": {one: after[key][one] for one in _BOUNDS},
        }
        for key in before
        if key in after and any(differ(before[key][one], after[key][one]) for one in _BOUNDS)
    ]
    return sorted(rows, key=lambda row: -abs(row["median"]["percent"] or 0.0))


def _alternatives(old: Workload, new: Workload) -> dict[str, Any]:
    """Who came onto the list, who left it, and whose place is another one (1: recommended)."""
    before = {key_of(one): at for at, one in enumerate(old.ranked(), start=1)}
    after = {key_of(one): at for at, one in enumerate(new.ranked(), start=1)}
    came, went = coming_and_going(before, after)
    both = [key for key in after if key in before and before[key] != after[key]]
    return {
        "came": [{**spec_document(key), "place": after[key]} for key in came],
        "went": [{**spec_document(key), "place": before[key]} for key in went],
        "moved": [
            {**spec_document(key), "old_place": before[key], "new_place": after[key]}
            for key in both
        ],
    }


def _rejected(old: Workload, new: Workload) -> dict[str, Any]:
    """Which types are passed over now and were not, the reverse, and whose reason is another."""
    before, after = rejections(old), rejections(new)
    came, went = coming_and_going(before, after)
    both = [name for name in after if name in before]
    return {
        "came": [{"instance_type": name, "reason": after[name]["reason"]} for name in came],
        "went": [{"instance_type": name, "reason": before[name]["reason"]} for name in went],
        "reason_changed": [
            {"instance_type": name, "old": before[name]["reason"], "new": after[name]["reason"]}
            for name in both
            if before[name]["reason"] != after[name]["reason"]
        ],
    }


def _measured(old: Workload, new: Workload) -> dict[str, Any]:
    before, after = measured(old), measured(new)
    if before is None or after is None:
        return {"came": [], "went": [], "changed": []}
    came, went = coming_and_going(before, after)
    changed = changed_numbers(before, after, lambda name: {"trial_id": name})
    return {"came": sorted(came), "went": sorted(went), "changed": changed}


def _texts(old: Workload, new: Workload, name: str) -> dict[str, Any]:
    before = dict.fromkeys(old.recommendation.get(name) or ())
    after = dict.fromkeys(new.recommendation.get(name) or ())
    came, went = coming_and_going(before, after)
    return {"came": came, "went": went}


def _is_change(rows: Mapping[str, Any]) -> bool:
    """Warnings and assumptions are told, and are no change by themselves: some name an age, which
    is another one each day."""
    lists = [rows["request"], rows["prices"], rows["predictions"]]
    groups = [rows[name] for name in ("alternatives", "rejected", "measured")]
    return (
        rows["pick"]["changed"]
        or any(lists)
        or any(part for group in groups for part in group.values())
    )
