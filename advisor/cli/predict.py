"""`advisor predict`: the throughput of one instance."""

from __future__ import annotations

import click

from advisor.answers import ask
from advisor.cli.printing import print_answer, tell
from advisor.cli.questions import SectionedCommand, output_in, question_options
from advisor.questions.commands import PREDICT, AnyPredict
from advisor.questions.listings import Sources


@click.command(cls=SectionedCommand)
@question_options(PREDICT)
@question_options(Sources, "sources")
@output_in("table", "json", help="Format of the answer.")
def predict(question: AnyPredict, sources: Sources, output: str) -> None:
    """Predict the throughput of one instance or GPU, with an interval and its bottleneck.

    \b
    advisor predict --task training --model resnet50 --instance g5.xlarge --disk gp3:500GiB
    advisor predict --task training --model resnet50 --instance g5.xlarge --vcpus 16
    advisor predict --task training --model resnet50 --precision amp --gpu 'RTX 5090'
    advisor predict --task training --model my_net --anchor anchor-net.json --instance g5.xlarge
    advisor predict --task generation --model Qwen/Qwen3-32B --instance p5.4xlarge --users 20
    """
    answer = ask.predict(sources, question)
    for note in answer.notes:
        tell(f"note: {note}")
    print_answer(output, answer.document(), answer.text, indent=2)
