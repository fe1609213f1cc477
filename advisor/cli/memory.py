"""`advisor memory`: the GPU memory that a network takes, and the GPUs that it fits."""

from __future__ import annotations

import json

import click

from advisor.cli.questions import Name, question_options
from advisor.questions.models import MemoryQuestion


@click.command()
@question_options(MemoryQuestion)
@click.option("-o", "--output", type=Name("output format", ("table", "json")), default="table",
              show_default=True, help="Format of the answer.")  # fmt: skip
def memory(question: MemoryQuestion, output: str) -> None:
    """Peak GPU memory and its parts, which GPUs it fits, and the largest batch on each.

    "Fits": the upper bound lies within the card. "Does not fit": the lower bound exceeds it.
    Your own network, or another --input-size, is traced here (torch, about 30 s).

    \b
    advisor memory --model resnet50 --batch-size 64 --optimizer adam
    advisor memory --model net.py:build --task inference --precision amp --gpu T4,L4
    """
    from advisor.answers.memory import memory_answered
    from advisor.catalog import load_catalog
    from advisor.render.memory import memory_document, memory_text

    answer = memory_answered(load_catalog(), question)
    if output == "json":
        click.echo(json.dumps(memory_document(answer), indent=2, allow_nan=False))
    else:
        click.echo(memory_text(answer))
