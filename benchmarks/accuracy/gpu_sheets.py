"""Data sheets of the GPUs of cloud instances, from catalog/gpu_specs.csv of a directory."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from models.performance.transfer.sheets import Sheet, clock_ghz

SPECS = Path("catalog/gpu_specs.csv")
_NUMBERS = ("fp32_tflops", "cuda_cores", "memory_bandwidth_gb_s", "compute_capability")


def read_sheets(folder: Path) -> dict[str, Sheet]:
    """Sheets by AWS family ("g4dn"); empty without the file. Rows that lack a rate are left out.

    A family that several cards list (p4d ..) takes the first card.
    """
    path = folder / SPECS
    if not path.is_file():
        return {}
    sheets: dict[str, Sheet] = {}
    for row in pd.read_csv(path).to_dict("records"):
        families = row.get("aws_families")
        sheet = _sheet(row)
        if sheet is None or not isinstance(families, str):
            continue
        for family in families.split(";"):
            sheets.setdefault(family.split("(")[0].strip(), sheet)
    return sheets


def instance_sheet(sheets: dict[str, Sheet], instance: str) -> Sheet | None:
    """The sheet of an instance's GPU, by the instance's family."""
    return sheets.get(instance.partition(".")[0])


def _sheet(row: dict[str, object]) -> Sheet | None:
    try:
        fp32, cores, bandwidth, generation = (float(str(row[name])) for name in _NUMBERS)
        return Sheet(
            name=str(row["gpu"]),
            fp32_tflops=fp32,
            memory_gb_per_second=bandwidth,
            clock_ghz=clock_ghz(fp32, cores),
            generation=generation,
        )
    except (KeyError, ValueError, ZeroDivisionError):
        return None
