"""`advisor compare`: instances beside each other, or GPUs relative to one of them."""

from __future__ import annotations

import click

from advisor.answers import ask
from advisor.cli.printing import print_answer, print_records
from advisor.cli.questions import SectionedCommand, output_in, question_options
from advisor.questions.commands import COMPARE, AnyCompare
from advisor.questions.listings import Sources


class ComparingCommand(SectionedCommand):
    """It takes several networks, too."""

    lists = (*SectionedCommand.lists, "model")


@click.command(cls=ComparingCommand)
@question_options(COMPARE)
@question_options(Sources, "sources")
@output_in("table", "json", "csv", "md", help="Format of the answer.")
def compare(question: AnyCompare, sources: Sources, output: str) -> None:
    """Compare instances, or GPUs by themselves, against a baseline.

    --model takes several networks, with commas. A dash means that no batch certainly fits.

    \b
    advisor compare --task training --model resnet50 --instance g4dn.xlarge --instance g5.xlarge
    advisor compare --task training --model resnet50,vgg16 --gpu T4,L4,A10G --baseline RTX8000
    """
    answer = ask.compare(sources, question)
    if output in ("csv", "md"):
        assert answer.table is not None
        print_records(output, answer.table.rows(), answer.table.columns)
    else:
        print_answer(output, answer.document(), answer.text, indent=2)
