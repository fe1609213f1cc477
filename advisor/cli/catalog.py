"""`advisor catalog`: what the bundled catalogue knows."""

from __future__ import annotations

import json
from typing import Any

import click

from advisor.catalog import (
    INSTANCE_BURST_SECONDS,
    Catalog,
    OfferQuery,
    Rejection,
    check,
    load_catalog,
)
from advisor.cli.catalog_disks import disks
from advisor.cli.parameters import GpuFilter, Name, Positive
from advisor.domain import InstanceType, Offer
from advisor.report.document import instance_document, price_document
from advisor.report.text import table
from advisor.units import format_mib, format_usd

SCHEMA = "advisor.catalog/1"
# A terminal's worth; JSON has no limit.
SHOWN_OFFERS = 40
FORMAT = Name("output format", ("table", "json"))


@click.group()
def catalog() -> None:
    """Instance types, disks and prices of the bundled snapshot."""


catalog.add_command(disks)


@catalog.command("list")
@click.option("--cloud", default="any", show_default=True, help="Only this cloud.")
@click.option("--region", help="Only this region.")
@click.option("--gpu", type=GpuFilter(), help="Only these GPUs, or a least memory: T4,L4 | 24GiB..")
@click.option("--max-price", type=Positive("--max-price"), help="USD per hour, without a disk.")
@click.option("-o", "--output", type=FORMAT, default="table", show_default=True)
def list_offers(
    cloud: str, region: str | None, gpu: Any, max_price: float | None, output: str
) -> None:
    """All priced offers, cheapest first; in JSON every one, in a table the first 40."""
    gpus, min_gpu_memory_mib = gpu or ((), None)
    known = load_catalog()
    query = OfferQuery(
        cloud=cloud,
        region=region,
        gpus=gpus,
        min_gpu_memory_mib=min_gpu_memory_mib,
        max_usd_per_hour=max_price,
    )
    offers = sorted(known.offers(query), key=lambda one: (one.price.usd_per_hour, _place(one)))
    if output == "json":
        click.echo(json.dumps(_offers_document(known, offers), indent=2, allow_nan=False))
        return
    click.echo("\n".join(_offer_table(offers[:SHOWN_OFFERS])))
    if len(offers) > SHOWN_OFFERS:
        click.echo(f"... and {len(offers) - SHOWN_OFFERS} more; filter, or take all with -o json")


@catalog.command()
@click.argument("instance_type")
@click.option("-o", "--output", type=FORMAT, default="table", show_default=True)
def show(instance_type: str, output: str) -> None:
    """Everything known about one instance type."""
    known = load_catalog()
    instance = known.instance(instance_type.lower())
    document = _type_document(known, instance)
    if output == "json":
        click.echo(json.dumps(document, indent=2, allow_nan=False))
        return
    for name, value in _flat(document):
        click.echo(f"{name:42}{value}")


def _offers_document(known: Catalog, offers: list[Offer]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "as_of": known.as_of.isoformat(),
        "sources": list(known.sources),
        "offers": [
            {
                "cloud": one.instance.cloud,
                "region": one.region,
                "market": str(one.market),
                **instance_document(one.instance),
                "price": price_document(one.price),
            }
            for one in offers
        ],
    }


def _offer_table(offers: list[Offer]) -> list[str]:
    rows = [
        [
            one.instance.name,
            one.region,
            f"{one.instance.gpu_count} x {one.instance.gpu_name}" if one.instance.gpu_name else "-",
            str(one.instance.vcpus),
            str(one.instance.physical_cores),
            format_mib(one.instance.memory_mib),
            format_usd(one.price.usd_per_hour),
            one.price.as_of.isoformat(),
        ]
        for one in offers
    ]
    header = ["instance", "region", "gpu", "vcpus", "cores", "memory", "per hour", "as of"]
    return table(header, rows, right=(3, 4, 5, 6))


def _type_document(known: Catalog, instance: InstanceType) -> dict[str, Any]:
    verdict = check(instance, known.gpu_of(instance), needs_gpu=instance.gpu_name is not None)
    prices = {region: known.price(instance.name, region) for region in known.regions()}
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
        "prices": {r: price_document(price) for r, price in prices.items() if price},
        "regions": list(known.regions_of(instance.name)),
        "as_of": instance.as_of.isoformat(),
        "source": instance.source,
    }


def _burst_seconds(instance: InstanceType) -> float | None:
    """How long the instance lends its burst; None where it lends none."""
    sustained, burst = instance.ebs_baseline_mib_per_second, instance.ebs_burst_mib_per_second
    return INSTANCE_BURST_SECONDS if (burst or 0.0) > (sustained or 0.0) else None


def _flat(document: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for name, value in document.items():
        if isinstance(value, dict):
            lines += _flat(value, f"{prefix}{name} ")
        elif isinstance(value, list):
            lines.append((prefix + name, ", ".join(map(str, value)) or "-"))
        elif name != "schema":
            lines.append((prefix + name, "-" if value in (None, "") else str(value)))
    return lines


def _place(one: Offer) -> tuple[str, str, str]:
    return one.instance.cloud, one.region, one.instance.name
