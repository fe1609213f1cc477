"""`advisor memory`: the GPU memory that a network takes, and the GPUs that it fits."""

from __future__ import annotations

import json

import click

from advisor.answers import ask
from advisor.catalog import load_catalog
from advisor.cli.questions import Name, SectionedCommand, question_options
from advisor.questions.commands import MEMORY, AnyMemory


@click.command(cls=SectionedCommand)
@question_options(MEMORY)
@click.option(
    "-o",
    "--output",
    type=Name("output format", ("table", "json")),
    default="table",
    show_default=True,
    help="Format of the answer.",
)
def memory(question: AnyMemory, output: str) -> None:
    """Peak GPU memory and its parts, which GPUs it fits, and the largest batch on each.

    "Fits": the upper bound lies within the card. "Does not fit": the lower bound exceeds it.
    Your own network, or another --input-size, is traced here (torch, about 30 s).

    \b
    advisor memory --model resnet50 --batch-size 64 --optimizer adam
    advisor memory --model net.py:build --task inference --precision amp --gpu T4,L4
    advisor memory --task generation --model meta-llama/Llama-3.1-8B --max-context 32768
    """
    answer = ask.memory(load_catalog(), question)
    if output == "json":
        click.echo(json.dumps(answer.document(), indent=2, allow_nan=False))
    else:
        click.echo(answer.text())
