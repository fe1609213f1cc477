"""The charts of a section, from the values of the document alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import percent
from advisor.render.sizing.alternative_text import curve_alt, memory_alt, price_alt, stages_alt
from advisor.render.sizing.charts.curves import (
    CurvePanel,
    CurvePoint,
    CurveWords,
    MeasuredPoint,
    curves_chart,
)
from advisor.render.sizing.charts.memory import MemoryPoint, MemoryWords, memory_chart
from advisor.render.sizing.charts.price import PriceDot, PriceWords, price_chart
from advisor.render.sizing.charts.stages import StageBar, stages_chart
from advisor.render.sizing.charts.totals import CostBar, totals_chart
from advisor.render.sizing.naming import spec_name
from advisor.units import format_mib, format_rate, format_usd

Section = Mapping[str, Any]
_MIB_A_GIB = 1024.0
_EMULATED = "emulated:"
# A picture of more bars is no picture any more.
MOST_BARS = 30
# What an address may have as it is; the rest of a picture is escaped.
_SAFE = " /:=,;()'-._~!*@+?[]{}|^`"


class Picture(NamedTuple):
    """An image that needs no file of its own, and what it shows in words."""

    src: str
    alt: str


def pictures(section: Section, t: Texts) -> dict[str, Picture | None]:
    """By name; None where there is nothing to draw."""
    target = section["answer"]["target_throughput"]
    return {
        "price": _price(section["price_throughput"], target, t),
        "stages": _stages(section["bottleneck"], t),
        "curves": _curves(section, target, t),
        "memory": _memory(section["gpu_memory"], t),
    }


def totals_picture(sections: Sequence[Section], t: Texts) -> Picture | None:
    """A bar for each workload that is answered, the first `MOST_BARS` of them."""
    bars = [
        CostBar(one["name"], spec["usd_per_month"], format_usd(spec["usd_per_month"]))
        for one in sections
        if one["answer"]["status"] == "answered" and (spec := one["answer"]["spec"])
    ]
    if len(bars) < 2:
        return None
    shown = bars[:MOST_BARS]
    rest = [t("totals.more", count=len(bars) - MOST_BARS)] if len(bars) > MOST_BARS else []
    said = [f"{one.name[:80]}: {one.words}" for one in shown]
    return Picture(_source(totals_chart(shown)), "; ".join([*said, *rest]))


def _price(rows: Sequence[Section], target: float | None, t: Texts) -> Picture | None:
    if not rows:
        return None
    dots = [
        PriceDot(
            spec_name(one), one["total_usd_per_hour"], one["lower"], one["median"], one["upper"],
            one["on_front"], one["chosen"],
        )
        for one in rows
    ]  # fmt: skip
    words = PriceWords(
        t("price.x"), t("unit.rate"), _target(target, t),
        t("key.pick"), t("key.front"), t("key.other"),
    )  # fmt: skip
    return Picture(_source(price_chart(dots, target, words)), price_alt(rows, target, t))


def _stages(block: Section | None, t: Texts) -> Picture | None:
    if not block or not block["stages"]:
        return None
    bars = []
    for one in block["stages"]:
        binds = one["stage"] == block["stage"]
        words = t(
            "stages.binds" if binds else "stages.bar",
            used=percent(one["utilization"]), rate=format_rate(one["samples_per_second"]),
        )  # fmt: skip
        name = t.known("stage." + one["stage"], one["stage"])
        bars.append(StageBar(name, one["utilization"], words, binds))
    return Picture(_source(stages_chart(bars)), stages_alt(block["stages"], t))


class _Varied(NamedTuple):
    """A resource that a curve varies: where its amount stands, and how it is written."""

    curve: str
    field: str
    unit: float
    apart: bool = False


_VARIED = (
    _Varied("vcpus", "vcpus", 1.0),
    _Varied("memory", "memory_mib", _MIB_A_GIB),
    _Varied("disk", "disk_read_mib_per_second", 1.0, apart=True),
)


def _curves(section: Section, target: float | None, t: Texts) -> Picture | None:
    if not section["curves"]:
        return None
    panels = [_panel(section, one, t) for one in _VARIED]
    words = CurveWords(
        t("unit.rate"), t("key.here"), _target(target, t),
        {name: t(f"curves.{name}") for name in ("measured", "emulated", "published")},
    )  # fmt: skip
    said = " ".join(_panel_alt(one, t) for one in panels if one.points)
    return Picture(_source(curves_chart(panels, target, words)), said)


def _panel(section: Section, varied: _Varied, t: Texts) -> CurvePanel:
    block, spec = section["curves"][varied.curve], section["answer"]["spec"]
    name = "read_mib_per_second" if varied.curve == "disk" else varied.field
    points, here = [], None
    for one in block["points"]:
        if one[name] is None:
            continue
        point = CurvePoint(one[name] / varied.unit, one["lower"], one["median"], one["upper"])
        points.append(point)
        chosen = one["order"] == spec["disk"] if varied.curve == "disk" else one[name] == spec[name]
        here = point if chosen else here
    return CurvePanel(
        t(f"curves.{varied.curve}"), points, _beside(section, varied), here, varied.apart
    )


def _beside(section: Section, varied: _Varied) -> list[MeasuredPoint]:
    ids = set(section["curves"][varied.curve]["measured"])
    return [
        MeasuredPoint(one[varied.field] / varied.unit, one["samples_per_second"], how_known(one))
        for one in section["measured"]
        if one["trial_id"] in ids and one[varied.field] is not None
    ]


def how_known(one: Section) -> str:
    """'measured', 'published', or 'emulated': all of it real but the GPU."""
    if str(one["accelerator"]).startswith(_EMULATED):
        return "emulated"
    return str(one["provenance"])


def _panel_alt(panel: CurvePanel, t: Texts) -> str:
    points = [(f"{one.x:,.4g}", one.median) for one in panel.points]
    return curve_alt(panel.x_name, points, [one.rate for one in panel.measured], t) + "."


def _memory(block: Section | None, t: Texts) -> Picture | None:
    if not block or not block["batches"]:
        return None
    points = [
        MemoryPoint(one["batch_size"], one["needed_mib"] / _MIB_A_GIB, one["fits"])
        for one in block["batches"]
    ]
    has = t("memory.has", name=block["gpu"], has=format_mib(block["has_mib"]))
    words = MemoryWords(t("unit.batch"), t("unit.gib"), has)
    svg = memory_chart(points, block["has_mib"] / _MIB_A_GIB, words)
    return Picture(_source(svg), f"{has}. {memory_alt(block['batches'], t)}")


def _target(target: float | None, t: Texts) -> str:
    return t("key.target", rate=format_rate(target)) if target else ""


def _source(svg: str) -> str:
    """Its own address: escaped, a third shorter than in base 64. It has no quotation mark and no
    `&`, `<` or `>`: an attribute takes it as it is."""
    return "data:image/svg+xml," + quote(svg.replace('"', "'"), safe=_SAFE)
