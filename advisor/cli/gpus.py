"""`advisor gpus`: what GPUs are made of, and what an hour of each costs."""

from __future__ import annotations

import click

from advisor.answers.listing import gpus_document_of
from advisor.catalog import load_catalog
from advisor.cli.printing import print_answer, print_records
from advisor.cli.questions import SectionedCommand, output_in, question_options
from advisor.questions.listings import Gpus
from advisor.render.listings import GPU_COLUMNS, flat_gpu_row, gpus_text


@click.command(cls=SectionedCommand)
@question_options(Gpus)
@output_in("table", "json", "csv", "md", help="Format of the list.")
def gpus(question: Gpus, output: str) -> None:
    """GPUs by rate, memory, bandwidth, link, power and price.

    \b
    advisor gpus --gpu 24GiB.. --sort-by usd_per_fp32_tflop_hour
    advisor gpus --gpu T4,A10G,L4 -o md
    """
    document = gpus_document_of(load_catalog(), question)
    if output in ("csv", "md"):
        print_records(output, [flat_gpu_row(row) for row in document["gpus"]], GPU_COLUMNS)
    else:
        print_answer(output, document, lambda: gpus_text(document["gpus"]), indent=2)
