"""`advisor sweep run --on aws` for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.errors import one_line
from advisor.render.text import table
from advisor.units import format_counted, format_usd

_COLUMNS = ("offer", "zone", "market", "per hour, at most", "paid for")
_SHOWN = 12
_ENDED = {
    "done": "All is measured",
    "failed": "The sweep failed on its instance",
    "budget": "The budget has no room for another minute",
    "expired": "Its time is over",
    "shut_down": "The instance ended itself before all was measured",
    "taken_back": "The instance was taken back",
    "ended": "The instance has ended",
}


def plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """The offers in their order, the checks, the most that it costs, and what is missing."""
    offers = plan["offers"]
    lines = [f"Sweep {plan['sweep_id']} of {plan['owner']}: {' '.join(plan['command'])}", ""]
    if offers:
        lines += table(_COLUMNS, [_offer_cells(one) for one in offers[:_SHOWN]], right=(3, 4))
    else:
        lines.append("No offer is known.")
    if len(offers) > _SHOWN:
        lines.append(f"and {len(offers) - _SHOWN} more")
    volumes = [f"{one['type']} {one['size_gib']} GiB" for one in plan["volumes"]]
    lines += ["", f"Volumes: {', '.join(volumes) or 'none but the one it boots from'}."]
    lines += [
        f"Costs {format_usd(plan['most_usd'])} at most (budget {format_usd(plan['budget_usd'])}; "
        f"{plan['hours']:g} h at most; traffic out of AWS comes on top).",
        "",
    ]
    lines += [_check_line(one) for one in plan["checks"]]
    told = "Nothing is missing; without --dry-run this is launched."
    if not plan["can_launch"]:
        missing = sum(one["stops"] for one in plan["checks"])
        told = f"Nothing can be launched: {format_counted(missing, 'thing')} missing, see above."
    return [*lines, "", told]


def _offer_cells(one: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        one["instance_type"],
        one["zone"],
        one["market"],
        format_usd(one["usd_per_hour_at_most"]),
        f"{one['minutes_paid']} min",
    )


def _check_line(one: Mapping[str, Any]) -> str:
    mark = "ok     " if one["ok"] else "missing" if one["stops"] else "without"
    mend = f" -> {one['mend']}" if one["mend"] else ""
    return f"{mark}  " + one_line(f"{one['check']}: {one['told']}{mend}")


def run_lines(run: Mapping[str, Any]) -> list[str]:
    """How it ended, what it cost, what is gone."""
    instances = format_counted(run["instances"], "instance")
    came = "what it measured is in its database, if anything."
    if run["measured_now"] is not None:
        came = f"{format_counted(run['measured_now'], 'measurement')} came back."
    removed = format_counted(len(run["removed"]), "thing")
    lines = [
        f"{_ENDED[run['ended']]}: {came}",
    ]
    if run["instances"]:
        lines.append(
            f"{format_usd(run['spent_usd'])} at most for {instances}; all of it is ended "
            f"({removed} removed)."
        )
    else:
        lines.append("It was measured before: nothing was launched. --sweep-id measures anew.")
    return lines


def fleet_lines(fleet: Mapping[str, Any]) -> list[str]:
    """Each type in a paragraph, and what all of them cost."""
    lines: list[str] = []
    for one in fleet["sweeps"]:
        told = run_lines(one["run"]) if one["run"] else [one["error"]]
        lines += [f"{one['instance_type']}: {told[0]}", *(f"  {line}" for line in told[1:])]
    return [*lines, f"In all {format_usd(fleet['spent_usd'])} at most."]
