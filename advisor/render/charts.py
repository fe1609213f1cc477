"""Draws the charts of reports and pages as SVG, each with its numbers in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from advisor.domain import Accelerator
from advisor.messages import format_rate, format_target, format_usd
from advisor.render.blocks import Chart, Mark, lower_rate
from advisor.render.facts import spec_name
from advisor.render.i18n.catalogue import Texts
from advisor.render.paper import (
    BLUE,
    FAINT,
    INK,
    LIGHT_BLUE,
    SMALL,
    VERMILION,
    WIDTH,
    Panel,
    Paper,
    chart_of,
    no_link,
    scale_of,
    within_reach,
)
from advisor.render.phrases import count_text, seconds_text, way_text
from advisor.render.sentences import unit_name
from advisor.render.text import shortened

Record = Mapping[str, Any]
_MIB_A_GIB = 1024.0


_PRICE_HEIGHT = 250.0
# Shape, face, edge and size of a spec's mark, by kind of spec.
_MARKS = {
    "pick": ("D", VERMILION, "#000000", 8.0),
    "front": ("s", BLUE, BLUE, 5.5),
    "other": ("o", "#ffffff", LIGHT_BLUE, 5.5),
}


def price_picture(
    section: Record, t: Texts, width: float = WIDTH, href: Callable[[Record], str] = no_link
) -> Chart:
    """Draw price against throughput: every spec with its interval, the target, the front and the pick."""
    rows, target = section["price_throughput"], section["answer"]["target_throughput"]
    rates = [rate for row in rows for rate in (row["lower"], row["upper"])]
    near = within_reach(target, rates)
    prices = [row["total_usd_per_hour"] for row in rows]
    panel = _panel(width, _PRICE_HEIGHT, prices, [*rates, *([near] if near else [])])
    paper = panel.frame(t("price.x"), unit_name(section, t), ticks=int(width / 80))
    front = [row for row in rows if row["on_front"]]
    _draw_front(panel, front)
    kinds = {
        "other": [row for row in rows if not row["on_front"] and not row["chosen"]],
        "front": [row for row in front if not row["chosen"]],
        "pick": [row for row in rows if row["chosen"]],
    }
    for kind, dots in kinds.items():
        if kind == "pick" and near:
            panel.target(near, t("key.target", rate=format_target(near)))
        if dots:
            shape, face, edge, size = _MARKS[kind]
            bars = [(row["total_usd_per_hour"], row["lower"], row["upper"]) for row in dots]
            panel.intervals(bars, VERMILION if kind == "pick" else edge)
            places = panel.places([(row["total_usd_per_hour"], row["median"]) for row in dots])
            paper.markers(places, shape, colour=edge, face=face, size=size)
    named = [*kinds["pick"], *sorted(kinds["front"], key=lambda row: row["total_usd_per_hour"])]
    names = [(row["total_usd_per_hour"], row["median"], shortened(spec_name(row), 22)) for row in named]
    panel.names(names, [(row["total_usd_per_hour"], row["median"]) for row in rows])
    _key(paper, [(*_MARKS[kind][:3], t(f"key.{kind}")) for kind in ("pick", "front", "other")], 44)
    marks = [
        panel.mark(row["total_usd_per_hour"], row["median"], _spec_text(row, t), href(row)) for row in rows
    ]
    alt = [t("price.alt", count=len(rows))]
    alt += [t("price.alt_chosen", one=_spec_text(row, t)) for row in kinds["pick"]]
    alt += [t("price.alt_target", rate=format_target(target))] if target else []
    return chart_of(paper, t.joined(alt), marks)


def _panel(width: float, height: float, xs: Sequence[float], ys: Sequence[float]) -> Panel:
    return Panel(Paper(width, height), scale_of(xs, 44, width - 20), scale_of(ys, 46, height - 32))


def _draw_front(panel: Panel, front: Sequence[Record]) -> None:
    steps: list[tuple[float, float]] = []
    for row in sorted(front, key=lambda row: (row["total_usd_per_hour"], row["median"])):
        if steps:
            steps.append((row["total_usd_per_hour"], steps[-1][1]))
        steps.append((row["total_usd_per_hour"], row["lower"]))
    panel.paper.line(panel.places(steps), colour=BLUE, width=0.9)


def _key(paper: Paper, entries: Iterable[tuple[str, str, str, str]], x: float) -> None:
    for shape, face, edge, text in entries:
        paper.markers([(x + 4, 8)], shape, colour=edge, face=face, size=6)
        paper.text(x + 12, 8, text, colour=FAINT)
        x += 125 if paper.width >= WIDTH else 26 + len(text) * SMALL * 0.56


def _spec_text(row: Record, t: Texts) -> str:
    return t(
        "price.alt_one",
        name=spec_name(row),
        usd=format_usd(row["total_usd_per_hour"]),
        lower=lower_rate(row["lower"]),
        median=format_rate(row["median"]),
        upper=format_rate(row["upper"]),
    )


_CURVES_HEIGHT = 196.0
_LEFT, _GAP, _BOTTOM, _TOP = 40.0, 16.0, 48.0, 24.0
# Shape and face of the marks for measurements beside a curve.
SHAPES = {"measured": ("o", INK), "emulated": ("o", "#ffffff")}
# For each varied resource: the field of its amount in a point, the field in a measurement, and the unit.
_VARIED = {
    "vcpus": ("vcpus", "vcpus", 1.0),
    "memory": ("memory_mib", "memory_mib", _MIB_A_GIB),
    "disk": ("read_mib_per_second", "disk_read_mib_per_second", 1.0),
}


def curves_picture(
    section: Record, t: Texts, width: float = WIDTH, href: Callable[[Record], str] = no_link
) -> Chart:
    """Draw throughput over vCPUs, RAM and disk, side by side on one scale, with the measurements."""
    paths = {name: path for name in _VARIED if (path := _path(section, name))}
    beside = {name: _beside(section, name) for name in paths}
    rates = [point["upper"] for path in paths.values() for _, point in path]
    near = within_reach(section["answer"]["target_throughput"], rates)
    rates += [rate for some in beside.values() for _, rate, _ in some]
    y = scale_of([*rates, *([near] if near else [])], _BOTTOM, _CURVES_HEIGHT - _TOP, from_zero=True)
    paper, known, alts = Paper(width, _CURVES_HEIGHT), set(), []
    marks: list[Mark] = []
    wide = (width - _LEFT - _GAP * len(paths)) / max(len(paths), 1)
    for number, (name, path) in enumerate(paths.items()):
        left = _LEFT + number * (wide + _GAP)
        xs = [x for x, _ in path] + [x for x, _, _ in beside[name]]
        panel = Panel(paper, scale_of(xs, left, left + wide), y)
        panel.frame(t(f"curves.{name}"), unit_name(section, t) if number == 0 else "", ticks=4)
        _draw(panel, name, path, beside[name], section["answer"]["spec"])
        for x, point in path:
            bounds = {bound: lower_rate(point[bound]) for bound in ("lower", "median", "upper")}
            text = t("curves.point", x=f"{x:,.4g}", **bounds)
            marks.append(panel.mark(x, point["median"], text, href(point)))
        ends = dict.fromkeys((marks[-len(path)].text, marks[-1].text))
        alts.append(t("curves.alt", name=t(f"curves.{name}"), points=t.listed(ends)) + ".")
        if near:
            paper.line([(left, y.position(near)), (left + wide, y.position(near))], dashed=True, width=1.0)
        known |= {how for _, _, how in beside[name]}
    entries = [("D", VERMILION, "#000000", t("key.here"))]
    entries += [(*SHAPES[how], INK, t(f"curves.{how}")) for how in SHAPES if how in known]
    _key(paper, entries, _LEFT)
    if near:
        paper.line([(width - 110, 8), (width - 90, 8)], dashed=True, width=1.0)
        paper.text(width - 86, 8, t("key.target", rate=format_target(near)), colour=FAINT)
    return chart_of(paper, " ".join(alts), marks)


def _path(section: Record, name: str) -> list[tuple[float, Record]]:
    """Return the points of a curve, sorted by amount."""
    field, _, unit = _VARIED[name]
    curve = section["curves"].get(name) or {"points": ()}
    points = [point for point in curve["points"] if point[field] is not None]
    return sorted(((point[field] / unit, point) for point in points), key=lambda point: point[0])


def _beside(section: Record, name: str) -> list[tuple[float, float, str]]:
    """Return amount, rate and kind of the measurements that differ from the spec only in this resource."""
    _, field, unit = _VARIED[name]
    ids = set(section["curves"][name]["measured"])
    rows = (row for row in section["measured"] if row["trial_id"] in ids and row[field] is not None)
    return [
        (
            row[field] / unit,
            row["samples_per_second"],
            "emulated" if Accelerator.parse(row["accelerator"]).is_emulated else "measured",
        )
        for row in rows
    ]


def _draw(
    panel: Panel,
    name: str,
    path: Sequence[tuple[float, Record]],
    beside: Sequence[tuple[float, float, str]],
    spec: Record,
) -> None:
    """Draw a curve; disks, which come in a few rates only, get dots with bars instead of a line."""
    if name == "disk":
        panel.intervals([(x, point["lower"], point["upper"]) for x, point in path], LIGHT_BLUE)
        dots = panel.places([(x, point["median"]) for x, point in path])
        panel.paper.markers(dots, "_", colour=BLUE)
    else:
        panel.band([(x, point["lower"], point["median"], point["upper"]) for x, point in path])
    for how, (shape, face) in SHAPES.items():
        values = [(x, rate) for x, rate, each in beside if each == how]
        if values:
            panel.paper.markers(panel.places(values), shape, colour=INK, face=face, size=4.5)
    field, own = ("order", "disk") if name == "disk" else (_VARIED[name][0],) * 2
    here = [(x, point["median"]) for x, point in path if point[field] == spec[own]]
    if here:
        panel.paper.markers(panel.places(here[-1:]), "D", colour="#000000", face=VERMILION, size=7)


_FRONT_HEIGHT, _MARK_SIZE = 230.0, 6.0


def front_picture(
    front: Sequence[Record],
    chosen: Record,
    t: Texts,
    width: float = WIDTH,
    href: Callable[[Record], str] = no_link,
) -> Chart:
    """Draw time per output token over output tokens per second, with a mark for each point of the front. A
    point that breaks a limit is hollow, and the recommended one is red."""
    points = [_point(record) for record in front]
    mine = _point(chosen["serving"]["rates"])
    panel = _panel(width, _FRONT_HEIGHT, *zip(*points, mine, strict=True))
    paper = panel.frame(t("lm.front_x"), t("lm.front_y"), ticks=int(width / 80))
    for answers, face in ((False, "#ffffff"), (True, BLUE)):
        places = [point for record, point in zip(front, points, strict=True) if record["answers"] is answers]
        if places:
            paper.markers(panel.places(places), "s", colour=BLUE, face=face, size=_MARK_SIZE)
    paper.markers(panel.places([mine]), "D", colour="#000000", face=VERMILION, size=_MARK_SIZE + 2)
    (low, fast), (high, slow) = min(points), max(points)
    alt = t(
        "lm.front_alt", fast=f"{fast:.3g}", low=format_rate(low), slow=f"{slow:.3g}", high=format_rate(high)
    )
    marks = []
    for record, (x, y) in zip(front, points, strict=True):
        text = t(
            "lm.front_point",
            runs=way_text(record),
            flight=count_text(record["concurrency"]),
            ttft=seconds_text(record["ttft_seconds"]["median"]),
            tpot=seconds_text(record["tpot_seconds"]["median"]),
            rate=format_rate(record["output_tokens_per_second"]["median"]),
        )
        marks.append(panel.mark(x, y, text, href(record)))
    return chart_of(paper, alt, marks)._replace(note=t("lm.front_note"))


def _point(rates: Record) -> tuple[float, float]:
    """Return the median output tokens per second and milliseconds per output token."""
    return (rates["output_tokens_per_second"]["median"], 1000 * rates["tpot_seconds"]["median"])
