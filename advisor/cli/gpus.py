"""`advisor gpus`: what GPUs are made of, and what an hour of each costs."""

from __future__ import annotations

import json
from typing import Any

import click

from advisor.answers.gpus import gpus_document_of
from advisor.catalog import load_catalog
from advisor.cli.hardware import GPU_HELP, GpuFilter
from advisor.cli.parameters import Name
from advisor.cli.places import place_options
from advisor.render.gpus import (
    COLUMNS,
    SORT_KEYS,
    flat_row,
    gpus_text,
)
from advisor.render.tables import records_csv, records_markdown


@click.command()
@click.option("--gpu", type=GpuFilter(), help=GPU_HELP)
@place_options
@click.option("--sort-by", type=Name("sort key", tuple(SORT_KEYS)), default="usd_per_gpu_hour",
              show_default=True, help="Cheapest, or largest, first; unknown last.")  # fmt: skip
@click.option("-o", "--output", type=Name("output format", ("table", "json", "csv", "md")),
              default="table", show_default=True)  # fmt: skip
def gpus(output: str, **asked: Any) -> None:
    """GPUs by rate, memory, bandwidth, link, power and price.

    \b
    advisor gpus --gpu 24GiB.. --sort-by usd_per_fp32_tflop_hour
    advisor gpus --gpu T4,A10G,L4 -o md
    """
    document = gpus_document_of(load_catalog(), asked)
    rows = document["gpus"]
    if output == "json":
        click.echo(json.dumps(document, indent=2, allow_nan=False))
    elif output == "table":
        click.echo(gpus_text(rows))
    else:
        render = records_csv if output == "csv" else records_markdown
        flat = [flat_row(row) for row in rows]
        click.echo(render(flat, COLUMNS), nl=False)
