"""The tests that tell how far a prediction is to be trusted: truth that was measured, and kept from the fit.

`withheld.csv` is written from the scorers' pages, with the tables of docs/explanation/trust.md, by `python -m
benchmarks.truth.trust`."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from advisor.domain import Withheld

PATH = Path(__file__).parents[2] / "advisor" / "data" / "withheld.csv"
COLUMNS = "figure,what,median_percent,held_percent,rows"


@cache
def withheld_tests() -> dict[tuple[str, str], Withheld]:
    """Each test by the figure that was predicted ("rate", "TPOT", ..) and by what was withheld."""
    with PATH.open(encoding="utf-8", newline="") as lines:
        return {
            (row["figure"], row["what"]): Withheld(
                row["what"], float(row["median_percent"]), float(row["held_percent"]), int(row["rows"])
            )
            for row in csv.DictReader(lines)
        }
