"""The real out-of-memory grid: which batches ran on nine cards, against what the product says.

The answers are those of the memory model that ships, which has seen no row of the grid: traced
steps of the zoo's own networks, with the optimiser that the row names. Networks that the zoo does
not have are not answered. Most of the grid's runs are TensorFlow 1; the product speaks of PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from msgspec import Struct

from advisor.domain import Precision, Task
from advisor.models.performance.memory import Conditions, Optimizer, Verdict, bundled_profile, gpu_peak

FILE = Path("articles", "lambda2020_batch_grid_oom.csv")
COLUMNS = ("model", "batch", "gpu", "vram_gb", "fits")
# The grid's names for networks of the zoo, and their input: the same sizes as ours.
ZOO = {("NASNet Large", "331x331"): "nasnetalarge", ("BERT-Base SQuAD finetune", "seq384"): "bert_base_squad"}
_OPTIMIZERS = {"sgd": Optimizer.SGD, "momentum": Optimizer.MOMENTUM, "adam": Optimizer.ADAM}


class Cell(Struct, frozen=True):
    """One row: what was said of it, how sure, and whether it ran."""

    network: str
    verdict: Verdict
    probability: float
    ran: bool


def oom_grid(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Counts of each verdict against what happened, and what was not answered, in words."""
    path = folder / FILE
    if not path.is_file():
        return {}, [f"no {FILE} under --score"]
    frame = pd.read_csv(path)
    missing = set(COLUMNS) - set(frame.columns)
    if missing:
        return {}, [f"{FILE} lacks {', '.join(sorted(missing))}"]
    for name in ("batch", "vram_gb", "fits"):
        frame[name] = pd.to_numeric(frame[name], errors="coerce")
    numbers = frame[["batch", "vram_gb"]].replace([float("inf")], float("nan"))
    usable = frame[(numbers["batch"] >= 1) & (numbers["vram_gb"] > 0) & frame["fits"].isin([0, 1])]
    cells = list(_cells(usable.to_dict("records")))
    unknown = sorted({str(row["model"]) for row in usable.to_dict("records") if not _known(row)})
    said = [f"grid: the zoo has no {', '.join(unknown)}"] if unknown else []
    return _counts(cells, len(usable)), said


def _known(row: Mapping[str, Any]) -> str | None:
    return ZOO.get((str(row["model"]), str(row.get("input", ""))))


def _cells(rows: list[dict[str, Any]]) -> Iterator[Cell]:
    for row in rows:
        name = _known(row)
        if name is None:
            continue
        peak = gpu_peak(bundled_profile(name), _conditions(row))
        card = float(row["vram_gb"]) * 1024
        yield Cell(name, peak.verdict(card), peak.probability_fits(card), bool(row["fits"]))


def _conditions(row: Mapping[str, Any]) -> Conditions:
    optimizer = str(row.get("optimizer", "")).lower()
    kind = next((one for name, one in _OPTIMIZERS.items() if name in optimizer), Optimizer.ADAM)
    precision = Precision.FP32 if str(row.get("precision", "fp32")) == "fp32" else Precision.AMP
    return Conditions(
        task=Task.TRAINING,
        batch_size=int(row["batch"]),
        precision=precision,
        optimizer=Optimizer.MOMENTUM if "momentum" in optimizer else kind,
    )


def _counts(cells: list[Cell], rows: int) -> dict[str, Any]:
    table = {
        str(verdict): {
            "ran": sum(cell.ran for cell in cells if cell.verdict is verdict),
            "crashed": sum(not cell.ran for cell in cells if cell.verdict is verdict),
        }
        for verdict in Verdict
    }
    fits = table[str(Verdict.FITS)]
    told = fits["ran"] + fits["crashed"]
    return {
        "rows": rows,
        "answered": len(cells),
        "verdicts": table,
        "fits_but_crashes_percent": round(100 * fits["crashed"] / told, 2) if told else None,
        "brier_score": round(sum((cell.probability - cell.ran) ** 2 for cell in cells) / len(cells), 3)
        if cells
        else None,
    }
