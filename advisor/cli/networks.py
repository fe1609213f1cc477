"""`advisor networks`: the networks that can be asked for, and what is known of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from advisor.answers.listing import (
    Listed,
    families_of,
    gpus_measured,
    listed_networks,
    networks_document,
)
from advisor.cli.questions import Shown, output_option
from advisor.errors import DataError, unknown_name
from advisor.render.text import table

if TYPE_CHECKING:
    from models.performance import PerformanceModel

_TASKS = ("training", "inference")
_SHOWN_NAMES = 3


@click.command()
@click.argument("search", required=False, type=Shown("SEARCH"))
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
        raise unknown_name("network", search, known, listed_by="advisor networks --all")
    if output == "json":
        document = networks_document(model, found)
        click.echo(json.dumps(document, indent=2, allow_nan=False))
    elif search is None and not every:
        click.echo("\n".join(_families(found, model)))
    else:
        click.echo("\n".join(_table([one.document(model) for one in found])))


def _model() -> PerformanceModel | None:
    """The performance model; without it the list is still worth its while."""
    from models.performance import load_model

    try:
        return load_model()
    except DataError as error:
        click.echo(f"advisor: rates are not shown: {error}", err=True)
        return None


def _families(found: list[Listed], model: PerformanceModel | None) -> list[str]:
    """A line a family, and how to see more."""
    families = families_of(found)
    rows = [
        [
            family,
            f"{len(members):,}",
            f"{sum(_is_measured(one.name, model) for one in members):,}",
            ", ".join(member.name for member in members[:_SHOWN_NAMES])
            + (", .." if len(members) > _SHOWN_NAMES else ""),
        ]
        for family, members in families.items()
    ]
    header = ["family", "networks", "published", "names"]
    return [
        *table(header, rows, right=(1, 2)),
        "",
        f"{len(found):,} networks in {len(families):,} families; `advisor networks SEARCH` lists "
        "some of them, --all all; published: a rate on a GPU was measured by others",
    ]


def _is_measured(name: str, model: PerformanceModel | None) -> bool:
    return any(gpus_measured(name, task, model) for task in _TASKS)


def _table(rows: list[dict[str, Any]]) -> list[str]:
    header = ["family", "name", "title", "tasks", "input", "unit", "parameters", "GMACs/unit"]
    return table([*header, "GPU rates"], [_cells(row) for row in rows], right=(6, 7))


def _cells(row: dict[str, Any]) -> list[str]:
    told = {task: _known(row, task) for task in row["rates"]}
    alike = len(set(told.values())) == 1
    return [
        row["family"],
        row["name"],
        row["title"] if row["title"] != row["name"] else "",
        ", ".join(row["tasks"]),
        row["input"] or "x".join(map(str, row["input_shape"])),
        row["sample"],
        f"{row['parameters'] / 1e6:.2f} M",
        f"{row['gmacs_per_sample'] * row['samples_per_row']:.4g}",
        next(iter(told.values()))
        if alike
        else "; ".join(f"{task} {known}" for task, known in told.items()),
    ]


def _known(row: dict[str, Any], task: str) -> str:
    """'published on 3 GPUs', 'modelled', '-'."""
    rate, gpus = row["rates"][task], row["gpus_measured"][task]
    if not gpus:
        return rate or "-"
    return f"{rate} on {gpus} GPU{'' if gpus == 1 else 's'}"
