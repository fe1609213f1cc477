"""`advisor compare`: instances beside each other, or GPUs relative to one of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from advisor.catalog import Catalog, load_catalog
from advisor.catalog.gpu_names import sheet_name, sheet_names
from advisor.cli.hardware import GpuFilter
from advisor.cli.parameters import Name
from advisor.cli.requests import question_options
from advisor.cli.sources import model_option
from advisor.domain import Gpu, OnGpu, Request, Task
from advisor.errors import UsageError
from advisor.operations.questions.hardware import GpuWanted
from advisor.operations.questions.requests import request_from
from advisor.operations.questions.sources import model_in_use, sources_of
from advisor.recommend import compare_instances, on_gpu
from advisor.report.comparing import (
    COLUMNS,
    comparison_document,
    flat_row,
    gpu_rows,
    gpus_text,
    instance_rows,
    instances_text,
)
from advisor.report.tables import records_csv, records_markdown
from models.performance import PerformanceModel

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
def compare(
    model_file: Path | None,
    output: str,
    instances: tuple[str, ...],
    gpu: GpuWanted | None,
    baseline: str | None,
    **answers: Any,
) -> None:
    """How much faster, and at what cost: instances, or GPUs by themselves.

    With --gpu, --model takes several networks, and a dash says that no batch surely fits.

    \b
    advisor compare --task training --model resnet50 --instance g4dn.xlarge --instance g5.xlarge
    advisor compare --task training --model resnet50,vgg16 --gpu T4,L4,A10G --baseline RTX8000
    """
    if bool(instances) == bool(gpu):
        raise UsageError("name what to compare: --instance twice or more, or --gpu T4,L4")
    if gpu and answers["task"] == Task.PREPROCESSING:
        raise UsageError("preprocessing uses no GPU; compare instances: --instance twice or more")
    model, catalog = model_in_use(model_file), load_catalog()
    requests = _requests(model, catalog, answers)
    if instances:
        text, rows, first = _instances(requests, catalog, model, instances, baseline)
    else:
        text, rows, first = _gpus(
            requests, model, _cards(catalog, gpu or GpuWanted()), baseline, catalog
        )
    if output == "table":
        click.echo(text)
    elif output == "json":
        document = comparison_document(requests, first, rows, sources_of(model, catalog))
        click.echo(json.dumps(document, indent=2, allow_nan=False))
    else:
        render = records_csv if output == "csv" else records_markdown
        click.echo(render([flat_row(row) for row in rows], COLUMNS), nl=False)


def _requests(model: PerformanceModel, catalog: Catalog, answers: dict[str, Any]) -> list[Request]:
    names = [name.strip() for name in str(answers["network"]).split(",") if name.strip()]
    return [
        request_from(model.networks, catalog, {**answers, "network": name})
        for name in dict.fromkeys(names) or [""]
    ]


def _instances(
    requests: Sequence[Request],
    catalog: Catalog,
    model: PerformanceModel,
    instances: Sequence[str],
    baseline: str | None,
) -> tuple[str, list[dict[str, Any]], str]:
    first = catalog.name_of(baseline or instances[0])
    names = list(dict.fromkeys([*map(catalog.name_of, instances), first]))
    if len(names) < 2:
        raise UsageError("one instance alone is `advisor predict`; name another --instance")
    texts, rows = [], []
    for request in requests:
        answers = compare_instances(request, catalog, model, names)
        base = answers[names.index(first)]
        texts.append(instances_text(request, answers, base))
        rows += instance_rows(answers, base)
    return "\n\n".join(texts), rows, first


def _gpus(
    requests: Sequence[Request],
    model: PerformanceModel,
    cards: Sequence[Gpu],
    baseline: str | None,
    catalog: Catalog,
) -> tuple[str, list[dict[str, Any]], str]:
    cards_of = catalog.cards
    first = cards_of[sheet_name(baseline, cards_of)] if baseline else cards[0]
    shown = list(dict.fromkeys([*cards, first]))
    table: GpuTable = [
        (request, [on_gpu(request, model, card) for card in shown], on_gpu(request, model, first))
        for request in requests
    ]
    rows = [row for _, cells, base in table for row in gpu_rows(cells, base)]
    return gpus_text(table, first.name), rows, first.name


def _cards(catalog: Catalog, wanted: GpuWanted) -> list[Gpu]:
    """The cards that are meant: named ones in the order asked, else smallest first."""
    names = sorted(catalog.cards, key=lambda name: (catalog.cards[name].memory_mib, name))
    if wanted.names:
        names = [one for name in wanted.names for one in sheet_names(name, catalog.cards)]
    meant = [one for one in dict.fromkeys(names) if wanted.allows(catalog.gpus[one])]
    if not meant:
        raise UsageError("no GPU is like what --gpu asks for; ask for less")
    return [catalog.cards[name] for name in meant]
