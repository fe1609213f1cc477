"""Makes what a page shows of one spec in an answer's document: texts, bars, and pictures with links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from advisor.domain import Stage
from advisor.messages import format_mib, format_rate, format_target
from advisor.naming import setting_text
from advisor.render.blocks import Chart, Column, Look, Table, lower_rate, plain
from advisor.render.charts import curves_picture, price_picture
from advisor.render.facts import Drawn, drawn_rows, place_name, run_usd, spec_name
from advisor.render.i18n.catalogue import Texts
from advisor.render.sentences import LOCAL_ORDER, disk_name, rate_columns, stage_name
from advisor.render.text import lower_name, upper_name
from advisor.service.page.frame import Frame

Record = Mapping[str, Any]
# The percentage of the bar's width at which the highest value ends, so that its label has room.
_FILLED = 92.0
# Labels left or right of these percentages are not centred but aligned to one side.
_LEFT, _RIGHT = 15.0, 85.0


def interval_bar(
    rates: Record, target: float | None, target_word: str, full: float | None = None
) -> dict[str, Any]:
    """Positions on a bar in percent of its width; `full` (default: the highest value) is at `_FILLED`."""
    most = full or max(rates["upper"], target or 0.0)
    scale = _FILLED / most
    share = None if target is None else round(min(target * scale, 100.0), 2)
    anchor = "start" if (share or 0.0) < _LEFT else "middle" if (share or 0.0) <= _RIGHT else "end"
    return {
        "lower": round(rates["lower"] * scale, 2),
        "width": round((rates["upper"] - rates["lower"]) * scale, 2),
        "median": round(rates["median"] * scale, 2),
        "target": share,
        "target_text": "" if target is None else f"{target_word} {format_target(target)}",
        "target_anchor": anchor,
    }


STAGES = tuple(str(stage) for stage in Stage)
NOTHING = "\u2013"


def spec_view(spec: Record, target: float | None, t: Texts) -> dict[str, Any]:
    """The texts and the bar of a recommended spec of any task, with place, price and cost of the run."""
    location = f"{spec['cloud']} {spec['region']}, {t.known('market.' + spec['market'], spec['market'])}"
    told = {"place": location, "price_told": price_text(spec["price"], t), "run_usd": run_usd(spec)}
    return machine_view(spec, target, t) | told


def machine_view(spec: Record, target: float | None, t: Texts, full: float | None = None) -> dict[str, Any]:
    """The texts and the bar of a spec, for any page; `full` is the scale that several bars share."""
    predicted = spec["predicted"]
    rates, confidence = predicted["throughput"], predicted["confidence"]
    return {
        "name": spec_name({"count": 1, **spec}),
        "disk": disk_text(spec["disk"], t),
        "has": _machine_text(spec, t),
        "usd_per_hour": spec["price"]["total_usd_per_hour"] if spec["price"] else None,
        **{bound: rates[bound] for bound in ("lower", "median", "upper")},
        "bounds": t(
            "answer.bounds",
            **percentiles(confidence),
            confidence=f"{confidence:g}",
            lower=lower_rate(rates["lower"]),
            upper=format_rate(rates["upper"]),
        ),
        "unit": rate_unit(predicted, t),
        "provenance": predicted["provenance"],
        "risk": spec["risk"],
        "bar": interval_bar(rates, target, t("chart.target"), full),
        "bar_label": interval_text(predicted, target, t),
    }


def gpu_text(gpu: Record | None) -> str:
    """The GPUs as '4 x T4' or 'H100-SXM5-80GB'; a dash if there are none."""
    if gpu is None:
        return NOTHING
    return f"{gpu['count']} x {gpu['name']}" if gpu.get("count", 1) > 1 else str(gpu["name"])


def disk_text(disk: Record, t: Texts) -> str:
    """The disk with its size and read rate: 'local disk (210 GiB, 166 MiB/s)'."""
    size = format_mib(disk["size_gib"] * 1024)
    speed = disk["read_mib_per_second"]
    text = size if speed is None else f"{size}, {format_rate(speed)} MiB/s"
    return f"{disk_name(disk['order'], t).partition(':')[0]} ({text})"


def _machine_text(spec: Record, t: Texts) -> str:
    gpu, parts = spec["gpu"], []
    if gpu:
        parts.append(f"{gpu['count']} x {gpu['name']} {format_mib(gpu['memory_mib'])}")
    cores = spec["physical_cores"]
    parts.append(t("answer.vcpus", vcpus=plain(spec["vcpus"]), cores=plain(cores)))
    parts += ["arm64"] if spec["cpu_architecture"] == "arm64" else []
    parts.append(t("answer.ram", ram=format_mib(spec["memory_mib"])))
    return " · ".join(parts)


def price_text(price: Record, t: Texts) -> str:
    """The kind of a price and its date."""
    kind = t.known("price." + price["kind"], price["kind"])
    return t("answer.price_of", kind=kind, date=price["as_of"])


def interval_text(predicted: Record, target: float | None, t: Texts) -> str:
    """The bar in words, for screen readers."""
    rates = predicted["throughput"]
    text = t(
        "answer.interval",
        **percentiles(predicted["confidence"]),
        unit=rate_unit(predicted, t),
        lower=lower_rate(rates["lower"]),
        median=format_rate(rates["median"]),
        upper=format_rate(rates["upper"]),
    )
    return text if target is None else f"{text}; {t('chart.target')} {format_target(target)}"


def percentiles(confidence: float) -> dict[str, str]:
    """The names of the bounds: {'p10': 'p10', 'p90': 'p90'} at confidence 0.9."""
    return {"p10": lower_name(confidence), "p90": upper_name(confidence)}


def rate_unit(predicted: Record, t: Texts) -> str:
    """The unit of the rate in the page's language: 'images/s', 'sequences/s'."""
    return t.known("unit." + predicted["unit"], predicted["unit"])


def stage_views(spec: Record, t: Texts) -> list[dict[str, Any]]:
    """The stages with their rates and utilizations in percent, in the order of `Stage`."""
    return [
        {
            "name": stage_name(stage, t, on_cpu=spec["gpu"] is None),
            "percent": round(min(100 * spec["utilization"][stage], 100), 1),
            "rate": f"{format_rate(spec['stage_rates'][stage])}/s",
            "binds": stage == spec["bottleneck"],
        }
        for stage in STAGES
        if stage in spec["utilization"]
    ]


def setting_of(spec: Record) -> str:
    """The precision and memory format of a spec: 'bf16, channels_last'."""
    return setting_text(spec["precision"], spec["memory_format"])


def disk_word(order: str) -> str:
    """The name of a disk as the option `--disk` takes it."""
    return "local" if order == LOCAL_ORDER else order


def spec_fields(spec: Record) -> dict[str, object]:
    """The fields of a `predict` question for this spec; `spec` may also be a row of a chart."""
    order = spec["disk"] if isinstance(spec["disk"], str) else spec["disk"]["order"]
    location = {name: spec[name] for name in ("cloud", "region", "market") if name in spec}
    runs = {name: spec[name] for name in ("batch_size", "precision", "memory_format") if spec.get(name)}
    return {"instance": spec["instance_type"], **location, "disk": disk_word(order), **runs}


# Widths in points of a picture on a phone and in half a card on a desktop; the type size is the same.
NARROW, HALF = 240.0, 330.0


def picture_of(drawn: Callable[[float], Chart]) -> dict[str, Chart]:
    """The wide and the narrow version of the picture that `drawn` makes for a width in points."""
    return {"wide": drawn(HALF), "narrow": drawn(NARROW)}


def price_chart(
    chosen: Record,
    others: Sequence[Record],
    target: float | None,
    frame: Frame,
    href: Callable[[Record], str],
) -> dict[str, Any]:
    """A picture and a table of price against throughput, whose specs link to `href`."""
    t = frame.texts
    specs = {
        (spec_name(spec), place_name(spec, clouds=True), spec["disk"]["order"]): spec
        for spec in (*reversed(others), chosen)
    }
    rows = drawn_rows([Drawn(spec, answers=True, chosen=spec is chosen) for spec in specs.values()])
    section = {
        "price_throughput": rows,
        "answer": {"target_throughput": target, "spec": {"unit": chosen["predicted"]["unit"]}},
    }
    picture = picture_of(lambda width: price_picture(section, t, width, href))
    columns = [
        Column(t("table.instance"), spec_name, Look.NAME),
        Column(t("table.disk"), lambda row: disk_name(row["disk"], t), Look.LONG),
        Column(t("table.per_hour"), "total_usd_per_hour", Look.USD),
        *(column._replace(unknown=NOTHING) for column in rate_columns(t, chosen["predicted"]["confidence"])),
        Column(
            t("chart.kind"),
            lambda row: t("key.pick" if row["chosen"] else "key.front" if row["on_front"] else "key.other"),
        ),
    ]
    note = t("price.note", **percentiles(chosen["predicted"]["confidence"]))
    table = Table(columns, rows, lambda row: row["chosen"])
    return {"title": t("price.title"), "picture": picture, "note": note, "table": table}


def curve_picture(
    name: str,
    points: Sequence[Record],
    document: Record,
    target: float | None,
    t: Texts,
    href: Callable[[Record], str],
) -> dict[str, Chart]:
    """A picture of throughput against vCPUs or RAM, with the predicted spec marked."""
    here = {field: document[field] for field in ("vcpus", "memory_mib")}
    section = {
        "curves": {name: {"points": points, "measured": ()}},
        "measured": (),
        "answer": {"target_throughput": target, "spec": {**here, "unit": document["predicted"]["unit"]}},
    }
    return picture_of(lambda width: curves_picture(section, t, width, href))
