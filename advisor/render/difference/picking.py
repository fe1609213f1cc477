"""Whether the recommended spec is another one, and what in the two documents made it so."""

from __future__ import annotations

from typing import Any

from advisor.render.difference.changes import differ
from advisor.render.difference.reading import (
    Document,
    Key,
    Workload,
    key_of,
    prices,
    rates,
    rejections,
    spec_document,
)


def pick_change(old: Workload, new: Workload) -> dict[str, Any]:
    """Both picks, and the `reasons` where they differ: facts that the documents hold, never a
    guess of which of several decided."""
    before, after = _key(old.pick), _key(new.pick)
    return {
        "changed": before != after,
        "old": _told(old.pick),
        "new": _told(new.pick),
        "reasons": _reasons(old, new, before, after) if before != after else [],
    }


def _key(pick: Document | None) -> Key | None:
    return None if pick is None else key_of(pick)


def _told(pick: Document | None) -> dict[str, Any] | None:
    """What is bought, what it costs and what it surely reaches."""
    if pick is None:
        return None
    return {
        **spec_document(key_of(pick)),
        "usd_per_hour": pick["price"]["total_usd_per_hour"],
        "usd_per_million_samples": pick["cost"]["usd_per_million_samples"],
        **pick["predicted"]["throughput"],
        "bottleneck": pick["bottleneck"],
        "provenance": pick["predicted"]["provenance"],
    }


def _reasons(
    old: Workload, new: Workload, before: Key | None, after: Key | None
) -> list[dict[str, Any]]:
    found = [_of_request(old, new)]
    if before is not None:
        found += [_how_it_stands("old_pick", before, new), _moved(before, old, new)]
    if after is not None:
        found += [_how_it_stood("new_pick", after, old), _moved(after, old, new)]
    return [one for one in found if one is not None]


def _of_request(old: Workload, new: Workload) -> dict[str, Any] | None:
    fields = asked_differently(old, new)
    if not fields:
        return None
    return {"kind": "request", "fields": [one["field"] for one in fields]}


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
    same_type = [one for one in new.ranked() if one["instance_type"] == key.instance_type]
    if same_type and key not in _ranked(new):
        return {**reason, "now": "another_disk", "disk_now": same_type[0]["disk"]["order"]}
    return {**reason, **_place(key, new, "now")}


def _how_it_stood(which: str, key: Key, old: Workload) -> dict[str, Any] | None:
    """Where the new pick was before; None where only its disk is another one, which is told of
    the old pick."""
    same_type = any(one["instance_type"] == key.instance_type for one in old.ranked())
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
    return [key_of(one) for one in workload.ranked()]


def _moved(key: Key, old: Workload, new: Workload) -> dict[str, Any] | None:
    """The price or the sure rate of that spec, where it is told on both days and is another."""
    (was, now), (slow, fast) = (prices(old), prices(new)), (rates(old), rates(new))
    moved: dict[str, Any] = {}
    if key in was and key in now and differ(was[key], now[key]):
        moved |= {"usd_per_hour_then": was[key], "usd_per_hour": now[key]}
    if key in slow and key in fast and differ(slow[key]["lower"], fast[key]["lower"]):
        moved |= {"lower_then": slow[key]["lower"], "lower": fast[key]["lower"]}
    return {"kind": "moved", **spec_document(key), **moved} if moved else None
