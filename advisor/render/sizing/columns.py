"""Columns of tables that reports and the service's page share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.render.content import Column, Look, translated
from advisor.render.document_names import place_name, spec_name, type_name
from advisor.render.i18n.catalogue import Texts
from advisor.render.sizing.sentences import disk_name, gpu_name, stage_name
from advisor.render.text import lower_name, upper_name

Record = Mapping[str, Any]


def columns_of(t: Texts, *columns: tuple[Any, ...]) -> list[Column]:
    """Columns of `(name of its heading, value, look)`; what has no price says so."""
    looks = [rest[0] if rest else Look.TEXT for _, _, *rest in columns]
    return [
        Column(t(f"table.{name}"), of, look, t("unknown") if look is Look.USD else "")
        for (name, of, *_), look in zip(columns, looks, strict=True)
    ]


def rate_columns(t: Texts, confidence: float | None, path: str = "") -> list[Column]:
    """Lower bound, median and upper bound, by the percentiles that they are."""
    lower, upper = t("table.lower"), t("table.upper")
    if confidence is not None:
        lower, upper = f"{lower_name(confidence)}/s", f"{upper_name(confidence)}/s"
    return [
        Column(lower, f"{path}lower", Look.LOWER),
        Column(t("table.median"), f"{path}median", Look.RATE),
        Column(upper, f"{path}upper", Look.RATE),
    ]


def spec_columns(t: Texts, home: str, *, clouds: bool) -> list[Column]:
    """Instance (with its region where that is not `home`, with `clouds` always, and its cloud), GPU
    and disk."""
    return columns_of(
        t,
        (
            "instance",
            lambda spec: (
                spec_name(spec)
                if spec["region"] == home and not clouds
                else f"{spec_name(spec)} {place_name(spec, clouds=clouds)}"
            ),
            Look.NAME,
        ),
        ("gpu", lambda spec: gpu_name(spec, t), Look.NAME),
        (
            "disk",
            lambda spec: disk_name(
                spec["disk"]["order"] if isinstance(spec["disk"], Mapping) else spec["disk"], t
            ),
            Look.LONG,
        ),
    )


def cost_columns(t: Texts, path: str = "") -> list[Column]:
    """The cost by samples, and what binds."""
    return columns_of(
        t,
        ("per_million_samples", f"{path}usd_per_million_samples", Look.USD),
        ("bound", lambda spec: stage_name(spec["bottleneck"], t)),
    )


def alternative_columns(t: Texts, home: str, confidence: float, *, clouds: bool) -> list[Column]:
    """Of the document's specs that answer, in the region `home` where none is named."""
    return [
        *spec_columns(t, home, clouds=clouds),
        *columns_of(t, ("per_hour", "price.total_usd_per_hour", Look.USD)),
        *rate_columns(t, confidence, "predicted.throughput.")[:2],
        *cost_columns(t, "cost."),
    ]


def rejected_columns(t: Texts, *, clouds: bool) -> list[Column]:
    """Of the document's `rejected`; the service's page has the same."""
    return columns_of(
        t,
        ("instance", lambda record: type_name(record, clouds=clouds), Look.NAME),
        ("per_hour", "usd_per_hour", Look.USD),
        ("reason", lambda record: t.known("reason." + record["reason"], record["reason"]), Look.NAME),
        ("detail", lambda record: translated(record["detail"], t)),
    )


def settings_columns(t: Texts) -> list[Column]:
    """Of the document's `other_settings`; the service's page has the same."""
    return [
        Column(t("settings.change"), "change"),
        Column(t("settings.gpu"), _gpu_gain),
        Column(t("settings.whole"), _whole_gain),
        Column(t("table.bound"), lambda setting: stage_name(setting["bottleneck"], t)),
        Column(t("settings.known"), lambda setting: t("yes" if setting["measured"] else "no")),
    ]


def _gpu_gain(setting: Record) -> str:
    return f"{setting['gain']:.2f} ({setting['lower']:.2f}\u2013{setting['upper']:.2f})"


def _whole_gain(setting: Record) -> str:
    return f"{100 * (setting['throughput_gain'] - 1):+.0f}\u00a0%"
