"""Draws the charts of reports and pages as SVG, each with its numbers in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from advisor.domain import Accelerator
from advisor.render.blocks import Chart, Mark, lower_rate, percent
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
    Box,
    Panel,
    Paper,
    chart_of,
    no_link,
    scale_of,
    within_reach,
)
from advisor.render.phrases import count_text, seconds_text, way_text
from advisor.render.sentences import stage_name, unit_name
from advisor.render.text import shortened
from advisor.units import format_mib, format_rate, format_target, format_usd

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
    steps = _front_steps(panel, front)
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
    line = panel.y.position(near) if near else 0.0
    _dot_names(panel, rows, [*steps, (panel.x.start, line - 1, panel.x.end, line + 1)])
    _key(paper, [(*_MARKS[kind][:3], t(f"key.{kind}")) for kind in ("pick", "front", "other")], 44)
    marks = [
        paper.mark(
            panel.x.position(row["total_usd_per_hour"]),
            panel.y.position(row["median"]),
            _spec_text(row, t),
            href(row),
        )
        for row in rows
    ]
    return chart_of(paper, _price_alt(rows, target, t), marks)


def _panel(
    width: float, height: float, xs: Sequence[float], ys: Sequence[float], *, from_zero: bool = False
) -> Panel:
    """Return a panel with room for the values and the names of both axes."""
    scales = scale_of(xs, 44, width - 20), scale_of(ys, 46, height - 32, from_zero=from_zero)
    return Panel(Paper(width, height), *scales)


def _front_steps(panel: Panel, front: Sequence[Record]) -> list[Box]:
    """Draw each price's highest lower bound as steps, and return the boxes that the steps occupy."""
    steps: list[tuple[float, float]] = []
    for row in sorted(front, key=lambda row: (row["total_usd_per_hour"], row["median"])):
        if steps:
            steps.append((row["total_usd_per_hour"], steps[-1][1]))
        steps.append((row["total_usd_per_hour"], row["lower"]))
    places = panel.places(steps)
    if len(steps) > 1:
        panel.paper.line(places, colour=BLUE, width=0.9)
    return [(x, min(low, high), right, max(low, high)) for (x, low), (right, high) in pairwise(places)]


def _dot_names(panel: Panel, rows: Sequence[Record], drawn: list[Box]) -> None:
    """Name the pick and, if there is room, specs on the front. No name covers a mark, bar or line."""
    for row in rows:
        x = panel.x.position(row["total_usd_per_hour"])
        half = _MARKS["pick" if row["chosen"] else "other"][3] / 2
        low, middle, high = (panel.y.position(row[bound]) for bound in ("lower", "median", "upper"))
        drawn += [(x - half, middle - half, x + half, middle + half), (x - 0.5, low, x + 0.5, high)]
    shown = [row for row in rows if row["chosen"] or row["on_front"]]
    shown.sort(key=lambda row: (not row["chosen"], row["total_usd_per_hour"]))
    named = [(row["total_usd_per_hour"], row["median"], shortened(spec_name(row), 22)) for row in shown]
    panel.names(named, drawn)


def _key(paper: Paper, entries: Iterable[tuple[str, str, str, str]], x: float) -> None:
    for shape, face, edge, text in entries:
        paper.markers([(x + 4, 8)], shape, colour=edge, face=face, size=6)
        paper.text(x + 12, 8, text, colour=FAINT)
        x += 125 if paper.width >= WIDTH else 26 + len(text) * SMALL * 0.56


def _price_alt(rows: Sequence[Record], target: float | None, t: Texts) -> str:
    """Describe the chart: the pick, the cheapest spec, the end of the front, and the number of specs."""
    chosen = [t("price.alt_chosen", one=_spec_text(row, t)) for row in rows if row["chosen"]]
    aims = [t("price.alt_target", rate=format_target(target))] if target else []
    front = [row for row in rows if row["on_front"]] or rows
    return t(
        "price.alt",
        count=len(rows),
        chosen="".join(f"{text} " for text in (*chosen, *aims)),
        least=_spec_text(rows[0], t),
        most=_spec_text(front[-1], t),
    )


def _spec_text(row: Record, t: Texts) -> str:
    return t(
        "price.alt_one",
        name=spec_name(row),
        usd=format_usd(row["total_usd_per_hour"]),
        lower=lower_rate(row["lower"]),
        median=format_rate(row["median"]),
        upper=format_rate(row["upper"]),
    )


def _box(left: float, middle: float, width: float, half: float) -> list[tuple[float, float]]:
    right, low, high = left + width, middle - half, middle + half
    return [(left, low), (right, low), (right, high), (left, high)]


_STAGE_ROW, _STAGE_LEFT, _STAGE_RIGHT = 22.0, 120.0, 150.0


def stages_picture(block: Record, t: Texts, *, on_cpu: bool = False) -> Chart:
    """Draw a bar for each stage, full at 100 % use. The bottleneck has a darker bar and bold text."""
    height = _STAGE_ROW * len(block["stages"]) + 8
    paper, room = Paper(WIDTH, height), WIDTH - _STAGE_LEFT - _STAGE_RIGHT
    alts = []
    for number, row in enumerate(block["stages"]):
        binds, y = row["stage"] == block["stage"], height - _STAGE_ROW * (number + 0.5) - 4
        name, used = stage_name(row["stage"], t, on_cpu=on_cpu), percent(row["utilization"])
        rate = format_rate(row["samples_per_second"])
        paper.area(_box(_STAGE_LEFT, y, room, 7), "#ffffff", edge=FAINT)
        share = min(max(row["utilization"], 0.0), 1.0)
        paper.area(_box(_STAGE_LEFT, y, room * share, 7), BLUE if binds else LIGHT_BLUE)
        paper.text(_STAGE_LEFT - 6, y, shortened(name, 20), anchor="right", bold=binds)
        text = t("stages.binds" if binds else "stages.bar", used=used, rate=rate)
        paper.text(_STAGE_LEFT + room + 6, y, text, bold=binds)
        alts.append(t("stages.alt", stage=name, used=used, rate=rate))
    return chart_of(paper, t.listed(alts))


_MEMORY_HEIGHT = 170.0


def memory_picture(block: Record, t: Texts) -> Chart:
    """Draw a dot for each batch size, or a cross if it does not fit; a dashed line is the GPU's memory."""
    has = block["has_mib"] / _MIB_A_GIB
    batches = sorted(block["batches"], key=lambda batch: batch["batch_size"])
    places = [(batch["batch_size"], batch["needed_mib"] / _MIB_A_GIB) for batch in batches]
    sizes, needed = zip(*places, strict=True)
    panel = _panel(WIDTH, _MEMORY_HEIGHT, sizes, [*needed, has], from_zero=True)
    paper = panel.frame(t("unit.batch"), t("unit.gib"))
    paper.line(panel.places(places), colour=BLUE)
    alts = []
    for fits, key, shape, colour, size in (
        (True, "memory.alt_fits", "o", BLUE, 5.0),
        (False, "memory.alt_beyond", "x", VERMILION, 7.0),
    ):
        some = [(point, batch) for point, batch in zip(places, batches, strict=True) if batch["fits"] is fits]
        if some:
            paper.markers(panel.places([point for point, _ in some]), shape, colour=colour, size=size)
            each = [
                t("memory.alt_one", batch=batch["batch_size"], mib=format_mib(batch["needed_mib"]))
                for _, batch in some
            ]
            alts.append(t(key, list=t.listed(each)))
    line = t("memory.has", name=block["gpu"], has=format_mib(block["has_mib"]))
    panel.target(has, line)
    return chart_of(paper, " ".join([f"{line}.", *alts]))


_CURVES_HEIGHT = 196.0
_LEFT, _GAP, _BOTTOM, _TOP = 40.0, 16.0, 48.0, 24.0
# Shape and face of the marks for measurements beside a curve.
SHAPES = {"measured": ("o", INK), "emulated": ("o", "#ffffff"), "published": ("^", "#ffffff")}
# For each varied resource: the field of its amount in a point, the field in a measurement, and the unit.
_VARIED = {
    "vcpus": ("vcpus", "vcpus", 1.0),
    "memory": ("memory_mib", "memory_mib", _MIB_A_GIB),
    "disk": ("read_mib_per_second", "disk_read_mib_per_second", 1.0),
}


def how_known(measured: Record) -> str:
    """Return 'measured', 'published', or 'emulated' (measured, but with an emulated GPU)."""
    emulated = Accelerator.parse(measured["accelerator"]).is_emulated
    return "emulated" if emulated else str(measured["provenance"])


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
            marks.append(
                paper.mark(panel.x.position(x), panel.y.position(point["median"]), text, href(point))
            )
        if near:
            paper.line([(left, y.position(near)), (left + wide, y.position(near))], dashed=True, width=1.0)
        known |= {how for _, _, how in beside[name]}
        alts.append(_curve_alt(t(f"curves.{name}"), path, [rate for _, rate, _ in beside[name]], t))
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
    return [
        (row[field] / unit, row["samples_per_second"], how_known(row))
        for row in section["measured"]
        if row["trial_id"] in ids and row[field] is not None
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


def _curve_alt(name: str, path: Sequence[tuple[float, Record]], rates: Sequence[float], t: Texts) -> str:
    """Describe a curve: at most about seven of its points with both ends, and the range of measured rates."""
    step = max(1, -(-len(path) // 6))
    some = {f"{x:,.4g}": point["median"] for x, point in [*path[::step], *path[-1:]]}
    texts = [t("curves.alt_point", rate=format_rate(rate), x=x) for x, rate in some.items()]
    if rates:
        least, most = format_rate(min(rates)), format_rate(max(rates))
        texts.append(t("curves.alt_measured", count=len(rates), least=least, most=most))
    return t("curves.alt", name=name, points=t.listed(texts)) + "."


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
        marks.append(paper.mark(panel.x.position(x), panel.y.position(y), text, href(record)))
    return chart_of(paper, alt, marks)._replace(note=t("lm.front_note"))


def _point(rates: Record) -> tuple[float, float]:
    """Return the median output tokens per second and milliseconds per output token."""
    return (rates["output_tokens_per_second"]["median"], 1000 * rates["tpot_seconds"]["median"])
