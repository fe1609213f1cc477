"""`advisor predict`: the throughput of one instance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from advisor.catalog import load_catalog
from advisor.cli.anchors import anchor_option, model_for
from advisor.cli.explaining import explain_instance, explain_option
from advisor.cli.parameters import Name
from advisor.cli.requests import question_options
from advisor.cli.run_options import run_options
from advisor.cli.sources import model_option
from advisor.operations.questions.requests import request_from, today
from advisor.operations.questions.sources import model_in_use, sources_of
from advisor.recommend import predict_instance
from advisor.report.single import prediction_text, single_document


@click.command()
@question_options
@run_options
@anchor_option
@explain_option
@model_option
@click.option("--instance", "name", required=True, help="Instance type, as g4dn.xlarge.")
@click.option(
    "-o", "--output", type=Name("output format", ("table", "json")), default="table",
    show_default=True,
)  # fmt: skip
def predict(model_file: Path | None, output: str, name: str, explain: bool, **answers: Any) -> None:
    """What one instance will reach, how sure that is, and what holds it back.

    \b
    advisor predict --task training --model resnet50 --instance g5.xlarge --disk gp3:500GiB
    advisor predict --task training --model my_net --anchor anchor-net.json --instance g5.xlarge
    """
    catalog = load_catalog()
    heard = model_for(model_in_use(model_file), catalog, answers)
    for warning in heard.warnings:
        click.echo(f"note: {warning}", err=True)
    model = heard.model
    request = request_from(model.networks, catalog, answers)
    answer = predict_instance(request, catalog, model, catalog.name_of(name), today=today())
    sources = sources_of(model, catalog)
    explained = explain_instance(explain, answer, catalog, model)
    if output == "json":
        document = single_document(request, answer, sources, explained.document())
        click.echo(json.dumps(document, indent=2, allow_nan=False))
    else:
        click.echo(prediction_text(request, answer, sources) + explained.text())
