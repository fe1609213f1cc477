"""`advisor gpus`: what GPUs are made of, and what an hour of each costs."""

from __future__ import annotations

import json

import click

from advisor.answers.listing import gpus_document_of
from advisor.catalog import load_catalog
from advisor.cli.questions import Name, SectionedCommand, question_options
from advisor.questions.listings import Gpus
from advisor.render.listings import GPU_COLUMNS, flat_gpu_row, gpus_text
from advisor.render.tables import records_csv, records_markdown


@click.command(cls=SectionedCommand)
@question_options(Gpus)
@click.option(
    "-o",
    "--output",
    type=Name("output format", ("table", "json", "csv", "md")),
    default="table",
    show_default=True,
    help="Format of the list.",
)
def gpus(question: Gpus, output: str) -> None:
    """GPUs by rate, memory, bandwidth, link, power and price.

    \b
    advisor gpus --gpu 24GiB.. --sort-by usd_per_fp32_tflop_hour
    advisor gpus --gpu T4,A10G,L4 -o md
    """
    document = gpus_document_of(load_catalog(), question)
    rows = document["gpus"]
    if output == "json":
        click.echo(json.dumps(document, indent=2, allow_nan=False))
    elif output == "table":
        click.echo(gpus_text(rows))
    else:
        render = records_csv if output == "csv" else records_markdown
        click.echo(render([flat_gpu_row(row) for row in rows], GPU_COLUMNS), nl=False)
