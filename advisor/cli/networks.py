"""`advisor networks`: the networks that can be asked for, and what is known of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.parameters import Name
from advisor.errors import DataError
from advisor.operations.answering.networks import networks_document
from advisor.report.text import table

if TYPE_CHECKING:
    from models.performance import PerformanceModel

FORMAT = Name("output format", ("table", "json"))


@click.command()
@click.option("-o", "--output", type=FORMAT, default="table", show_default=True)
def networks(output: str) -> None:
    """The networks that can be asked for, and what is known of each.

    Rates are of GPUs: measured, published (measured by others, on at least one GPU) or modelled;
    `-` means that it can be built, and that no rate can be predicted yet.
    """
    document = networks_document(_model())
    if output == "json":
        click.echo(json.dumps(document, indent=2, allow_nan=False))
        return
    click.echo("\n".join(_table(document["networks"])))


def _model() -> PerformanceModel | None:
    """The performance model; without it the list is still worth its while."""
    from models.performance import load_model

    try:
        return load_model()
    except DataError as error:
        click.echo(f"advisor: rates are not shown: {error}", err=True)
        return None


def _table(rows: list[dict[str, Any]]) -> list[str]:
    header = ["name", "title", "tasks", "input", "unit", "parameters", "GMACs/unit", "GPU rates"]
    return table(header, [_cells(row) for row in rows], right=(5, 6))


def _cells(row: dict[str, Any]) -> list[str]:
    rates = {rate or "-" for rate in row["rates"].values()}
    told = [f"{task} {rate or '-'}" for task, rate in row["rates"].items()]
    return [
        row["name"],
        row["title"],
        ", ".join(row["tasks"]),
        "x".join(map(str, row["input_shape"])),
        row["unit"],
        f"{row['parameters'] / 1e6:.2f} M",
        f"{row['gmacs_per_sample']:.4g}",
        rates.pop() if len(rates) == 1 else ", ".join(told),
    ]
