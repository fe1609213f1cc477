"""`--anchor`, and what becomes of a question's performance model where the user measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from advisor.catalog import Catalog
from advisor.domain import Precision, Task
from advisor.domain.references import is_own
from advisor.operations.heard import Heard
from models.performance import PerformanceModel

anchor_option = click.option(
    "--anchor",
    "anchors",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What the network reached on one GPU: of `advisor measure`, `measurements export` or a "
    "campaign. Repeatable; --model may then be any name.",
)


def model_for(model: PerformanceModel, catalog: Catalog, answers: dict[str, Any]) -> Heard:
    """The model that answers, with the anchors taken out of `answers`.

    The network's name in `answers` becomes the one that the model knows it by.
    """
    files = answers.pop("anchors")
    name = str(answers["network"])
    answers["network"] = name if is_own(name) else name.lower()
    if not files and not is_own(name):
        return Heard(model, ())
    from advisor.operations.anchor_trials import Asked
    from advisor.operations.anchoring import heard_model

    asked = Asked(
        network=answers["network"],
        task=Task(answers["task"]),
        precision=Precision(answers["precision"]),
    )
    return heard_model(model, catalog, asked, files)
