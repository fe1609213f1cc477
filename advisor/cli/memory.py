"""`advisor memory`: the GPU memory that a network takes, and the GPUs that it fits."""

from __future__ import annotations

import click

from advisor.answers import ask
from advisor.catalog import load_catalog
from advisor.cli.printing import print_answer
from advisor.cli.questions import SectionedCommand, output_in, question_options
from advisor.questions.commands import MEMORY, AnyMemory


@click.command(cls=SectionedCommand)
@question_options(MEMORY)
@output_in("table", "json", help="Format of the answer.")
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
    print_answer(output, answer.document(), answer.text, indent=2)
