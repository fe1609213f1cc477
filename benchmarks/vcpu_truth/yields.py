"""What second threads add, by several ways; the product's own always from the other CPUs alone."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.catalog.files import DATA_FOLDER
from advisor.infra.build.catalog.second_threads import usual_yield

_FILE = DATA_FOLDER / "sparecores" / "cpu_models.csv"
Yields = Mapping[str, float]


def bundled_yields(column: str) -> dict[str, float]:
    """A column of the bundled figures by CPU; those that have none are left out."""
    header, *lines = _FILE.read_text().splitlines()
    names = header.split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines]
    return {row["cpu_model"]: float(row[column]) for row in rows if row[column]}


def usual_without(mixed: Yields, cpu: str) -> float:
    """The median over all CPUs but this one."""
    return usual_yield({name: value for name, value in mixed.items() if name != cpu})
