"""`advisor networks`: the networks that can be asked for, and what is known of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from advisor.answers.listing import listed_networks, networks_document
from advisor.cli.printing import print_answer, tell
from advisor.cli.questions import Shown, output_option
from advisor.errors import DataError, unknown_name
from advisor.models.performance import load_model
from advisor.questions.settled import language_hint
from advisor.render.listings import families_text, networks_text

if TYPE_CHECKING:
    from advisor.models.performance import PerformanceModel


@click.command()
@click.argument("search", required=False, metavar="[SEARCH]", type=Shown("search"))
@click.option("--all", "every", is_flag=True, help="List every network instead of families.")
@output_option
def networks(search: str | None, every: bool, output: str) -> None:
    """The networks that the advisor knows.

    SEARCH matches a part of a name, title or family, or a pattern. Without it: the families.

    Rates are published (measured by others with PyTorch, on that many GPUs) or modelled (never
    measured); `-`: the network can be built, its rate cannot be predicted.

    \b
    advisor networks resnet
    advisor networks 'timm/vit_base*'
    advisor networks --all -o json
    """
    model = _model()
    found = listed_networks(model, search)
    if search is not None and not found:
        known = {one.name for one in listed_networks(model)}
        error = unknown_name("network", search, known, listed_by="advisor networks --all")
        error.hint = language_hint(search) or error.hint
        raise error
    document = networks_document(model, found)
    text = families_text if search is None and not every else networks_text
    print_answer(output, document, lambda: text(document["networks"]), indent=2)


def _model() -> PerformanceModel | None:
    """The performance model; without it the list is still worth its while."""
    try:
        return load_model()
    except DataError as error:
        tell(f"advisor: rates are not shown: {error}")
        return None
