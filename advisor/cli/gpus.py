"""`advisor gpus`: what GPUs are made of, and what an hour of each costs."""

from __future__ import annotations

import json
from typing import Any

import click

from advisor.catalog import Catalog, OfferQuery, load_catalog
from advisor.catalog.gpu_names import sheet_names
from advisor.catalog.gpu_prices import cheapest_by_gpu
from advisor.catalog.gpus import GpuSheet
from advisor.catalog.matching import ECC_SHARE
from advisor.cli.parameters import GpuFilter, Name
from advisor.cli.places import place_options, region_of
from advisor.domain import Market
from advisor.report.gpus import (
    COLUMNS,
    SORT_KEYS,
    flat_row,
    gpu_rows,
    gpus_document,
    gpus_text,
)
from advisor.report.tables import records_csv, records_markdown


@click.command()
@click.option("--gpu", type=GpuFilter(), help="Only these GPUs, or a least memory: T4,L4 | 24GiB..")
@place_options
@click.option("--sort-by", type=Name("sort key", tuple(SORT_KEYS)), default="usd_per_gpu_hour",
              show_default=True, help="Cheapest, or largest, first; unknown last.")  # fmt: skip
@click.option("-o", "--output", type=Name("output format", ("table", "json", "csv", "md")),
              default="table", show_default=True)  # fmt: skip
def gpus(gpu: Any, cloud: str, region: str | None, market: str, sort_by: str, output: str) -> None:
    """GPUs by rate, memory, bandwidth, link, power and price.

    \b
    advisor gpus --gpu 24GiB.. --sort-by usd_per_fp32_tflop_hour
    advisor gpus --gpu T4,A10G,L4 -o md
    """
    catalog = load_catalog()
    asked = {"cloud": cloud, "region": region_of(cloud, region), "market": market}
    query = OfferQuery(cloud=cloud, region=asked["region"], market=Market(market), accelerated=True)
    cheapest = cheapest_by_gpu(catalog.offers(query))
    rows = gpu_rows(_chosen(catalog, gpu), cheapest, sort_by)
    if output == "json":
        click.echo(json.dumps(gpus_document(rows, asked), indent=2, allow_nan=False))
    elif output == "table":
        click.echo(gpus_text(rows))
    else:
        render = records_csv if output == "csv" else records_markdown
        flat = [flat_row(row) for row in rows]
        click.echo(render(flat, COLUMNS), nl=False)


def _chosen(catalog: Catalog, wanted: Any) -> list[GpuSheet]:
    """Every data sheet, or those that are named ('A100' is every A100), or with enough memory."""
    names, least_mib = wanted or ((), None)
    sheets = list(catalog.gpu_sheets.values())
    if least_mib is not None:
        return [one for one in sheets if one.gpu.memory_mib >= ECC_SHARE * least_mib]
    if not names:
        return sheets
    found = {one for name in names for one in sheet_names(name, catalog.gpu_sheets)}
    return [one for one in sheets if one.gpu.name in found]
