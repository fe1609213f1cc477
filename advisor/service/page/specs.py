"""One candidate of an answer's document -> what a page shows of it, its bars included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from advisor.domain import HOURS_PER_MONTH, Stage
from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import lower_rate, plain
from advisor.render.price_parts import by_price
from advisor.render.text import lower_name, upper_name
from advisor.units import ceil_ms, format_hours, format_mib, format_rate, format_target, format_usd

# The widest thing on the bar ends here, so that its label has room.
_FILLED = 92.0
# Labels beyond these hang to one side.
_LEFT, _RIGHT = 15.0, 85.0


class IntervalBar(Struct, frozen=True, kw_only=True):
    """An interval of rates with its median and a target; None where there is no target."""

    lower: float
    width: float
    median: float
    target: float | None
    target_text: str
    target_anchor: str


def interval_bar(
    rates: Mapping[str, Any], target: float | None, target_word: str, full: float | None = None
) -> IntervalBar:
    """The bar of `lower`, `median` and `upper`; `full` is the rate at its end where bars share one scale."""
    most = full or max(rates["upper"], target or 0.0)
    scale = _FILLED / most
    at = None if target is None else round(min(target * scale, 100.0), 2)
    return IntervalBar(
        lower=round(rates["lower"] * scale, 2),
        width=round((rates["upper"] - rates["lower"]) * scale, 2),
        median=round(rates["median"] * scale, 2),
        target=at,
        target_text="" if target is None else f"{target_word} {format_target(target)}",
        target_anchor=_anchor(at or 0.0),
    )


def _anchor(percent: float) -> str:
    if percent < _LEFT:
        return "start"
    return "end" if percent > _RIGHT else "middle"


STAGES = tuple(str(stage) for stage in Stage)
LOCAL = "instance_store"
NOTHING = "\u2013"


def spec_view(spec: Mapping[str, Any], target: float | None, t: Texts) -> dict[str, Any]:
    """Everything about a spec that is told: names, bars, prices and sentences in `t`'s language."""
    rates = spec["predicted"]["throughput"]
    return {
        **spec_row(spec, t),
        **told_view(spec, t),
        "place": place_text(spec, t),
        "price_told": price_text(spec["price"], t),
        "bar": interval_bar(rates, target, t("chart.target")),
        "bar_label": interval_text(spec["predicted"], target, t),
        "stages": stage_views(spec, t),
        "details": _details(spec, t),
    }


def told_view(spec: Mapping[str, Any], t: Texts) -> dict[str, Any]:
    """What every page tells of a spec, whatever is asked of it."""
    return {
        "disk": disk_text(spec["disk"], t),
        "has": machine_text(spec, t),
        "bounds": bounds_text(spec["predicted"], t),
        "unit": rate_unit(spec["predicted"], t),
        "provenance": spec["predicted"]["provenance"],
        "risk": spec["risk"],
    }


def spec_row(spec: Mapping[str, Any], t: Texts) -> dict[str, Any]:
    """What a row of a table has of it; numbers as they are."""
    rates, count = spec["predicted"]["throughput"], spec.get("count", 1)
    name = spec["instance_type"]
    return {
        "name": name if count == 1 else f"{count} x {name}",
        "instance_type": name,
        "usd_per_hour": spec["price"]["total_usd_per_hour"] if spec["price"] else None,
        "bottleneck": stage_text(spec["bottleneck"], spec, t),
        **{bound: rates[bound] for bound in ("lower", "median", "upper")},
    }


def gpu_text(gpu: Mapping[str, Any] | None) -> str:
    """'4 x T4', 'H100-SXM5-80GB', or a dash."""
    if gpu is None:
        return NOTHING
    return f"{gpu['count']} x {gpu['name']}" if gpu.get("count", 1) > 1 else str(gpu["name"])


def disk_order(disk: Mapping[str, Any], t: Texts) -> str:
    """As `--disk` takes it; the instance's own disk by its word."""
    return t("disk.local") if disk["type"] == LOCAL else str(disk["order"])


def disk_text(disk: Mapping[str, Any], t: Texts) -> str:
    """'local disk (210 GiB, reads 166 MiB/s)'."""
    size = format_mib(disk["size_gib"] * 1024)
    speed = disk["read_mib_per_second"]
    text = size if speed is None else f"{size}, {format_rate(speed)} MiB/s"
    return f"{disk_order(disk, t).partition(':')[0]} ({text})"


def machine_text(spec: Mapping[str, Any], t: Texts) -> str:
    """'1 x T4 15 GiB, 8 vCPUs (4 cores), 32 GiB RAM'."""
    gpu, parts = spec["gpu"], []
    if gpu:
        parts.append(f"{gpu['count']} x {gpu['name']} {format_mib(gpu['memory_mib'])}")
    cores = spec["physical_cores"]
    parts.append(t("answer.vcpus", vcpus=plain(spec["vcpus"]), cores=plain(cores)))
    parts += ["arm64"] if spec["cpu_architecture"] == "arm64" else []
    parts.append(t("answer.ram", ram=format_mib(spec["memory_mib"])))
    return " · ".join(parts)


def place_text(spec: Mapping[str, Any], t: Texts) -> str:
    """'aws us-east-1, on-demand'."""
    market = t.known("market." + spec["market"], spec["market"])
    return f"{spec['cloud']} {spec['region']}, {market}"


def price_text(price: Mapping[str, Any], t: Texts) -> str:
    """Which kind of price, and of when."""
    kind = t.known("price." + price["kind"], price["kind"])
    return t("answer.price_of", kind=kind, date=price["as_of"])


def interval_text(predicted: Mapping[str, Any], target: float | None, t: Texts) -> str:
    """The bar in words, for those who do not see it."""
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
    """What the bounds are called: {'p10': 'p10', 'p90': 'p90'} at confidence 0.9."""
    return {"p10": lower_name(confidence), "p90": upper_name(confidence)}


def rate_unit(predicted: Mapping[str, Any], t: Texts) -> str:
    """'images/s', 'sequences/s'."""
    return t.known("unit." + predicted["unit"], predicted["unit"])


def bounds_text(predicted: Mapping[str, Any], t: Texts) -> str:
    """'p10 720, p90 1,110 (confidence 0.9)'."""
    rates, confidence = predicted["throughput"], predicted["confidence"]
    return t(
        "answer.bounds",
        **percentiles(confidence),
        confidence=f"{confidence:g}",
        lower=lower_rate(rates["lower"]),
        upper=format_rate(rates["upper"]),
    )


def stage_text(stage: str, spec: Mapping[str, Any], t: Texts) -> str:
    """A stage by its name; where nothing but the CPU computes, the accelerator is the CPU."""
    if stage == "accelerator" and spec["gpu"] is None:
        return t("stage.cpu")
    return t("stage." + stage)


def stage_views(spec: Mapping[str, Any], t: Texts) -> list[dict[str, Any]]:
    """Each stage with the share of its own rate that is used, in the order data flow ends."""
    return [
        {
            "name": stage_text(stage, spec, t),
            "percent": round(min(100 * spec["utilization"][stage], 100), 1),
            "rate": f"{format_rate(spec['stage_rates'][stage])}/s",
            "binds": stage == spec["bottleneck"],
        }
        for stage in STAGES
        if stage in spec["utilization"]
    ]


def _details(spec: Mapping[str, Any], t: Texts) -> list[tuple[str, str]]:
    """Names and values under the answer; what does not apply is left out."""
    predicted, price = spec["predicted"], spec["price"]
    details = [(t("detail.batch"), str(spec["batch_size"]))]
    latency = spec.get("latency")
    if latency:
        details.append((t("detail.latency"), _latency_text(latency, t)))
    cost = (spec.get("cost") or {}).get("usd_per_million_samples")
    if cost:
        details.append((t("detail.per_million"), format_usd(cost)))
    if price and price["disk_usd_per_hour"]:
        disk = price["disk_usd_per_hour"] * HOURS_PER_MONTH * spec.get("count", 1)
        details.append((t("detail.disk_price"), t("detail.of_total", usd=format_usd(disk))))
    if predicted["gpus_used"] > 1:
        details.append((t("detail.gpus"), _gpus_text(predicted)))
    return details + _run_details(spec.get("run"), t)


def _latency_text(latency: Mapping[str, float | None], t: Texts) -> str:
    p50, p99 = (f"{ceil_ms(ms / 1000):,g} ms" if ms else "" for ms in (latency["p50_ms"], latency["p99_ms"]))
    return t("detail.latency_value", p50=p50, p99=p99) if p99 else p50


def _gpus_text(predicted: Mapping[str, Any]) -> str:
    return f"{predicted['gpus_used']} x {100 * predicted['gpu_efficiency']:.0f}\u00a0%"


def _run_details(run: Mapping[str, Any] | None, t: Texts) -> list[tuple[str, str]]:
    """How long the whole run takes and what it costs: median and upper bound."""
    if not run:
        return []
    hours = _span(run["hours"], lambda value, up: format_hours(value, up=up), t)
    details = [(t("detail.run"), hours)]
    if run["usd"]:
        usd = _span(run["usd"], lambda value, _: format_usd(value), t)
        details.append((t("detail.run_cost"), t.listed([usd, *by_price(run, "run.by_price", t)])))
    return details


def _span(span: Mapping[str, float | None], write: Any, t: Texts) -> str:
    median, most = write(span["median"], False), span["upper"]
    if most is None:
        return str(median)
    return t("detail.span", median=median, most=write(most, True))


def spec_fields(spec: Mapping[str, Any]) -> dict[str, object]:
    """The words of `predict` that mean just this spec."""
    disk = "local" if spec["disk"]["type"] == LOCAL else spec["disk"]["order"]
    place = {name: spec[name] for name in ("cloud", "region", "market") if name in spec}
    return {"instance": spec["instance_type"], **place, "disk": disk, "batch_size": spec["batch_size"]}
