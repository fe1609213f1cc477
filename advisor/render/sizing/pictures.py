"""The charts of a section, from the document alone, each with its numbers in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import lower_rate, percent
from advisor.render.sizing.charts.bars import (
    CostBar,
    MemoryPoint,
    MemoryWords,
    StageBar,
    memory_chart,
    stages_chart,
    totals_chart,
)
from advisor.render.sizing.charts.curves import (
    CurvePanel,
    CurvePoint,
    CurveWords,
    MeasuredPoint,
    curves_chart,
)
from advisor.render.sizing.charts.price import PriceDot, PriceWords, price_chart
from advisor.render.sizing.sentences import spec_name
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


Row = Mapping[str, Any]


def price_alt(rows: Sequence[Row], target: float | None, t: Texts) -> str:
    """The pick, the cheapest spec and the end of the front; how many there are."""
    chosen = [t("price.alt_chosen", one=_spec_alt(one, t)) for one in rows if one["chosen"]]
    aims = [t("price.alt_target", rate=format_rate(target))] if target else []
    front = [one for one in rows if one["on_front"]] or rows
    told = "".join(f"{one} " for one in (*chosen, *aims))
    return t(
        "price.alt", count=len(rows), chosen=told,
        least=_spec_alt(rows[0], t), most=_spec_alt(front[-1], t),
    )  # fmt: skip


def _spec_alt(one: Row, t: Texts) -> str:
    return t(
        "price.alt_one", name=spec_name(one), usd=format_usd(one["total_usd_per_hour"]),
        lower=lower_rate(one["lower"]), median=format_rate(one["median"]),
        upper=format_rate(one["upper"]),
    )  # fmt: skip


def stages_alt(stages: Sequence[Row], t: Texts) -> str:
    """Every stage with its share and its own rate."""
    said = (
        t(
            "stages.alt", stage=t.known("stage." + one["stage"], one["stage"]),
            used=percent(one["utilization"]), rate=format_rate(one["samples_per_second"]),
        )
        for one in stages
    )  # fmt: skip
    return _joined(said)


def curve_alt(
    name: str, points: Sequence[tuple[str, float]], rates: Sequence[float], t: Texts
) -> str:
    """A curve's points, at most seven of them with both ends, and the span of what is measured."""
    step = max(1, -(-len(points) // 6))
    some = [*points[::step], *points[-1:]]
    told = [t("curves.alt_point", rate=format_rate(y), x=x) for x, y in dict(some).items()]
    if rates:
        least, most = format_rate(min(rates)), format_rate(max(rates))
        told.append(t("curves.alt_measured", count=len(rates), least=least, most=most))
    return t("curves.alt", name=name, points=_joined(told))


def memory_alt(batches: Sequence[Row], t: Texts) -> str:
    """Which batches fit, with what each needs."""

    def told(fits: bool) -> str:
        return _joined(
            t("memory.alt_one", batch=one["batch_size"], mib=format_mib(one["needed_mib"]))
            for one in batches
            if one["fits"] is fits
        )

    fits, beyond = told(True), told(False)
    return t(
        "memory.alt",
        fits=t("memory.alt_fits", list=fits) if fits else "",
        beyond=t("memory.alt_beyond", list=beyond) if beyond else "",
    ).strip()


def _joined(parts: Any) -> str:
    return "; ".join(parts)
