"""`advisor catalog show`: everything known about one type."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import click

from advisor.catalog import INSTANCE_BURST_SECONDS, Catalog, Rejection, check, load_catalog
from advisor.cli.parameters import Name, Positive, Text
from advisor.domain import InstanceType, Market, Price
from advisor.report.document import instance_document, price_document
from advisor.report.tables import short_number
from advisor.report.text import WIDTH, table
from advisor.units import format_usd

# Before a fact of a type.
MARGIN = " " * 42


@click.command()
@click.argument("instance_type")
@click.option("--cloud", type=Text("--cloud"), help="The cloud, where several have the name.")
@click.option("--region", type=Text("--region"), help="Prices in this region only.")
@click.option("--market", type=Name("market", tuple(Market)), default="on-demand",
              show_default=True, help="How it is paid.")  # fmt: skip
@click.option("--cny-per-usd", type=Positive("--cny-per-usd"), help="Yuan for a dollar.")
@click.option("-o", "--output", type=Name("output format", ("table", "json")), default="table",
              show_default=True)  # fmt: skip
def show(
    instance_type: str,
    cloud: str | None,
    region: str | None,
    market: str,
    cny_per_usd: float | None,
    output: str,
) -> None:
    """Everything known about one instance type, and what it costs in each region."""
    known = load_catalog(cny_per_usd=cny_per_usd)
    name = known.name_of(instance_type, cloud)
    partial = known.partial_type(name, cloud)
    prices = _prices(known, name, partial.cloud, region, Market(market))
    if partial.missing:
        facts: dict[str, Any] = _partial_document(known, name, partial.cloud)
    else:
        facts = _type_document(known, known.instance(name, partial.cloud))
    document = facts | {
        "market": market,
        "prices": {where: price_document(price) for where, price in prices.items()},
    }
    if output == "json":
        click.echo(json.dumps(document, indent=2, allow_nan=False))
        return
    click.echo("\n".join(_text(document)))


def _prices(
    known: Catalog, name: str, cloud: str, region: str | None, market: Market
) -> dict[str, Price]:
    """What it costs where that is known; a region that nobody knows is refused."""
    if region is not None:
        known.require_region(region, cloud)
    regions = [region] if region else list(known.regions(cloud))
    found = {where: known.price(name, where, market, cloud) for where in regions}
    return {where: price for where, price in found.items() if price}


def _type_document(known: Catalog, instance: InstanceType) -> dict[str, Any]:
    verdict = check(instance, known.gpu_of(instance), needs_gpu=instance.gpu_name is not None)
    return {
        "schema": "advisor.instance-type/1",
        "cloud": instance.cloud,
        **instance_document(instance),
        "cpu": {
            "model": instance.cpu.model,
            "architecture": instance.cpu.architecture,
            "single_thread_score": instance.cpu.single_thread_score,
            "second_thread_yield": instance.cpu.second_thread_yield,
        },
        "network_disks": {
            "baseline_mib_per_second": instance.ebs_baseline_mib_per_second,
            "baseline_iops": instance.ebs_baseline_iops,
            "burst_mib_per_second": instance.ebs_burst_mib_per_second,
            "burst_iops": instance.ebs_burst_iops,
            "burst_seconds": _burst_seconds(instance),
        },
        "local_disk": {
            "size_gib": instance.instance_store_gib,
            "read_iops": instance.instance_store_read_iops,
        },
        "host_to_gpu_gb_per_second": instance.host_to_gpu_gb_per_second,
        "ranked": not isinstance(verdict, Rejection),
        "remark": verdict.detail if isinstance(verdict, Rejection) else verdict.note,
        "regions": list(known.regions_of(instance.name, instance.cloud)),
        "as_of": instance.as_of.isoformat(),
        "source": instance.source,
    }


def _burst_seconds(instance: InstanceType) -> float | None:
    """How long the instance lends its burst; None where it lends none."""
    sustained, burst = instance.ebs_baseline_mib_per_second, instance.ebs_burst_mib_per_second
    return INSTANCE_BURST_SECONDS if (burst or 0.0) > (sustained or 0.0) else None


def _partial_document(known: Catalog, name: str, cloud: str) -> dict[str, Any]:
    facts = known.partial_type(name, cloud)
    gpu = {"name": facts.gpu_name, "count": facts.gpu_count, "memory_mib": facts.gpu_memory_mib}
    return {
        "schema": "advisor.instance-type/1",
        "cloud": cloud,
        "instance_type": name,
        "gpu": gpu if facts.gpu_name else None,
        "vcpus": facts.vcpus,
        "memory_mib": facts.memory_mib,
        "ranked": False,
        "remark": f"not known of it: {', '.join(facts.missing)}",
        "regions": list(known.regions_of(name, cloud)),
    }


def _text(document: dict[str, Any]) -> list[str]:
    """A line a fact, then a table of prices, the cheapest region first."""
    facts = {name: value for name, value in document.items() if name not in ("market", "prices")}
    width = WIDTH - len(MARGIN)
    lines = [
        f"{label if not at else '':{len(MARGIN)}}{part}"
        for label, value in _flat(facts)
        for at, part in enumerate(textwrap.wrap(value, width, break_on_hyphens=False) or ["-"])
    ]
    return [*lines, "", *_price_lines(document["prices"], document["market"])]


def _price_lines(prices: dict[str, dict[str, Any]], market: str) -> list[str]:
    if not prices:
        return [f"No {market} price is known."]
    rising = sorted(prices.items(), key=lambda item: (item[1]["usd_per_hour"], item[0]))
    rows = [
        [region, format_usd(one["usd_per_hour"]), one["kind"], one["as_of"], one["terms"] or ""]
        for region, one in rising
    ]
    sources = dict.fromkeys(f"{one['kind']}: {one['source']}" for _, one in rising)
    header = [f"region ({market})", "per hour", "price", "as of", "terms"]
    folded = [part for one in sources for part in textwrap.wrap(one, WIDTH, subsequent_indent="  ")]
    return [*table(header, rows, right=(1,)), "", *folded]


def _flat(document: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for name, value in document.items():
        if isinstance(value, dict):
            lines += _flat(value, f"{prefix}{name} ")
        elif isinstance(value, list):
            lines.append((prefix + name, ", ".join(map(str, value)) or "-"))
        elif name != "schema":
            lines.append((prefix + name, _cell(value)))
    return lines


def _cell(value: Any) -> str:
    """A fact for reading; in JSON it is not rounded."""
    if value in (None, ""):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return short_number(value) if isinstance(value, float) else str(value)
