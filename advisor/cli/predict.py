"""`advisor predict`: the throughput of one instance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from advisor.answers.ground import ground_in_use
from advisor.answers.predicting import Predicted, predicted
from advisor.answers.predicting_gpu import PredictedOnGpu, predicted_on_gpu
from advisor.answers.what_if import MOST_VCPUS
from advisor.cli.anchors import anchor_option
from advisor.cli.explaining import explain_option
from advisor.cli.parameters import Name, Positive, Size, Text
from advisor.cli.requests import question_options
from advisor.cli.run_options import run_options
from advisor.cli.sources import model_option


@click.command()
@question_options
@run_options
@anchor_option
@explain_option
@model_option
@click.option(
    "--vcpus", "as_vcpus", type=Positive("--vcpus", whole=True, most=MOST_VCPUS),
    help="What if it had so many vCPUs.",
)  # fmt: skip
@click.option("--memory", "as_memory_mib", type=Size(), help="What if it had so much RAM: 24GiB.")
@click.option("--instance", help="Instance type, as g4dn.xlarge.")
@click.option("--gpu", type=Text("--gpu"),
              help="Instead: a GPU by itself, whatever host feeds it, as 'RTX 5090'.")  # fmt: skip
@click.option(
    "-o", "--output", type=Name("output format", ("table", "json")), default="table",
    show_default=True,
)  # fmt: skip
def predict(model_file: Path | None, output: str, **asked: Any) -> None:
    """What one instance (or a GPU) will reach, how sure that is, and what holds it back.

    \b
    advisor predict --task training --model resnet50 --instance g5.xlarge --disk gp3:500GiB
    advisor predict --task training --model resnet50 --instance g5.xlarge --vcpus 16
    advisor predict --task training --model resnet50 --precision amp --gpu 'RTX 5090'
    advisor predict --task training --model my_net --anchor anchor-net.json --instance g5.xlarge
    """
    answer: Predicted | PredictedOnGpu
    if asked["gpu"] is None:
        answer = predicted(ground_in_use(model_file), asked)
    else:
        answer = predicted_on_gpu(ground_in_use(model_file), asked)
    for note in answer.ground.notes:
        click.echo(f"note: {note}", err=True)
    if output == "json":
        click.echo(json.dumps(answer.document(), indent=2, allow_nan=False))
    else:
        click.echo(answer.text())
