"""The pictures of reports on a page: for wide and narrow screens, with places that are links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from advisor.render.charts.paper import WIDTH
from advisor.render.content import Chart, Column, Look, Table
from advisor.render.document_names import spec_name
from advisor.render.i18n.catalogue import Texts
from advisor.render.sizing.columns import rate_columns
from advisor.render.sizing.facts import Drawn, drawn_rows
from advisor.render.sizing.pictures import curves_picture, price_picture
from advisor.service.page.frame import Frame
from advisor.service.page.specs import NOTHING, disk_order, spec_fields

Record = Mapping[str, Any]
# Of a phone, and of half a card on a desk: letters stay as large as in a whole one.
NARROW, HALF = 240.0, 300.0


class Picture(NamedTuple):
    """One picture, drawn twice."""

    wide: Chart
    narrow: Chart


def picture_of(drawn: Callable[[float], Chart], wide: float = WIDTH) -> Picture:
    """What `drawn` makes of a width, in points."""
    return Picture(drawn(wide), drawn(NARROW))


class PriceChart(NamedTuple):
    """Price against throughput, and its points as a table."""

    picture: Picture
    table: Table


def price_chart(
    chosen: Record,
    others: Sequence[Record],
    target: float | None,
    frame: Frame,
    href: Callable[[Record], str],
) -> PriceChart:
    """The recommended spec among others, each once; `href` leads on from a row."""
    t = frame.texts
    specs = {_key(spec): spec for spec in (*reversed(others), chosen)}
    rows = drawn_rows([Drawn(spec, answers=True, chosen=spec is chosen) for spec in specs.values()])
    section = {
        "price_throughput": rows,
        "answer": {"target_throughput": target, "spec": {"unit": chosen["predicted"]["unit"]}},
    }
    picture = picture_of(lambda width: price_picture(section, t, width, href))
    columns = [
        Column(t("table.instance"), spec_name, Look.NAME),
        Column(t("table.disk"), lambda row: disk_order(disk_of(row["disk"]), t), Look.LONG),
        Column(t("table.per_hour"), "total_usd_per_hour", Look.USD),
        *(column._replace(unknown=NOTHING) for column in rate_columns(t, chosen["predicted"]["confidence"])),
        Column(t("chart.kind"), lambda row: t(f"key.{_kind(row)}")),
    ]
    return PriceChart(picture, Table(columns, rows, lambda row: row["chosen"]))


def _key(spec: Record) -> tuple[object, ...]:
    names = ("instance_type", "cloud", "region", "count")
    return *(spec[name] for name in names), spec["disk"]["order"]


def _kind(row: Record) -> str:
    return "pick" if row["chosen"] else "front" if row["on_front"] else "other"


def disk_of(order: str) -> dict[str, str]:
    """The disk of an order as one of a spec."""
    return {"type": order.partition(":")[0], "order": order}


def row_fields(row: Record) -> dict[str, object]:
    """The words of a question that mean just this row's spec."""
    return spec_fields({**row, "disk": disk_of(row["disk"])})


def curve_picture(
    name: str,
    points: Sequence[Record],
    document: Record,
    target: float | None,
    t: Texts,
    href: Callable[[Record], str],
) -> Picture:
    """Throughput over vCPUs or RAM, around what is predicted."""
    here = {field: document[field] for field in ("vcpus", "memory_mib")}
    section = {
        "curves": {name: {"points": points, "measured": ()}},
        "measured": (),
        "answer": {"target_throughput": target, "spec": {**here, "unit": document["predicted"]["unit"]}},
    }
    return picture_of(lambda width: curves_picture(section, t, width, href), HALF)
