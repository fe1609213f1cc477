"""`advisor gpus`: what GPUs are made of, and what an hour of each costs."""

from __future__ import annotations

import json

import click

from advisor.catalog import Catalog, OfferQuery, load_catalog
from advisor.catalog.gpu_names import sheet_names
from advisor.catalog.gpu_prices import cheapest_by_gpu
from advisor.catalog.gpus import GpuSheet
from advisor.cli.hardware import GPU_HELP, GpuFilter
from advisor.cli.parameters import Name
from advisor.cli.places import place_options
from advisor.domain import Market
from advisor.operations.questions.hardware import GpuWanted
from advisor.operations.questions.requests import region_of
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
@click.option("--gpu", type=GpuFilter(), help=GPU_HELP)
@place_options
@click.option("--sort-by", type=Name("sort key", tuple(SORT_KEYS)), default="usd_per_gpu_hour",
              show_default=True, help="Cheapest, or largest, first; unknown last.")  # fmt: skip
@click.option("-o", "--output", type=Name("output format", ("table", "json", "csv", "md")),
              default="table", show_default=True)  # fmt: skip
def gpus(
    gpu: GpuWanted | None, cloud: str, region: str | None, market: str, sort_by: str, output: str
) -> None:
    """GPUs by rate, memory, bandwidth, link, power and price.

    \b
    advisor gpus --gpu 24GiB.. --sort-by usd_per_fp32_tflop_hour
    advisor gpus --gpu T4,A10G,L4 -o md
    """
    catalog = load_catalog()
    asked = {"cloud": cloud, "region": region_of(cloud, region), "market": market}
    query = OfferQuery(cloud=cloud, region=asked["region"], market=Market(market), accelerated=True)
    cheapest = cheapest_by_gpu(catalog.offers(query))
    rows = gpu_rows(_chosen(catalog, gpu or GpuWanted()), cheapest, sort_by)
    if output == "json":
        click.echo(json.dumps(gpus_document(rows, asked), indent=2, allow_nan=False))
    elif output == "table":
        click.echo(gpus_text(rows))
    else:
        render = records_csv if output == "csv" else records_markdown
        flat = [flat_row(row) for row in rows]
        click.echo(render(flat, COLUMNS), nl=False)


def _chosen(catalog: Catalog, wanted: GpuWanted) -> list[GpuSheet]:
    """Every data sheet, or those that are named ('A100' is every A100) and within the ranges."""
    sheets = [one for one in catalog.gpu_sheets.values() if wanted.allows(one.gpu)]
    if not wanted.names:
        return sheets
    found = {one for name in wanted.names for one in sheet_names(name, catalog.gpu_sheets)}
    return [one for one in sheets if one.gpu.name in found]
