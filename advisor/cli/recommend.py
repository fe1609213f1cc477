"""`advisor recommend`: finds the cheapest spec that meets the target and limits."""

from __future__ import annotations

from contextlib import suppress

import click

from advisor.answers import ask
from advisor.answers.context import FORMATS
from advisor.cli.questions import SectionedCommand, output_in, question_options, typed_option
from advisor.errors import NoOfferError, UsageError
from advisor.messages import FieldName, Message
from advisor.questions.commands import RECOMMEND, AnyRecommend
from advisor.questions.fields import Choice, error_in
from advisor.questions.listings import Sources
from advisor.questions.network import Recommend
from advisor.render.export import EVERY_FORMAT as EXPORTS

OUTPUTS = ("table", *FORMATS)
EXPLAINED_IN = ("table", "json", "yaml")


@click.command(cls=SectionedCommand)
@question_options(RECOMMEND)
@question_options(Sources, "sources")
@output_in(*OUTPUTS, help="Format of the answer.")
@typed_option(
    Choice("export", EXPORTS),
    "--export",
    "export_to",
    help="Print only a file that starts the recommended spec.",
)
def recommend(question: AnyRecommend, sources: Sources, output: str, export_to: str | None) -> None:
    """The cheapest instance and disk that will really reach a throughput.

    \b
    advisor recommend --task inference --model googlenet --target-throughput 500
    advisor recommend --task training --model resnet50 --precision amp --gpu T4,L4,A10G
    advisor recommend --task training --model resnet50 --epochs 90 --max-hours 72
    advisor recommend --task training --model my_net --anchor anchor-net.json
    advisor recommend --task training --model resnet50 --export terraform > main.tf
    advisor recommend --task preprocessing --model resnet50 --target-throughput 1000
    advisor recommend --task generation --model meta-llama/Llama-3.1-8B --users 40 --max-tpot-ms 50
    advisor recommend --task finetuning --model Qwen/Qwen3-8B --tokens 50M --method qlora
    """
    _refuse_meaningless(question, output, export_to)
    answer = ask.recommend(sources, question)
    chosen = answer.result.chosen
    if export_to is not None:
        text = "" if chosen is None else answer.written(export_to)
    else:
        text = answer.text(question.max_shown) + "\n" if output == "table" else answer.written(output)
    # The reader (head) may have exited; the exit code must tell the result all the same.
    with suppress(BrokenPipeError):
        click.echo(text, nl=False)
    if chosen is None:
        # The table printed above already says what was rejected and what would fit.
        is_told = export_to is None and output == "table" and answer.result.rejected
        raise NoOfferError(Message("no offer does what you ask") if is_told else answer.no_offer())


def _refuse_meaningless(question: AnyRecommend, output: str, export_to: str | None) -> None:
    """Raise `UsageError` for an option that another one makes meaningless, instead of ignoring it."""
    if export_to is not None:
        given = {
            "output": _is_given("output"),
            "explain": question.explain,
            "explain_rejected": question.explain_rejected,
            "pareto": isinstance(question, Recommend) and question.pareto,
            "max_results": _is_given("max_results"),
        }
        others = [FieldName(field) for field, is_given in given.items() if is_given]
        if others:
            raise error_in(
                str(others[0]),
                "{export} prints a file and nothing of the answer",
                export=FieldName("export"),
                hint=Message("leave out {others}, or {export}", others=others, export=FieldName("export")),
            )
    if question.explain and output not in EXPLAINED_IN:
        raise UsageError("--explain goes with -o table, json or yaml", field="explain")
    if question.explain_rejected and output not in EXPLAINED_IN:
        raise UsageError("--explain-rejected goes with -o table, json or yaml", field="explain_rejected")


def _is_given(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
