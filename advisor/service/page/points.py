"""The specs of an answer as points of price against throughput."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import lower_rate
from advisor.service.page.specs import disk_order, spec_row
from advisor.units import format_usd


def chart_points(document: Mapping[str, Any], t: Texts) -> list[dict[str, Any]]:
    """One point a spec, cheapest first: the pick, the other answers, and the Pareto front.

    A spec of the front that is no answer (it misses the target) has no likely rate in the document.
    """
    specs = [(document["recommendation"], "pick")]
    specs += [(one, "other") for one in document["alternatives"]]
    points = {_key(one, one["disk"]["order"]): _of_spec(one, kind, t) for one, kind in specs}
    for one in document["pareto"]:
        found = points.setdefault(_key(one, one["disk"]), _of_front(one, t))
        found["front"] = True
    return sorted((_told(one, t) for one in points.values()), key=lambda one: one["x"])


def _key(one: Mapping[str, Any], disk: str) -> tuple[object, ...]:
    return one["instance_type"], one["cloud"], one["region"], disk, one["batch_size"]


def _of_spec(one: Mapping[str, Any], kind: str, t: Texts) -> dict[str, Any]:
    row = spec_row(one, t)
    rates = {bound: row[bound] for bound in ("lower", "median", "upper")}
    named = {"name": row["name"], "disk": row["disk_order"], "kind": kind, "front": False}
    return named | {"x": row["usd_per_hour"]} | rates


def _of_front(one: Mapping[str, Any], t: Texts) -> dict[str, Any]:
    disk = {"type": one["disk"].partition(":")[0], "order": one["disk"]}
    return {
        "name": one["instance_type"],
        "disk": disk_order(disk, t),
        "kind": "front",
        "front": True,
        "x": one["total_usd_per_hour"],
        "lower": one["lower"],
        "median": "",
        "upper": "",
    }


def _told(point: dict[str, Any], t: Texts) -> dict[str, Any]:
    said = t(
        "chart.said",
        name=point["name"],
        kind=t("chart." + point["kind"]),
        usd=format_usd(point["x"]),
        lower=lower_rate(point["lower"]),
    )
    return point | {"said": said}
