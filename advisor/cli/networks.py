"""`advisor networks`: the networks that can be asked for, and what is known of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.parameters import Name
from advisor.domain import Provenance, Task
from advisor.errors import DataError
from advisor.report.text import table
from models.zoo.networks import NETWORKS, NetworkInfo
from models.zoo.sizes import Size, known_size

if TYPE_CHECKING:
    from models.performance import PerformanceModel

SCHEMA = "advisor.networks/1"
FORMAT = Name("output format", ("table", "json"))
_BEST_FIRST = tuple(Provenance)


@click.command()
@click.option("-o", "--output", type=FORMAT, default="table", show_default=True)
def networks(output: str) -> None:
    """The networks that can be asked for, and what is known of each.

    Rates are of GPUs: measured, published (measured by others, on at least one GPU) or modelled;
    `-` means that it can be built, and that no rate can be predicted yet.
    """
    model = _model()
    rows = [_row(info, known_size(info.name), model) for info in NETWORKS.values()]
    if output == "json":
        click.echo(json.dumps({"schema": SCHEMA, "networks": rows}, indent=2, allow_nan=False))
        return
    click.echo("\n".join(_table(rows)))


def _model() -> PerformanceModel | None:
    """The performance model; without it the list is still worth its while."""
    from models.performance import load_model

    try:
        return load_model()
    except DataError as error:
        click.echo(f"advisor: rates are not shown: {error}", err=True)
        return None


def _row(info: NetworkInfo, size: Size, model: PerformanceModel | None) -> dict[str, Any]:
    return {
        "name": info.name,
        "title": info.title,
        "kind": str(info.kind),
        "tasks": [str(task) for task in info.tasks],
        "input_shape": list(info.input_shape),
        "unit": info.unit,
        "samples_per_row": info.samples_per_row,
        "parameters": size.parameters,
        "gmacs_per_sample": size.macs_per_sample / 1e9,
        "rates": {str(task): _rates(info.name, task, model) for task in _computed(info)},
        "needs": info.needs,
    }


def _computed(info: NetworkInfo) -> list[Task]:
    return [task for task in info.tasks if task is not Task.PREPROCESSING]


def _rates(name: str, task: Task, model: PerformanceModel | None) -> str | None:
    """The best provenance that any GPU's rate has; None where no rate can be told."""
    if model is None or name not in model.networks:
        return None
    cells = model.gpu_rates.anchors.items()
    known = {anchor.provenance for cell, anchor in cells if cell.startswith(f"{name}/{task}/")}
    return str(next((one for one in _BEST_FIRST if one in known), Provenance.MODELLED))


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
