"""`advisor memory`: the GPU memory that a network takes, and the GPUs that it fits."""

from __future__ import annotations

import json
from typing import Any

import click

from advisor.cli.hardware import GpuFilter
from advisor.cli.parameters import Confidence, Name, Positive, Text
from advisor.domain import Precision, Task

_TASKS = (Task.TRAINING, Task.INFERENCE)
_OPTIMIZERS = ("sgd", "momentum", "adam")
# As a sweep has it.
_DEFAULT_BATCH = "32"


@click.command()
@click.option(
    "--model", "network", required=True, help="A network (advisor networks), or file.py:build."
)
@click.option("--task", type=Name("task", _TASKS), default="training", show_default=True)
@click.option(
    "--batch-size",
    type=Positive("--batch-size", whole=True),
    default=_DEFAULT_BATCH,
    show_default=True,
)
@click.option(
    "--precision", type=Name("precision", tuple(Precision)), default="fp32", show_default=True
)
@click.option(
    "--optimizer",
    type=Name("optimizer", _OPTIMIZERS),
    default="momentum",
    show_default=True,
    help="What is kept for each trained value.",
)
@click.option(
    "--checkpointing", is_flag=True, help="Blocks are computed again in the backward pass."
)
@click.option("--keep-graph", is_flag=True, help="Inference without torch.no_grad().")
@click.option(
    "--input-size",
    type=Positive("--input-size", whole=True),
    metavar="PIXELS",
    help="Side of square images, where not the network's own.",
)
@click.option(
    "--input", "input", type=Text("--input"), metavar="SIZE",
    help="The same, as 3x384x384.",
)  # fmt: skip
@click.option("--gpu", type=GpuFilter(), help="T4,L4 or 24GiB..  [default: those for rent]")
@click.option(
    "--confidence",
    type=Confidence(),
    default=0.95,
    show_default=True,
    help="How sure each bound is.",
)
@click.option("-o", "--output", type=Name("output format", ("table", "json")), default="table",
              show_default=True)  # fmt: skip
def memory(output: str, **asked: Any) -> None:
    """Peak GPU memory with its parts, the GPUs it fits, and the largest batch on each.

    "Fits": its upper bound is within the card. "Does not fit": its lower one is not.
    An own network, and another --input-size, are traced here, which takes torch and half a minute.

    \b
    advisor memory --model resnet50 --batch-size 64 --optimizer adam
    advisor memory --model net.py:build --task inference --precision amp --gpu T4,L4
    """
    from advisor.answers.memory import memory_answered
    from advisor.catalog import load_catalog
    from advisor.render.memory import memory_document, memory_text

    source = click.get_current_context().get_parameter_source("optimizer")
    if source is click.core.ParameterSource.DEFAULT:
        asked["optimizer"] = None
    answer = memory_answered(load_catalog(), asked)
    if output == "json":
        click.echo(json.dumps(memory_document(answer), indent=2, allow_nan=False))
    else:
        click.echo(memory_text(answer))
