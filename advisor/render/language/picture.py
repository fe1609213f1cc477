"""The chart of latency against throughput, as SVG, from the document alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from advisor.render.charts.panel import Panel, scale_of
from advisor.render.charts.paper import BLUE, VERMILION, WIDTH, Paper, chart_of, no_link
from advisor.render.content import Chart
from advisor.render.i18n.catalogue import Texts
from advisor.render.phrases import count_text, seconds_text
from advisor.units import format_rate

_HEIGHT = 230.0
_SIZE = 6.0
_HOLLOW = "#ffffff"

Record = Mapping[str, Any]


def front_picture(
    front: Sequence[Record],
    chosen: Record,
    t: Texts,
    width: float = WIDTH,
    href: Callable[[Record], str] = no_link,
) -> Chart:
    """Time per output token over output tokens a second, one mark for each point of the front; a
    point that breaks a limit is hollow, the recommended one red."""
    points = [_point(record) for record in front]
    mine = _point(chosen["serving"]["rates"])
    paper = Paper(width, _HEIGHT)
    panel = Panel(
        paper,
        scale_of([rate for rate, _ in [*points, mine]], 44, width - 30),
        scale_of([ms for _, ms in [*points, mine]], 46, _HEIGHT - 32),
    )
    panel.frame(t("lm.front_x"), t("lm.front_y"), ticks=int(width / 80))
    for answers, face in ((False, _HOLLOW), (True, BLUE)):
        places = [one for record, one in zip(front, points, strict=True) if record["answers"] is answers]
        if places:
            paper.markers(panel.places(places), "s", colour=BLUE, face=face, size=_SIZE)
    paper.markers(panel.places([mine]), "D", colour="#000000", face=VERMILION, size=_SIZE + 2)
    (low, fast), (high, slow) = min(points), max(points)
    alt = t(
        "lm.front_alt", fast=f"{fast:.3g}", low=format_rate(low), slow=f"{slow:.3g}", high=format_rate(high)
    )
    marks = [
        paper.mark(panel.x.at(x), panel.y.at(y), _point_text(record, t), href(record))
        for record, (x, y) in zip(front, points, strict=True)
    ]
    return chart_of(paper, alt, marks)._replace(note=t("lm.front_note"))


def _point_text(record: Record, t: Texts) -> str:
    return t(
        "lm.front_point",
        runs=f"{record['replicas']} x TP{record['tensor_parallel']}",
        flight=count_text(record["concurrency"]),
        ttft=seconds_text(record["ttft_seconds"]["median"]),
        tpot=seconds_text(record["tpot_seconds"]["median"]),
        rate=format_rate(record["output_tokens_per_second"]["median"]),
    )


def _point(rates: Record) -> tuple[float, float]:
    """Output tokens a second, and milliseconds per output token, in the median."""
    return (rates["output_tokens_per_second"]["median"], 1000 * rates["tpot_seconds"]["median"])
