"""`advisor compare`: instances beside each other, or GPUs relative to one of them."""

from __future__ import annotations

import json

import click

from advisor.answers import ask
from advisor.cli.questions import Name, SectionedCommand, question_options
from advisor.questions.commands import COMPARE, AnyCompare
from advisor.questions.listings import Sources
from advisor.render.tables import records_csv, records_markdown


class ComparingCommand(SectionedCommand):
    """It takes several networks, too."""

    lists = (*SectionedCommand.lists, "model")


@click.command(cls=ComparingCommand)
@question_options(COMPARE)
@question_options(Sources, "sources")
@click.option(
    "-o",
    "--output",
    type=Name("output format", ("table", "json", "csv", "md")),
    default="table",
    show_default=True,
    help="Format of the answer.",
)
def compare(question: AnyCompare, sources: Sources, output: str) -> None:
    """Compare instances, or GPUs by themselves, against a baseline.

    --model takes several networks, with commas. A dash means that no batch certainly fits.

    \b
    advisor compare --task training --model resnet50 --instance g4dn.xlarge --instance g5.xlarge
    advisor compare --task training --model resnet50,vgg16 --gpu T4,L4,A10G --baseline RTX8000
    """
    answer = ask.compare(sources, question)
    if output == "table":
        click.echo(answer.text())
    elif output == "json":
        click.echo(json.dumps(answer.document(), indent=2, allow_nan=False))
    else:
        render = records_csv if output == "csv" else records_markdown
        assert answer.table is not None
        click.echo(render(answer.table.rows(), answer.table.columns), nl=False)
