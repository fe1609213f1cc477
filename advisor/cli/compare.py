"""`advisor compare`: instances beside each other, or GPUs relative to one of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from advisor.answers.comparing import compared
from advisor.answers.ground import ground_in_use
from advisor.cli.hardware import GpuFilter
from advisor.cli.parameters import Name
from advisor.cli.requests import question_options
from advisor.cli.sources import model_option
from advisor.domain import OnGpu, Request
from advisor.render.comparing import (
    COLUMNS,
    flat_row,
)
from advisor.render.tables import records_csv, records_markdown

GpuTable = list[tuple[Request, list[OnGpu], OnGpu]]


@click.command()
@question_options
@model_option
@click.option("--instance", "instances", multiple=True, help="An instance type; name two or more.")
@click.option(
    "--gpu",
    type=GpuFilter(),
    help="GPUs alone, whatever host feeds them: T4,V100,L4 | 24GiB.. | cc8.0..",
)
@click.option(
    "--baseline",
    help="What counts as 1: an instance type, or with --gpu a GPU.  [default: the first one]",
)
@click.option(
    "-o", "--output", type=Name("output format", ("table", "json", "csv", "md")), default="table",
    show_default=True,
)  # fmt: skip
def compare(model_file: Path | None, output: str, **asked: Any) -> None:
    """How much faster, and at what cost: instances, or GPUs by themselves.

    With --gpu, --model takes several networks, and a dash says that no batch surely fits.

    \b
    advisor compare --task training --model resnet50 --instance g4dn.xlarge --instance g5.xlarge
    advisor compare --task training --model resnet50,vgg16 --gpu T4,L4,A10G --baseline RTX8000
    """
    answer = compared(ground_in_use(model_file), asked)
    if output == "table":
        click.echo(answer.text())
    elif output == "json":
        click.echo(json.dumps(answer.document(), indent=2, allow_nan=False))
    else:
        render = records_csv if output == "csv" else records_markdown
        click.echo(render([flat_row(row) for row in answer.rows()], COLUMNS), nl=False)
