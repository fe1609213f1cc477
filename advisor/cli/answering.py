"""Commands that answer one question each: `predict`, `compare`, `memory`, `gpus` and `networks`."""

from __future__ import annotations

import click

from advisor.answers import ask
from advisor.answers.listing import (
    gpus_document_of,
    language_models_document,
    listed_networks,
    networks_document,
)
from advisor.catalog import load_catalog
from advisor.cli.printing import print_answer, tell
from advisor.cli.questions import FieldType, SectionedCommand, output_in, output_option, question_options
from advisor.domain.words import LanguageTask
from advisor.errors import DataError, unknown_name
from advisor.files import csv_of
from advisor.models.performance import load_model
from advisor.questions.commands import COMPARE, MEMORY, PREDICT, AnyCompare, AnyMemory, AnyPredict
from advisor.questions.fields import Text
from advisor.questions.listings import Gpus, Sources
from advisor.questions.settled import language_hint
from advisor.render import listings
from advisor.render.tables import records_markdown

RECORDS = {"csv": csv_of, "md": records_markdown}


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


class ComparingCommand(SectionedCommand):
    """A command whose `--model` also takes several networks or language models, joined by commas."""

    lists = (*SectionedCommand.lists, "model")


@click.command(cls=ComparingCommand)
@question_options(COMPARE)
@question_options(Sources, "sources")
@output_in("table", "json", *RECORDS, help="Format of the answer.")
def compare(question: AnyCompare, sources: Sources, output: str) -> None:
    """Compare instances, or GPUs by themselves, against a baseline.

    --model takes several, with commas. A dash means that no batch certainly fits.

    \b
    advisor compare --task training --model resnet50 --instance g4dn.xlarge --instance g5.xlarge
    advisor compare --task training --model resnet50,vgg16 --gpu T4,L4,A10G --baseline RTX8000
    advisor compare --task generation --model qwen3-32b --instance p5.4xlarge,g6e.12xlarge --users 20
    """
    answer = ask.compare(sources, question)
    if output in RECORDS:
        for note in answer.notes:
            tell(f"note: {note}")
        click.echo(RECORDS[output](answer.rows(), list(answer.columns)), nl=False)
    else:
        print_answer(output, answer.document(), answer.text, indent=2)


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


@click.command(cls=SectionedCommand)
@question_options(Gpus)
@output_in("table", "json", *RECORDS, help="Format of the list.")
def gpus(question: Gpus, output: str) -> None:
    """GPUs by rate, memory, bandwidth, link, power and price.

    \b
    advisor gpus --gpu 24GiB.. --sort-by usd_per_fp32_tflop_hour
    advisor gpus --gpu T4,A10G,L4 -o md
    """
    document = gpus_document_of(load_catalog(), question)
    if output in RECORDS:
        rows = [listings.flat_gpu_row(row) for row in document["gpus"]]
        click.echo(RECORDS[output](rows, listings.GPU_COLUMNS), nl=False)
    else:
        print_answer(output, document, lambda: listings.gpus_text(document["gpus"]), indent=2)


@click.command()
@click.argument("search", required=False, metavar="[SEARCH]", type=FieldType(Text(), "search"))
@click.option("--all", "every", is_flag=True, help="List every network instead of families.")
@click.option(
    "--task",
    type=click.Choice(list(LanguageTask), case_sensitive=False),
    help="List the language models that can be served and tuned instead.",
)
@output_option
def networks(search: str | None, every: bool, task: str | None, output: str) -> None:
    """The networks that the advisor knows.

    SEARCH matches a part of a name, title or family, or a pattern. Without it: the families.

    Rates are published (measured by others with PyTorch, on that many GPUs) or modelled (never
    measured); `-`: the network can be built, its rate cannot be predicted.

    \b
    advisor networks resnet
    advisor networks 'timm/vit_base*'
    advisor networks --all -o json
    advisor networks --task generation qwen3
    """
    if task:
        known_models = language_models_document(search)
        print_answer(
            output, known_models, lambda: listings.language_models_text(known_models["models"]), indent=2
        )
        return
    model = None
    try:
        model = load_model()
    except DataError as error:  # the list is useful without rates, too
        tell(f"advisor: rates are not shown: {error}")
    listed = listed_networks(model, search)
    if search is not None and not listed:
        known = {network.name for network in listed_networks(model)}
        unknown = unknown_name("network", search, known, listed_by="advisor networks --all")
        unknown.hint = language_hint(search) or unknown.hint
        raise unknown
    document = networks_document(model, listed)
    text = listings.families_text if search is None and not every else listings.networks_text
    print_answer(output, document, lambda: text(document["networks"]), indent=2)
