"""Why the pick is another one, in words: facts of the two documents, none of them guessed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from advisor.render.difference.saying import spec_name, type_name
from advisor.units import floor_rate, format_usd

Reason = Mapping[str, Any]


def because(workload: Mapping[str, Any]) -> list[str]:
    """The clauses behind "because", the question first; empty where the documents do not tell."""
    found = [_KINDS[one["kind"]](one) for one in workload["pick"]["reasons"]]
    return [one for one in dict.fromkeys(found) if one]


def _asked(one: Reason) -> str:
    return f"the question is another one ({', '.join(one['fields'])})"


def _old_pick(one: Reason) -> str:
    name = type_name(one)
    if one["now"] == "rejected":
        return f"{name} is rejected now ({one['reason']}: {one['detail']})"
    if one["now"] == "absent":
        return f"{name} is not among what was looked at now"
    if one["now"] == "another_disk":
        return f"{name} is told with the disk {one['disk_now']} now, not {one['disk']}"
    cost = f"{format_usd(one['usd_per_hour'])} an hour"
    if one["now"] == "alternative":
        return f"{spec_name(one)} is an alternative now ({cost})"
    return f"{spec_name(one)} ({cost}) does not meet the question any more"


def _new_pick(one: Reason) -> str:
    name = type_name(one)
    if one["then"] == "rejected":
        return f"{name} was rejected before ({one['reason']}: {one['detail']})"
    if one["then"] == "absent":
        return f"{name} was not among what was looked at before"
    if one["then"] == "considered":
        return f"{spec_name(one)} did not meet the question before"
    return ""  # it was an alternative: what moved it stands beside


def _moved(one: Reason) -> str:
    words = []
    if "usd_per_hour" in one:
        before, now = one["usd_per_hour_then"], one["usd_per_hour"]
        how = "cheaper" if now < before else "dearer"
        words.append(f"became {abs(100 * (now / before - 1)):.2g} % {how}")
    if "lower" in one:
        before, now = floor_rate(one["lower_then"]), floor_rate(one["lower"])
        words.append(f"has a lower bound of {now:,g} samples/s now, {before:,g} before")
    return f"{type_name(one)} {' and '.join(words)}"


_KINDS: Mapping[str, Callable[[Reason], str]] = {
    "request": _asked,
    "old_pick": _old_pick,
    "new_pick": _new_pick,
    "moved": _moved,
}
