"""What changed in one workload, and why its pick is another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.render.difference.reading import (
    Document,
    Key,
    Workload,
    change,
    changed_numbers,
    coming_and_going,
    differ,
    key_of,
    measured,
    not_named,
    prices,
    rates,
    rejections,
    spec_document,
)
from advisor.render.facts import usd_per_million_samples

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
    unit = next((spec["predicted"]["unit"] for side in (new, old) for spec in side.named()), None)
    status = "changed" if _is_change(rows) else "same"
    return {"name": name, "status": status, "unit": unit, **rows}


def _one_sided(name: str, old: Workload | None, new: Workload | None) -> dict[str, Any]:
    workload = new or old
    assert workload is not None
    pick = workload.pick
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
    total = [side.pick["price"]["total_usd_per_hour"] for side in (old, new) if side.pick]
    return change(*total)


def _predictions(old: Workload, new: Workload) -> list[dict[str, Any]]:
    """Specs whose interval is another one, by the change of their median (samples per second)."""
    before, after = rates(old), rates(new)
    rows = [
        {
            **spec_document(key),
            "median": change(before[key]["median"], after[key]["median"]),
            "old_interval": {bound: before[key][bound] for bound in _BOUNDS},
            "new_interval": {bound: after[key][bound] for bound in _BOUNDS},
        }
        for key in before
        if key in after and any(differ(before[key][bound], after[key][bound]) for bound in _BOUNDS)
    ]
    return sorted(rows, key=lambda row: -abs(row["median"]["percent"] or 0.0))


def _alternatives(old: Workload, new: Workload) -> dict[str, Any]:
    """Who came onto the list, who left it, and whose place is another one (1: recommended)."""
    before = {key_of(spec): at for at, spec in enumerate(old.ranked(), start=1)}
    after = {key_of(spec): at for at, spec in enumerate(new.ranked(), start=1)}
    came, went = coming_and_going(before, after)
    both = [key for key in after if key in before and before[key] != after[key]]
    return {
        "came": [{**spec_document(key), "place": after[key]} for key in came],
        "went": [{**spec_document(key), "place": before[key]} for key in went],
        "moved": [{**spec_document(key), "old_place": before[key], "new_place": after[key]} for key in both],
    }


def _rejected(old: Workload, new: Workload) -> dict[str, Any]:
    """Which types are passed over now and were not, the reverse, and whose reason is another."""
    before, after = rejections(old), rejections(new)
    came, went = coming_and_going(before, after)
    # A document may name the nearest rejected types alone: what it leaves out may be rejected too.
    came = [] if not_named(old) else came
    went = [] if not_named(new) else went
    both = [name for name in after if name in before]
    return {
        "came": [{"instance_type": name, "reason": after[name]["reason"]} for name in came],
        "went": [{"instance_type": name, "reason": before[name]["reason"]} for name in went],
        "reason_changed": [
            {"instance_type": name, "old": before[name]["reason"], "new": after[name]["reason"]}
            for name in both
            if before[name]["reason"] != after[name]["reason"]
        ],
        "not_named": {"old": not_named(old), "new": not_named(new)},
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
        or any(part for group in groups for name, part in group.items() if name != "not_named")
    )


def pick_change(old: Workload, new: Workload) -> dict[str, Any]:
    """Both picks, and the `reasons` where they differ: facts that the documents hold, never a
    guess of which of several decided."""
    before, after = _key(old.pick), _key(new.pick)
    return {
        "changed": before != after,
        "old": _pick_block(old.pick),
        "new": _pick_block(new.pick),
        "reasons": _reasons(old, new, before, after) if before != after else [],
    }


def _key(pick: Document | None) -> Key | None:
    return None if pick is None else key_of(pick)


def _pick_block(pick: Document | None) -> dict[str, Any] | None:
    """What is bought, what it costs and what it reaches."""
    if pick is None:
        return None
    return {
        **spec_document(key_of(pick)),
        "usd_per_hour": pick["price"]["total_usd_per_hour"],
        "usd_per_million_samples": usd_per_million_samples(pick),
        **pick["predicted"]["throughput"],
        "bottleneck": pick.get("bottleneck"),
        "provenance": pick["predicted"]["provenance"],
    }


def _reasons(old: Workload, new: Workload, before: Key | None, after: Key | None) -> list[dict[str, Any]]:
    reasons = [_of_request(old, new)]
    if before is not None:
        reasons += [_how_it_stands("old_pick", before, new), _moved(before, old, new)]
    if after is not None:
        reasons += [_how_it_stood("new_pick", after, old), _moved(after, old, new)]
    return [reason for reason in reasons if reason is not None]


def _of_request(old: Workload, new: Workload) -> dict[str, Any] | None:
    fields = asked_differently(old, new)
    if not fields:
        return None
    return {"kind": "request", "fields": [field["field"] for field in fields]}


def asked_differently(old: Workload, new: Workload) -> list[dict[str, Any]]:
    """The fields of the question that have another value now."""
    before, after = old.recommendation["request"], new.recommendation["request"]
    return [
        {"field": name, "old": before.get(name), "new": after.get(name)}
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    ]


def _how_it_stands(which: str, key: Key, new: Workload) -> dict[str, Any]:
    """What became of the old pick."""
    reason = {"kind": which, **spec_document(key)}
    same_type = [spec for spec in new.ranked() if spec["instance_type"] == key.instance_type]
    if same_type and key not in _ranked(new):
        return {**reason, "now": "another_disk", "disk_now": same_type[0]["disk"]["order"]}
    return {**reason, **_place(key, new, "now")}


def _how_it_stood(which: str, key: Key, old: Workload) -> dict[str, Any] | None:
    """Where the new pick was before; None where only its disk is another one, which is told of
    the old pick."""
    same_type = any(spec["instance_type"] == key.instance_type for spec in old.ranked())
    if same_type and key not in _ranked(old):
        return None
    return {"kind": which, **spec_document(key), **_place(key, old, "then")}


def _place(key: Key, workload: Workload, when: str) -> dict[str, Any]:
    """An alternative, rejected for a reason, considered (drawn, or the nearest), or absent."""
    rejected = rejections(workload).get(key.instance_type)
    known = prices(workload).get(key)
    if key in _ranked(workload):
        return {when: "alternative", "usd_per_hour": known}
    if rejected is not None:
        return {when: "rejected", "reason": rejected["reason"], "detail": rejected["detail"]}
    return {when: "absent"} if known is None else {when: "considered", "usd_per_hour": known}


def _ranked(workload: Workload) -> list[Key]:
    return [key_of(spec) for spec in workload.ranked()]


def _moved(key: Key, old: Workload, new: Workload) -> dict[str, Any] | None:
    """The price or the lower bound of that spec, where both days tell it and it is another."""
    (was, now), (slow, fast) = (prices(old), prices(new)), (rates(old), rates(new))
    moved: dict[str, Any] = {}
    if key in was and key in now and differ(was[key], now[key]):
        moved |= {"usd_per_hour_then": was[key], "usd_per_hour": now[key]}
    if key in slow and key in fast and differ(slow[key]["lower"], fast[key]["lower"]):
        moved |= {"lower_then": slow[key]["lower"], "lower": fast[key]["lower"]}
    return {"kind": "moved", **spec_document(key), **moved} if moved else None
